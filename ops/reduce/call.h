// From reductions to ops: define() defines the ops of a list. reduce() invokes the op for a
// function of the public headers.
#pragma once

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include <locus/core/amp.h>
#include <locus/ops/elementwise/call.h>
#include <locus/ops/reduce.h>
#include <locus/ops/reduce/reduce_shape.h>
#include <locus/ops/reduce/sum.h>
#include <locus/ops/view.h>

namespace locus::reduction {

// `o`: ReduceOptions, or options with the same members and others.
template <class R>
Tensor reduce(const Tensor& data, const auto& o, R how, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<ReduceBy<R>> op(R::name);
  locus::detail::expect_tensor(R::name, data);
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

template <class R>
DType infer_reduced(std::span<const Meta> in, const ReduceBy<R>& a, std::span<Meta> out) {
  const DType d = in[0].dtype;
  if (R::kOrdered && std::popcount(a.axes) != 1 && a.axes != all_axes(in[0].rank))
    throw ShapeError("several axes are given; expected one axis, or none for the whole tensor");
  a.how.check(locus::detail::Expect{d});
  if (a.how.needs_elements()) need_elements(in[0], a);
  out[0] = reduced(in[0], a, dispatch(d, [](auto t) {
                     return dtype_of<typename R::template Out<typename decltype(t)::type>>();
                   }));
  return d;
}

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
  Tensor wide(const Tensor& t) const { return t.astype(f64); }
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
Tensors gradient_of(const Saved& saved, std::span<const Tensor> dout) {
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

template <class R>
Samples samples_of(Context c, DType d) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
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
    for (double ord : {0., 1., 3., -1.5, infinity, -infinity}) add({3, 5}, {2, false}, {{}, ord});
  return all;
}

template <class R>
void define_reduction() {
  OpDef<ReduceBy<R>> op(R::name, {"data"});
  op.layout(Layout::rows).template infer<&infer_reduced<R>>().template samples<&samples_of<R>>();
  constexpr Keep x = R::kReads & kX ? Keep::inputs : Keep::none;
  if constexpr (R::kNoGradient != nullptr)
    op.no_gradient(R::kNoGradient);
  else
    op.template gradient<&gradient_of<R>>(R::kReads & kOut ? x | Keep::outputs : x);
}

template <class... R>
void define(List<R...>) {
  (define_reduction<R>(), ...);
}

}  // namespace locus::reduction
