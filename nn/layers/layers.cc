#include <locus/nn/layers.h>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/nn/layers/dense_parts.h>
#include <locus/nn/options.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/random.h>
#include <locus/ops/view.h>

namespace locus::nn {

Dense::Dense(int64_t units, const Activation& activation, const DenseOptions& options)
    : units_(units), activation_(activation), options_(options) {
  if (units <= 0 || options.in_units < 0)
    throw ShapeError("Dense: units ", units, ", in_units ", options.in_units,
                     "; expected units > 0, in_units >= 0");
  weight_ = add_parameter("weight", {units, options.in_units}, weight_options(options));
  if (options.use_bias) bias_ = add_parameter("bias", {units}, bias_options(options));
}

Tensor Dense::forward(const Tensor& x) {
  if (!weight_.initialized() && weight_.deferred()) [[unlikely]]
    weight_.infer_shape({units_, features("Dense", x, options_.flatten)});
  refuse_other_dtype(x, weight_);
  return dense_layer(x, weight_, bias_, activation_, options_.flatten);
}

std::string Dense::repr() const {
  return text_of("Dense(", dense_text(weight_, units_, activation_), ")");
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
