#include <locus/ops/reduce.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include <locus/core/op.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce/reduce_kernel.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus {

using namespace reduction;

Axes::Axes(std::initializer_list<int> axes) : count_(static_cast<int>(axes.size())) {
  if (axes.size() > kMaxRank)
    throw ShapeError("axis: " + std::to_string(axes.size()) + " axes given; expected at most " +
                     std::to_string(kMaxRank));
  int i = 0;
  for (int a : axes) axes_[i++] = a;
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

uint32_t all_axes(int rank) { return (1u << rank) - 1; }

ReduceAttrs attributes(const Tensor& x, const Axes& axis, bool keepdims, const char* op) {
  const int rank = x.ndim();
  ReduceAttrs attrs{axis.all() ? all_axes(rank) : 0, keepdims};
  for (int a : axis.list()) {
    const uint32_t bit = 1u << normalize_axis(a, rank, op);
    if (attrs.axes & bit)
      throw ShapeError(std::string(op) + ": data " + describe(x) + ": axis " + std::to_string(a) +
                       " is given twice; expected distinct axes");
    attrs.axes |= bit;
  }
  return attrs;
}

template <class R>
Tensor reduce(const Tensor& data, const auto& o, R how = {}) {
  static const OpRef<ReduceBy<R>> op(R::name);
  const DType d = data.dtype(), taken = R::kTakes == Takes::floating  ? inexact(d)
                                        : R::kTakes == Takes::boolean ? bool_
                                                                      : d;
  const Tensor x = d == taken ? data : data.astype(taken);
  const ReduceBy<R> attrs{attributes(x, o.axis, o.keepdims, R::name), how};
  if (!o.out.defined()) return invoke(op, {x}, attrs);
  invoke_into(op, {x}, {o.out}, attrs);
  return o.out;
}

// Shape inference

Meta reduced(const Meta& in, const ReduceAttrs& a, DType dtype) {
  Meta out;
  out.dtype = dtype;
  for (int i = 0; i < in.rank; ++i) {
    const bool gone = a.axes >> i & 1;
    if (!gone || a.keepdims) out.shape[out.rank++] = gone ? 1 : in.shape[i];
  }
  return out;
}

void need_elements(const Meta& in, const ReduceAttrs& a) {
  for (int i = 0; i < in.rank; ++i)
    if ((a.axes >> i & 1) && in.shape[i] == 0)
      throw ShapeError("axis " + std::to_string(i) +
                       " has length 0; expected at least one element, since this reduction has no "
                       "value for none");
}

template <class R>
DType infer(std::span<const Meta> in, const ReduceBy<R>& a, std::span<Meta> out) {
  const DType d = in[0].dtype;
  if (R::kOrdered && std::popcount(a.axes) != 1 && a.axes != all_axes(in[0].rank))
    throw ShapeError("several axes are given; expected one axis, or none for the whole tensor");
  const auto need_number = [](const char* option, double v) {
    if (std::isnan(v)) throw ValueError(std::string(option) + " is NaN; expected a number");
  };
  if constexpr (requires { a.how.ord; }) need_number("ord", a.how.ord);
  if constexpr (requires { a.how.ddof; }) need_number("ddof", a.how.ddof);
  if (a.how.needs_elements()) need_elements(in[0], a);
  out[0] = reduced(in[0], a, dispatch(d, [](auto t) {
                     return dtype_of<typename R::template Out<typename decltype(t)::type>>();
                   }));
  return d;
}

DType infer_sum_to(std::span<const Meta> in, const SumToAttrs& a, std::span<Meta> out) {
  const Meta &from = in[0], &to = a.target;
  const int shift = from.rank - to.rank;
  bool fits = shift >= 0;
  for (int i = 0; fits && i < to.rank; ++i)
    fits = to.shape[i] == from.shape[i + shift] || to.shape[i] == 1;
  if (!fits)
    throw ShapeError("expected a shape that broadcasts to " + to_string(Shape(from)) + ", got " +
                     to_string(Shape(to)));
  out[0] = to;
  out[0].dtype = from.dtype;
  return from.dtype;
}

// Gradients

// A result with its reduced axes put back as length 1, so that it broadcasts against the input.
Tensor with_axes(const Tensor& t, const Saved& saved) {
  const ReduceAttrs& a = saved.attrs<ReduceAttrs>();
  if (a.keepdims || a.axes == 0) return t;
  return t.reshape(Shape(reduced(saved.in_meta(0), {a.axes, true}, t.dtype())));
}

int64_t reduced_count(const Saved& saved) {
  int64_t n = 1;
  for (int i = 0; i < saved.in_meta(0).rank; ++i)
    if (saved.attrs<ReduceAttrs>().axes >> i & 1) n *= saved.in_meta(0).shape[i];
  return n;
}

Tensors sum_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {broadcast_to(with_axes(dout[0], saved), saved.in_shape(0))};
}

Tensors mean_gradient(const Saved& saved, std::span<const Tensor> dout) {
  // In steps: n may be past what f16 holds, and 1 / n below it.
  double left = static_cast<double>(reduced_count(saved));
  Tensor scaled = dout[0];
  for (; left > 32768; left /= 32768) scaled = scaled / 32768;
  scaled = scaled / left;
  return {broadcast_to(with_axes(scaled, saved), saved.in_shape(0))};
}

// With exactly one 0 in a group only that element has a gradient, with two none has.
Tensors prod_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<ReduceBy<Prod>> prod_op("prod");
  static const OpRef<ReduceBy<Sum>> sum_op("sum");
  const ReduceAttrs kept{saved.attrs<ReduceAttrs>().axes, true};
  const Tensor& x = saved.in(0);
  const Tensor is_zero = x == 0;
  const Tensor nonzero = where(is_zero, 1, x);
  const Tensor zeros = invoke(sum_op, {is_zero}, {kept, {}});
  const Tensor product = invoke(prod_op, {nonzero}, {kept, {}}) * with_axes(dout[0], saved);
  const Tensor others = where(zeros == 0, product / nonzero, 0);
  return {where(is_zero, where(zeros == 1, product, 0), others)};
}

Tensors extreme_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const Tensor hit = saved.in(0) == with_axes(saved.out(), saved);
  return {hit.astype(dout[0].dtype()) * with_axes(dout[0], saved)};
}

// y, and 1 where that is 0.
Tensor divisor(const Tensor& y) { return where(y == 0, 1, y); }

// (x - mean) scale / (n - ddof)
Tensor from_mean(const Saved& saved, const Tensor& scale, double ddof) {
  static const OpRef<ReduceBy<Mean>> op("mean");
  const Tensor& x = saved.in(0);
  const Tensor mean = invoke(op, {x}, {{saved.attrs<ReduceAttrs>().axes, true}, {}});
  const double left = std::max(static_cast<double>(reduced_count(saved)) - ddof, 0.);
  return (x - mean) * with_axes(scale / left, saved);
}
Tensors var_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {from_mean(saved, dout[0] * 2, saved.attrs<ReduceBy<Var>>().how.ddof)};
}
Tensors std_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const Tensor& y = saved.out();
  const Tensor scale = dout[0] / divisor(y) * (y != 0);
  return {from_mean(saved, scale, saved.attrs<ReduceBy<Std>>().how.ddof)};
}

Tensors logsumexp_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const Tensor y = where(saved.out() == -kInfinity, 0, saved.out());
  return {exp(saved.in(0) - with_axes(y, saved)) * with_axes(dout[0], saved)};
}

Tensors norm_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const double p = saved.attrs<ReduceBy<Norm>>().how.ord;
  const Tensor &x = saved.in(0), &y = saved.out();
  if (p == 2) return {x * with_axes(dout[0] / divisor(y), saved)};
  const Tensor slope = sign(x) * with_axes(dout[0], saved);
  if (p == 1) return {slope};
  if (p == 0) return {slope * 0};
  const Tensor whole = with_axes(y, saved);
  if (std::isinf(p)) return {slope * (abs(x) == whole)};
  const Tensor live = whole != 0, part = where(live, divisor(x) / divisor(whole), 1);
  return {slope * live * pow(abs(part), p - 1)};
}

Tensors sum_to_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {broadcast_to(dout[0], saved.in_shape(0))};
}

// Samples

template <class R>
Samples samples(Context c, DType d) {
  Samples all;
  const auto add = [&](const Shape& shape, const ReduceAttrs& axes, const R& how = {}) {
    if (R::kOrdered && std::popcount(axes.axes) != 1 && axes.axes != all_axes(shape.rank())) return;
    all.push_back(Sample({sample_values(c, d, shape)}, ReduceBy<R>{axes, how}));
    all.back().differentiable = !R::kOrdered;
  };
  add({7}, {1, false});
  add({3, 5}, {1, false});
  add({3, 5}, {2, true});
  add({4, 1}, {3, false});
  add({2, 3, 2, 3}, {1 | 4 | 8, false});
  add({2, 3, 4}, {1 | 4, true});
  add({2, 3, 4}, {2, false});
  add({2, 3}, {0, false});
  if constexpr (requires(R r) { r.ddof; }) add({3, 5}, {2, false}, {{}, 1.5});
  if constexpr (requires(R r) { r.ord; })
    for (double ord : {0., 1., 3., -1.5, kInfinity, -kInfinity}) add({3, 5}, {2, false}, {{}, ord});
  return all;
}

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

Tensor sum(const Tensor& x, const ReduceOptions& o) { return reduce<Sum>(x, o); }
Tensor mean(const Tensor& x, const ReduceOptions& o) { return reduce<Mean>(x, o); }
Tensor prod(const Tensor& x, const ReduceOptions& o) { return reduce<Prod>(x, o); }
Tensor max(const Tensor& x, const ReduceOptions& o) { return reduce<Max>(x, o); }
Tensor min(const Tensor& x, const ReduceOptions& o) { return reduce<Min>(x, o); }
Tensor any(const Tensor& x, const ReduceOptions& o) { return reduce<Any>(x, o); }
Tensor all(const Tensor& x, const ReduceOptions& o) { return reduce<All>(x, o); }
Tensor argmax(const Tensor& x, const ReduceOptions& o) { return reduce<Arg<true>>(x, o); }
Tensor argmin(const Tensor& x, const ReduceOptions& o) { return reduce<Arg<false>>(x, o); }
Tensor logsumexp(const Tensor& x, const ReduceOptions& o) { return reduce<LogSumExp>(x, o); }
Tensor var(const Tensor& x, const VarOptions& o) { return reduce<Var>(x, o, {{}, o.ddof}); }
Tensor std(const Tensor& x, const VarOptions& o) { return reduce<Std>(x, o, {{}, o.ddof}); }
Tensor norm(const Tensor& x, const NormOptions& o) { return reduce<Norm>(x, o, {{}, o.ord}); }
Tensor sum_to(const Tensor& x, const Shape& shape) {
  static const OpRef<SumToAttrs> op("sum_to");
  if (x.shape() == shape) return x;
  return invoke(op, {x}, SumToAttrs{make_meta(x.dtype(), shape)});
}

Tensor Tensor::sum() const { return locus::sum(*this); }
Tensor Tensor::sum(const ReduceOptions& o) const { return locus::sum(*this, o); }
Tensor Tensor::mean() const { return locus::mean(*this); }
Tensor Tensor::mean(const ReduceOptions& o) const { return locus::mean(*this, o); }

void register_reduce() {
  const auto define = []<class R>(R) {
    OpDef<ReduceBy<R>> op(R::name, {"data"});
    op.layout(Layout::rows).template infer<&infer<R>>().template samples<&samples<R>>();
    return op;
  };
  define(Sum()).gradient<&sum_gradient>(Keep::none);
  define(Mean()).gradient<&mean_gradient>(Keep::none);
  define(Prod()).gradient<&prod_gradient>(Keep::inputs);
  define(Max()).gradient<&extreme_gradient>(Keep::both);
  define(Min()).gradient<&extreme_gradient>(Keep::both);
  define(Any()).no_gradient("booleans have none");
  define(All()).no_gradient("booleans have none");
  define(Arg<true>()).no_gradient("a position has none");
  define(Arg<false>()).no_gradient("a position has none");
  define(Var()).gradient<&var_gradient>(Keep::inputs);
  define(Std()).gradient<&std_gradient>(Keep::both);
  define(LogSumExp()).gradient<&logsumexp_gradient>(Keep::both);
  define(Norm()).gradient<&norm_gradient>(Keep::both);
  OpDef<SumToAttrs>("sum_to", {"data"})
      .layout(Layout::rows)
      .infer<&infer_sum_to>()
      .gradient<&sum_to_gradient>(Keep::none)
      .samples<&sum_to_samples>();
}

}  // namespace locus
