#include <locus/ops/reduce.h>

#include <string>

#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce/call.h>
#include <locus/ops/reduce/reductions.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus {

using namespace reduction;

Axes::Axes(std::initializer_list<int> axes) : Axes(std::span(axes.begin(), axes.size())) {}
Axes::Axes(std::span<const int> axes) : count_(static_cast<int>(axes.size())) {
  if (axes.size() > kMaxRank)
    throw ShapeError("Axes: ", axes.size(), " axes given; expected at most ", kMaxRank);
  int i = 0;
  for (int a : axes) axes_[i++] = a;
}

namespace {

DType infer_sum_to(std::span<const Meta> in, const SumToAttrs& a, std::span<Meta> out) {
  const Meta &from = in[0], &to = a.target;
  const int shift = from.rank - to.rank;
  bool fits = shift >= 0;
  for (int i = 0; fits && i < to.rank; ++i)
    fits = to.shape[i] == from.shape[i + shift] || to.shape[i] == 1;
  if (!fits)
    throw ShapeError("expected a shape that broadcasts to ", Shape(from), ", got ", Shape(to));
  out[0] = to;
  out[0].dtype = from.dtype;
  return from.dtype;
}

// Gradients

Tensors sum_to_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {broadcast_to(dout[0], saved.in_shape(0))};
}

// Samples

Samples sum_to_samples(Context c, DType d) {
  const auto target = [d](std::initializer_list<int64_t> dims) {
    return SumToAttrs{make_meta(d, {dims.begin(), dims.size()})};
  };
  return {
      Sample({sample_values(c, d, {4, 3})}, target({3})),
      Sample({sample_values(c, d, {4, 3})}, target({4, 1})),
      Sample({sample_values(c, d, {2, 4, 3})}, target({1, 3})),
      Sample({sample_values(c, d, {2, 3})}, target({})),
  };
}

}  // namespace

Tensor sum(const Tensor& x, const ReduceOptions& o, Caller from) {
  return reduce<Sum>(x, o, {}, from);
}
Tensor mean(const Tensor& x, const ReduceOptions& o, Caller from) {
  return reduce<Mean>(x, o, {}, from);
}
Tensor prod(const Tensor& x, const ReduceOptions& o, Caller from) {
  return reduce<Prod>(x, o, {}, from);
}
Tensor max(const Tensor& x, const ReduceOptions& o, Caller from) {
  return reduce<Max>(x, o, {}, from);
}
Tensor min(const Tensor& x, const ReduceOptions& o, Caller from) {
  return reduce<Min>(x, o, {}, from);
}
Tensor any(const Tensor& x, const ReduceOptions& o, Caller from) {
  return reduce<Any>(x, o, {}, from);
}
Tensor all(const Tensor& x, const ReduceOptions& o, Caller from) {
  return reduce<All>(x, o, {}, from);
}
Tensor argmax(const Tensor& x, const ReduceOptions& o, Caller from) {
  return reduce<ArgMax>(x, o, {}, from);
}
Tensor argmin(const Tensor& x, const ReduceOptions& o, Caller from) {
  return reduce<ArgMin>(x, o, {}, from);
}
Tensor logsumexp(const Tensor& x, const ReduceOptions& o, Caller from) {
  return reduce<LogSumExp>(x, o, {}, from);
}
Tensor var(const Tensor& x, const VarOptions& o, Caller from) {
  return reduce<Var>(x, o, {{}, o.ddof}, from);
}
Tensor std(const Tensor& x, const VarOptions& o, Caller from) {
  return reduce<Std>(x, o, {{}, o.ddof}, from);
}
Tensor norm(const Tensor& x, const NormOptions& o, Caller from) {
  return reduce<Norm>(x, o, {{}, o.ord}, from);
}
Tensor sum_to(const Tensor& x, const Shape& shape, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<SumToAttrs> op("sum_to");
  if (x.shape() == shape) return x;
  return invoke(op, {x}, SumToAttrs{make_meta(x.dtype(), shape)});
} catch (const Error&) {
  rethrow_at(from);
}

Tensor Tensor::sum(LineOnly line) const { return locus::sum(*this, {}, line.from); }
Tensor Tensor::sum(const ReduceOptions& o, Caller from) const { return locus::sum(*this, o, from); }
Tensor Tensor::mean(LineOnly line) const { return locus::mean(*this, {}, line.from); }
Tensor Tensor::mean(const ReduceOptions& o, Caller from) const {
  return locus::mean(*this, o, from);
}
Tensor Tensor::max(LineOnly line) const { return locus::max(*this, {}, line.from); }
Tensor Tensor::max(const ReduceOptions& o, Caller from) const { return locus::max(*this, o, from); }
Tensor Tensor::min(LineOnly line) const { return locus::min(*this, {}, line.from); }
Tensor Tensor::min(const ReduceOptions& o, Caller from) const { return locus::min(*this, o, from); }

void register_reduce() {
  reduction::define(Sums() + Extremes() + Positions() + Compound());
  OpDef<SumToAttrs>("sum_to", {"data"})
      .layout(Layout::rows)
      .infer<&infer_sum_to>()
      .gradient<&sum_to_gradient>(Keep::none)
      .samples<&sum_to_samples>();
}

}  // namespace locus
