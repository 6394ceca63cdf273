#include <locus/nn/tensor_parallel.h>

#include <algorithm>

#include <locus/core/error.h>
#include <locus/nn/block/sharded_tensor.h>
#include <locus/nn/layers/dense_parts.h>
#include <locus/ops/collective.h>
#include <locus/ops/view.h>

namespace locus::nn {

ParallelDense::ParallelDense(int64_t units, const Contexts& contexts, const Activation& activation,
                             int axis, const auto& o)
    : group_(contexts), units_(units), activation_(activation) {
  const char* const who = axis == 0 ? "ColumnParallelDense" : "RowParallelDense";
  const int64_t n = group_.size(), least = axis == 0 ? n : 1;
  if (units < least || o.in_units < 0)
    throw ShapeError(who, ": units ", units, ", in_units ", o.in_units, " over ", to_string(group_),
                     "; expected units >= ", least, ", in_units >= 0");
  if (axis == 1 && o.in_units > 0 && o.in_units < n)
    throw ShapeError(who, ": in_units ", o.in_units, " over ", to_string(group_),
                     "; expected at least one per context");
  weights_ = add_parts("weight", {units, o.in_units}, axis, contexts, weight_options(o));
  if (o.use_bias)
    biases_ =
        add_parts("bias", {units}, 0, axis == 0 ? contexts : Contexts(group_[0]), bias_options(o));
  biases_.resize(weights_.size());
}

void ParallelDense::check(const Tensors& in, bool but_last_axis) const {
  if (in.size() != weights_.size())
    throw Error(type_name(), ": ", in.size(), " inputs for ", to_string(group_),
                "; expected one per context: broadcast(group, x)");
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].context() != context(i))
      throw ContextMismatch(type_name(), ": input ", i, " is ", describe(in[i]),
                            "; expected it on ", context(i));
    const Shape shape = in[i].shape(), first = in[0].shape();
    if (shape.rank() == 0)
      throw ShapeError(type_name(), ": input ", describe(in[i]), "; expected (batch, features)");
    const int compared = shape.rank() - (but_last_axis ? 1 : 0);
    if (shape.rank() != first.rank() ||
        !std::equal(shape.begin(), shape.begin() + compared, first.begin()))
      throw ShapeError(type_name(), ": input 0 is ", describe(in[0]), ", input ", i, " is ",
                       describe(in[i]), "; expected one shape",
                       but_last_axis ? ", but for the last axis" : "");
    refuse_other_dtype(in[i], weights_[i]);
  }
}

void ParallelDense::complete(int64_t in_units) const {
  for (const Parameter& w : weights_)
    if (!w.initialized() && w.deferred()) w.infer_shape({units_, in_units});
}

std::string ParallelDense::repr() const {
  return text_of(type_name(), "(", dense_text(weights_[0], units_, activation_), ", ",
                 to_string(group_), ")");
}

ColumnParallelDense::ColumnParallelDense(int64_t units, const Contexts& contexts,
                                         const Activation& activation,
                                         const ColumnParallelDenseOptions& o)
    : ParallelDense(units, contexts, activation, 0, o),
      flatten_(o.flatten),
      gather_(o.gather_output) {}

Tensors ColumnParallelDense::forward(const Tensors& in) {
  check(in, false);
  complete(features(type_name(), in[0], flatten_));
  Tensors out;
  for (size_t i = 0; i < in.size(); ++i)
    out.push_back(dense_layer(in[i], weights_[i], biases_[i], activation_, flatten_));
  return gather_ ? all_gather(group_, out, {.axis = -1}) : out;
}

RowParallelDense::RowParallelDense(int64_t units, const Contexts& contexts,
                                   const Activation& activation, const RowParallelDenseOptions& o)
    : ParallelDense(units, contexts, activation, 1, o), parallel_(o.input_is_parallel) {}

Tensors RowParallelDense::forward(const Tensors& in) {
  check(in, parallel_);
  const auto width = [](const Tensor& x) { return x.shape()[x.ndim() - 1]; };
  int64_t in_units = parallel_ ? 0 : width(in[0]);
  for (size_t i = 0; parallel_ && i < in.size(); ++i) in_units += width(in[i]);
  const int64_t known = weights_[0].full_shape()[1];
  if (in_units < group_.size() || (known > 0 && known != in_units))
    throw ShapeError(type_name(), ": inputs of ", in_units, " features, input 0 ", describe(in[0]),
                     "; expected ",
                     known > 0 ? std::to_string(known) : std::string("at least one per context"));
  const auto begin = [&](size_t i) { return part_begin(in_units, in.size(), i); };
  for (size_t i = 0; parallel_ && i < in.size(); ++i)
    if (width(in[i]) != begin(i + 1) - begin(i))
      throw ShapeError(type_name(), ": input ", i, " is ", describe(in[i]), "; expected ",
                       begin(i + 1) - begin(i), " of ", in_units,
                       " features, as a ColumnParallelDense gives them");
  complete(in_units);
  Tensors out;
  for (size_t i = 0; i < in.size(); ++i) {
    const Tensor mine = parallel_ ? in[i] : slice_axis(in[i], -1, Slice(begin(i), begin(i + 1)));
    out.push_back(dense_layer(mine, weights_[i], biases_[i], {}, false));
  }
  out = all_reduce(group_, out);
  for (Tensor& y : out) y = activation_(y);
  return out;
}

}  // namespace locus::nn
