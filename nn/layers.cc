#include <locus/nn/layers.h>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/nn/options.h>
#include <locus/ops/dense.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/random.h>
#include <locus/ops/view.h>

namespace locus::nn {

Dense::Dense(int64_t units, const Activation& activation, const DenseOptions& options)
    : units_(units), activation_(activation), options_(options) {
  if (units <= 0 || options.in_units < 0)
    throw ShapeError("Dense: units ", units, ", in_units ", options.in_units,
                     "; expected units > 0, in_units >= 0");
  weight_ = add_parameter("weight", {units, options.in_units},
                          {.init = options.weight_initializer, .dtype = options.dtype});
  if (options.use_bias)
    bias_ =
        add_parameter("bias", {units},
                      {.init = options.bias_initializer ? options.bias_initializer : init::Zero(),
                       .dtype = options.dtype});
}

Tensor Dense::forward(const Tensor& x) {
  if (!weight_.initialized() && weight_.deferred()) [[unlikely]] {
    const Shape shape = x.shape();
    if (shape.rank() < (options_.flatten ? 2 : 1))
      throw ShapeError("Dense: input ", describe(x), "; expected (batch, features)");
    int64_t width = 1;
    for (int i = options_.flatten ? 1 : shape.rank() - 1; i < shape.rank(); ++i) width *= shape[i];
    if (width == 0)
      throw ShapeError("Dense: input ", describe(x), " has no features; expected at least one");
    weight_.infer_shape({units_, width});
  }
  refuse_other_dtype(x, weight_);
  const Context where = x.context();
  const Tensor weight = weight_.data(where);  // first: errors name it before the bias
  const Tensor bias = bias_.valid() ? bias_.data(where) : Tensor();
  const Tensor y = dense(x, weight, bias, activation_.fused, options_.flatten);
  return activation_.fused == locus::Activation::none ? activation_(y) : y;
}

std::string Dense::repr() const {
  const int64_t in = weight_.shape()[1];
  return text_of("Dense(", in == 0 ? "None" : std::to_string(in), " -> ", units_, ", ",
                 activation_.name, ")");
}

Tensor Flatten::forward(const Tensor& x) { return locus::flatten(x); }

Dropout::Dropout(double rate) : rate_(rate) {
  options::expect("Dropout", "rate", rate, options::decay);
}

Tensor Dropout::forward(const Tensor& x) {
  if (rate_ == 0 || !autograd::is_training()) return x;
  Tensor mask;
  {
    const autograd::Pause pause;
    mask = random::bernoulli(1 - rate_, x.shape(), {x.context(), x.dtype()}) / (1 - rate_);
  }
  return x * mask;
}

Lambda::Lambda(std::function<Tensor(const Tensor&)> function, std::string name)
    : function_(std::move(function)), name_(std::move(name)) {
  options::expect_function("Lambda", "function", function_);
}

std::string Dropout::repr() const { return text_of("Dropout(p = ", rate_, ", axes=())"); }

}  // namespace locus::nn
