#include <locus/nn/metric.h>

#include <algorithm>
#include <limits>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce.h>

namespace locus::metric {

void Accuracy::update(const Tensor& labels, const Tensor& preds) {
  const autograd::Pause pause;
  const Shape shape = labels.shape();
  Tensor classes = preds;
  if (preds.shape() != shape) {
    if (preds.ndim() != shape.rank() + 1 ||
        !std::equal(shape.begin(), shape.end(), preds.shape().begin()))
      throw ShapeError("Accuracy: labels ", describe(labels), " for preds ", describe(preds),
                       "; expected preds of the labels' shape, or with one more axis, the classes");
    classes = argmax(preds, {.axis = -1});
  }
  const Tensor right = sum(classes == labels);
  const auto count = std::ranges::find(right_, right.context(), &Tensor::context);
  if (count == right_.end())
    right_.push_back(right);
  else
    *count = *count + right;
  total_ += shape.size();
}

void Accuracy::update(const Tensors& labels, const Tensors& preds) {
  if (labels.size() != preds.size())
    throw ShapeError("Accuracy: ", labels.size(), " labels for ", preds.size(),
                     " preds; expected as many");
  for (size_t i = 0; i < labels.size(); ++i) update(labels[i], preds[i]);
}

void Accuracy::reset() {
  right_.clear();
  total_ = 0;
}

std::pair<std::string, double> Accuracy::get(Caller from) const {
  if (total_ == 0) return {"accuracy", std::numeric_limits<double>::quiet_NaN()};
  int64_t right = 0;
  for (const Tensor& count : right_) right += count.item<int64_t>(from);
  return {"accuracy", static_cast<double>(right) / static_cast<double>(total_)};
}

}  // namespace locus::metric
