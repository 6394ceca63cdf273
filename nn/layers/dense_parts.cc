#include <locus/nn/layers/dense_parts.h>

#include <locus/core/error.h>
#include <locus/ops/dense.h>

namespace locus::nn {

int64_t features(const std::string& who, const Tensor& x, bool flatten) {
  const Shape shape = x.shape();
  if (shape.rank() < (flatten ? 2 : 1))
    throw ShapeError(who, ": input ", describe(x), "; expected (batch, features)");
  int64_t width = 1;
  for (int i = flatten ? 1 : shape.rank() - 1; i < shape.rank(); ++i) width *= shape[i];
  if (width == 0)
    throw ShapeError(who, ": input ", describe(x), " has no features; expected at least one");
  return width;
}

Tensor dense_layer(const Tensor& x, const Parameter& weight, const Parameter& bias,
                   const Activation& activation, bool flatten) {
  const Context where = x.context();
  const Tensor w = weight.data(where);  // first, so that errors name it
  const Tensor b = bias.valid() ? bias.data(where) : Tensor();
  const Tensor y = dense(x, w, b, activation.fused, flatten);
  return activation.fused == locus::FusedActivation::none ? activation(y) : y;
}

std::string dense_text(const Parameter& weight, int64_t units, const Activation& activation) {
  const int64_t in = weight.full_shape()[1];
  return text_of(in == 0 ? "None" : std::to_string(in), " -> ", units, ", ", activation.name);
}

}  // namespace locus::nn
