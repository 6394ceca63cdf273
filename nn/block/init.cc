#include <locus/nn/init.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <locus/core/autograd.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>
#include <locus/nn/options.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/random.h>
#include <locus/ops/view.h>

namespace locus::init {
namespace {

double checked(const char* who, const char* option, double v) {
  options::expect(who, option, v, options::not_negative);
  return v;
}

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
void check_matrix(const char* who, const Shape& shape) {
  if (shape.rank() < 2)
    throw ShapeError("init::", who, ": a shape of ", shape,
                     "; expected at least two axes, (out, in, ...)");
}
void check(const char* who, const char* option, RandomType t) {
  options::expect_enumerator(who, option, t, RandomType::gaussian,
                             "RandomType::uniform or RandomType::gaussian");
}
void check(const char* who, FactorType t) {
  options::expect_enumerator(who, "factor_type", t, FactorType::out,
                             "FactorType::avg, FactorType::in or FactorType::out");
}
std::vector<double> numbers(const XavierOptions& o) {
  return {static_cast<double>(o.rnd_type), static_cast<double>(o.factor_type), o.magnitude};
}
Initializer::Fill xavier_fill(const char* who, const XavierOptions& o) {
  return [who, o](const Shape& shape, DType dtype) {
    check_matrix(who, shape);
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

// For a few rows, one after the other.
void orthonormalize(double* matrix, int64_t rows, int64_t columns) {
  for (double* row = matrix; row < matrix + rows * columns; row += columns) {
    for (const double* other = matrix; other < row; other += columns) {
      const double along = std::inner_product(row, row + columns, other, 0.0);
      for (int64_t k = 0; k < columns; ++k) row[k] -= along * other[k];
    }
    const double length = std::sqrt(std::inner_product(row, row + columns, row, 0.0));
    for (int64_t k = 0; k < columns; ++k) row[k] /= length;
  }
}

// Block Gram-Schmidt, twice for each block: as orthogonal as f64 allows (Giraud et al., 2005).
void orthonormalize(const Tensor& matrix) {
  constexpr int64_t kBlock = 32;
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    const Tensor done = matrix(Slice(0, begin));
    Tensor block = matrix(Slice(begin, begin + kBlock));
    for (int pass = 0; pass < 2; ++pass) {
      block -= matmul(matmul(block, done, MatmulAttrs{.transpose_b = true}), done);
      orthonormalize(static_cast<double*>(block.data_ptr()), block.shape()[0], columns);
    }
  }
}

Initializer::Fill orthogonal_fill(const OrthogonalOptions& o) {
  return [o](const Shape& shape, DType dtype) {
    check_matrix("Orthogonal", shape);
    capture::check("init::Orthogonal", "the host computes part of it; call it before");
    if (shape.size() == 0) return zeros(shape, {cpu(), dtype});
    const int64_t out = shape[0], in = shape.size() / out;
    const int64_t rows = std::min(out, in), columns = std::max(out, in);
    const auto fill = o.rand_type == RandomType::uniform ? uniform_fill(1) : normal_fill(1);
    const Tensor q = fill({rows, columns}, f64);
    orthonormalize(q);
    return cast((out > in ? q.T() : q).reshape(shape) * o.scale, dtype);
  };
}

Tensor bilinear(const Shape& shape, DType dtype) {
  if (shape.rank() != 4)
    throw ShapeError("init::Bilinear: a shape of ", shape, "; expected (out, in, height, width)");
  const auto ramp = [](int64_t n) {
    const double f = std::ceil(static_cast<double>(n) / 2);
    const double center = (2 * f - 1 - std::fmod(f, 2)) / (2 * f);
    const Tensor d = arange(static_cast<double>(n), {cpu(), f64}) / f - center;
    return 1 - maximum(d, -d);
  };
  const Tensor kernel = ramp(shape[2]).reshape({shape[2], 1}) * ramp(shape[3]);
  return cast(contiguous(broadcast_to(kernel, shape)), dtype);
}

Initializer::Fill lstm_bias_fill(double forget_bias) {
  return [forget_bias](const Shape& shape, DType dtype) {
    if (shape.rank() == 0 || shape[0] % 4 != 0)
      throw ShapeError("init::LSTMBias: a shape of ", shape, "; expected (4 * units,)");
    const Tensor bias = zeros(shape, {cpu(), dtype});
    bias(Slice(shape[0] / 4, shape[0] / 2)) = forget_bias;
    return bias;
  };
}

}  // namespace

Initializer::Initializer(std::string name, Fill fill)
    : name_(std::move(name)), fill_(std::make_shared<const Fill>(std::move(fill))) {
  options::expect_function("init::" + name_, "fill", *fill_);
}

Initializer::Initializer(std::string name, std::vector<double> options, Fill fill)
    : Initializer(std::move(name), std::move(fill)) {
  options_ = std::move(options);
}

bool Initializer::operator==(const Initializer& other) const {
  return fill_ == other.fill_ || (options_ && options_ == other.options_ && name_ == other.name_);
}

Tensor Initializer::operator()(const Shape& shape, DType dtype) const {
  Tensor values = (*fill_)(shape, dtype);
  if (!values.defined() || values.shape() != shape)
    throw ShapeError("init::", name_, ": fill gave ",
                     values.defined() ? describe(values) : "no tensor", "; expected shape ", shape);
  return values;
}

Uniform::Uniform(double scale)
    : Initializer("uniform", {scale}, uniform_fill(checked("init::Uniform", "scale", scale))) {}
Normal::Normal(double sigma)
    : Initializer("normal", {sigma}, normal_fill(checked("init::Normal", "sigma", sigma))) {}
Xavier::Xavier(const XavierOptions& options)
    : Initializer("xavier", numbers(options), xavier_fill("Xavier", options)) {
  checked("init::Xavier", "magnitude", options.magnitude);
  check("init::Xavier", "rnd_type", options.rnd_type);
  check("init::Xavier", options.factor_type);
}
MSRAPrelu::MSRAPrelu(const MSRAPreluOptions& options)
    : Initializer(
          "msraprelu", {static_cast<double>(options.factor_type), options.slope},
          xavier_fill("MSRAPrelu", {.rnd_type = RandomType::gaussian,
                                    .factor_type = options.factor_type,
                                    .magnitude = 2 / (1 + options.slope * options.slope)})) {
  check("init::MSRAPrelu", options.factor_type);
  options::expect("init::MSRAPrelu", "slope", options.slope, options::finite);
}
Orthogonal::Orthogonal(const OrthogonalOptions& options)
    : Initializer("orthogonal", {options.scale, static_cast<double>(options.rand_type)},
                  orthogonal_fill(options)) {
  checked("init::Orthogonal", "scale", options.scale);
  check("init::Orthogonal", "rand_type", options.rand_type);
}
Bilinear::Bilinear() : Initializer("bilinear", {}, &bilinear) {}
LSTMBias::LSTMBias(double forget_bias)
    : Initializer("lstmbias", {forget_bias}, lstm_bias_fill(forget_bias)) {
  options::expect("init::LSTMBias", "forget_bias", forget_bias, options::finite);
}
Constant::Constant(double value) : Initializer("constant", {value}, constant_fill(value)) {}
Zero::Zero() : Initializer("zero", {}, constant_fill(0)) {}
One::One() : Initializer("one", {}, constant_fill(1)) {}

}  // namespace locus::init
