#include <locus/ops/reduce.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include <locus/core/amp.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/elementwise/call.h>
#include <locus/ops/reduce/reduce_shape.h>
#include <locus/ops/reduce/reductions.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus {

using namespace reduction;

Axes::Axes(std::initializer_list<int> axes) : count_(static_cast<int>(axes.size())) {
  if (axes.size() > kMaxRank)
    throw ShapeError("axis: ", axes.size(), " axes given; expected at most ", kMaxRank);
  int i = 0;
  for (int a : axes) axes_[i++] = a;
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class R>
Tensor reduce(const Tensor& data, const auto& o, R how, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<ReduceBy<R>> op(R::name);
  detail::expect_tensor(R::name, data);
  const DType d = data.dtype(), taken = R::kKinds == kFloats ? inexact(d)
                                        : R::kKinds == kBool ? bool_
                                                             : d;
  constexpr bool kSums = R::kKinds == kFloats || std::is_same_v<R, Sum> || std::is_same_v<R, Prod>;
  const bool widens = kSums && !o.out.defined();
  const Tensor x = d != taken ? data.astype(taken) : widens ? amp::widen(data) : data;
  const ReduceBy<R> attrs{reduce_attrs(data, o.axis, o.keepdims, R::name), how};
  if (!o.out.defined()) return invoke(op, {x}, attrs);
  invoke_into(op, {x}, {o.out}, attrs);
  return o.out;
} catch (const Error&) {
  rethrow_at(from);
}

// Shape inference

template <class R>
DType infer(std::span<const Meta> in, const ReduceBy<R>& a, std::span<Meta> out) {
  const DType d = in[0].dtype;
  if (R::kOrdered && std::popcount(a.axes) != 1 && a.axes != all_axes(in[0].rank))
    throw ShapeError("several axes are given; expected one axis, or none for the whole tensor");
  a.how.check(detail::Expect{d});
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
    throw ShapeError("expected a shape that broadcasts to ", Shape(from), ", got ", Shape(to));
  out[0] = to;
  out[0].dtype = from.dtype;
  return from.dtype;
}

// Gradients

// The `over` of grad() in reductions.
struct Over {
  uint32_t axes;
  double count;

  template <class R>
  Tensor operator()(const R& how, const Tensor& x) const {
    static const OpRef<ReduceBy<R>> op(R::name);
    return invoke(op, {x}, {{axes, true}, how});
  }
  Tensor sum(const Tensor& t) const { return (*this)(Sum(), t); }
  // t minus its mean. The second mean corrects the first one's rounding.
  Tensor centered(const Tensor& t) const {
    const Tensor near = t - (*this)(Mean(), t);
    return near - (*this)(Mean(), near);
  }
  // t / (count - ddof). Beside f16 or bf16, a number is rounded to that dtype, which holds integers
  // up to 256.
  Tensor share(const Tensor& t, double ddof = 0) const {
    const double n = std::max(count - ddof, 0.);
    if (size_of(t.dtype()) == 2 && (n > 256 || n != std::floor(n)))
      return (t.astype(f32) / n).astype(t.dtype());
    return t / n;
  }
};
template <class R>
Tensors gradient(const Saved& saved, std::span<const Tensor> dout) {
  const auto& a = saved.attrs<ReduceBy<R>>();
  const Meta& in = saved.in_meta(0);
  Over over{a.axes, 1};
  for (int i = 0; i < in.rank; ++i)
    if (a.axes >> i & 1) over.count *= static_cast<double>(in.shape[i]);
  const auto with_axes = [&](const Tensor& t) {
    if (a.keepdims || a.axes == 0 || !t.defined()) return t;
    return t.reshape(Shape(reduced(in, {a.axes, true}, t.dtype())));
  };
  const bool wide = !R::kInRange && size_of(in.dtype) == 2;
  const auto taken = [&](const Tensor& t) { return wide && t.defined() ? t.astype(f32) : t; };
  const Tensor y = with_axes(taken(saved.out())), dy = with_axes(taken(dout[0]));
  Tensor dx = a.how.grad(wide ? taken(saved.in(0)) : saved.in(0), y, dy, over);
  if (wide) dx = dx.astype(in.dtype);
  return {dx.shape() == Shape(in) ? dx : broadcast_to(dx, Shape(in))};
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

template <class R>
void define_reduction() {
  OpDef<ReduceBy<R>> op(R::name, {"data"});
  op.layout(Layout::rows).template infer<&infer<R>>().template samples<&samples<R>>();
  constexpr Keep x = R::kReads & kX ? Keep::inputs : Keep::none;
  if constexpr (R::kNoGradient != nullptr)
    op.no_gradient(R::kNoGradient);
  else
    op.template gradient<&gradient<R>>(R::kReads & kOut ? x | Keep::outputs : x);
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
  const auto define = []<class... R>(List<R...>) { (define_reduction<R>(), ...); };
  define(Sums() + Extremes() + Positions() + Compound());
  OpDef<SumToAttrs>("sum_to", {"data"})
      .layout(Layout::rows)
      .infer<&infer_sum_to>()
      .gradient<&sum_to_gradient>(Keep::none)
      .samples<&sum_to_samples>();
}

}  // namespace locus
