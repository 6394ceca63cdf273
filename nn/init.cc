#include <locus/nn/init.h>

#include <cmath>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/ops/create.h>
#include <locus/ops/random.h>

namespace locus::init {
namespace {

Initializer::Fill uniform_fill(double scale) {
  return [scale](const Shape& shape, DType dtype) {
    return random::uniform(-scale, scale, shape, {cpu(), dtype});
  };
}
Initializer::Fill normal_fill(double sigma) {
  return [sigma](const Shape& shape, DType dtype) {
    return random::normal(0, sigma, shape, {cpu(), dtype});
  };
}
Initializer::Fill constant_fill(double value) {
  return [value](const Shape& shape, DType dtype) { return full(shape, value, {cpu(), dtype}); };
}
Initializer::Fill xavier_fill(const XavierOptions& o) {
  return [o](const Shape& shape, DType dtype) {
    if (shape.rank() < 2)
      throw ShapeError("init::Xavier: a shape of ", shape,
                       "; expected at least two axes, (out, in, ...)");
    double area = 1;
    for (int i = 2; i < shape.rank(); ++i) area *= static_cast<double>(shape[i]);
    const double out = static_cast<double>(shape[0]) * area;
    const double in = static_cast<double>(shape[1]) * area;
    const double factor = o.factor_type == FactorType::avg  ? (in + out) / 2
                          : o.factor_type == FactorType::in ? in
                                                            : out;
    const double scale = std::sqrt(o.magnitude / factor);
    return o.rnd_type == RandomType::uniform ? uniform_fill(scale)(shape, dtype)
                                             : normal_fill(scale)(shape, dtype);
  };
}

}  // namespace

Uniform::Uniform(double scale) : Initializer("uniform", uniform_fill(scale)) {}
Normal::Normal(double sigma) : Initializer("normal", normal_fill(sigma)) {}
Xavier::Xavier(const XavierOptions& options) : Initializer("xavier", xavier_fill(options)) {}
Constant::Constant(double value) : Initializer("constant", constant_fill(value)) {}
Zero::Zero() : Initializer("zero", constant_fill(0)) {}
One::One() : Initializer("one", constant_fill(1)) {}

}  // namespace locus::init
