#include <locus/ops/scan.h>

#include <locus/core/amp.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/elementwise/call.h>
#include <locus/ops/index/index_parts.h>
#include <locus/ops/join.h>
#include <locus/ops/scan/scan_kernel.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus {

namespace {

using detail::widened;  // gradients have steps that leave the range of f16

template <class S>
DType infer_scan(std::span<const Meta> in, const typename S::Attrs& a, std::span<Meta> out) {
  if (a.axis < 0 || a.axis >= in[0].rank)
    throw ShapeError("expected at least one axis, and axis in [0, ", in[0].rank, "), got ", a.axis);
  for (const Meta& m : in)
    if (Shape(m) != Shape(in[0]) || m.dtype != in[0].dtype)
      throw ShapeError("expected operands of one shape and dtype");
  out[0] = in[0];
  out[0].dtype = dispatch(in[0].dtype, [](auto t) {
    using T = typename decltype(t)::type;
    return dtype_of<typename S::Reduction::template Out<T>>();
  });
  if constexpr (S::kOut == 2) {
    out[1] = in[0];
    out[1].dtype = i64;
  }
  return in[0].dtype;
}

template <class S>
Tensor scanned(std::initializer_list<Ref> in, int axis) {
  static const OpRef<ScanAttrs> op(S::name);
  return invoke(op, in, ScanAttrs{axis});
}
// The same from the end of the axis to its beginning.
template <class S>
Tensor scanned_back(const Tensor& x, int axis) {
  return flip(scanned<S>({flip(x, axis)}, axis), axis);
}
template <class S>
Tensor scanned_back(const Tensor& v, const Tensor& t, const Tensor& u, int axis) {
  return flip(scanned<S>({flip(v, axis), flip(t, axis), flip(u, axis)}, axis), axis);
}
// next() has x[i + 1] at i, and 0 at the end. previous() has x[i - 1] at i, and `first` at the
// beginning.
Tensor next(const Tensor& x, int axis) {
  const Tensor last = slice_axis(x, axis, Slice(-1, {}));
  return concat({slice_axis(x, axis, Slice(1, {})), zeros_like(last)}, {.axis = axis});
}
Tensor previous(const Tensor& x, int axis, double first) {
  const Tensor head = zeros_like(slice_axis(x, axis, Slice(0, 1))) + first;
  return concat({head, slice_axis(x, axis, Slice({}, -1))}, {.axis = axis});
}

// Gradients

Tensors cumsum_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {scanned_back<scan::CumSum>(dout[0], saved.attrs<ScanAttrs>().axis)};
}

// Returns s, where s[k] = x[k + 1] s[k + 1] + dy[k], and the last s is the last dy.
Tensor recurrence_back(const Tensor& x, const Tensor& dy, int axis) {
  const Tensor a = flip(next(x, axis), axis);
  return flip(scanned<scan::Recurrence>({a, flip(dy, axis)}, axis), axis);
}

// dx[k] is the product of all before x[k], times dy[k] + x[k + 1] dy[k + 1] + ... In f64, for
// products of up to the range of f32.
Tensors cumprod_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const int axis = saved.attrs<ScanAttrs>().axis;
  if (saved.in(0).size() == 0) return {zeros_like(saved.in(0))};
  const Tensor x = saved.in(0).astype(f64), dy = dout[0].astype(f64);
  const Tensor before = cumprod(previous(x, axis, 1), axis);
  return {detail::as(before * recurrence_back(x, dy, axis), saved.in_dtype(0))};
}
Tensors recurrence_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const int axis = saved.attrs<ScanAttrs>().axis;
  if (saved.in(0).size() == 0) return {zeros_like(saved.in(0)), zeros_like(saved.in(0))};
  const Tensor db = recurrence_back(saved.in(0), dout[0], axis);
  return {db * previous(saved.out(), axis, 0), db};
}

// dx[k] is the sum of dy[i] exp(x[k] - y[i]) over i >= k.
Tensors logcumsumexp_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const int axis = saved.attrs<ScanAttrs>().axis;
  const Tensor x = widened(saved.in(0)), y = widened(saved.out()), dy = widened(dout[0]);
  // If all elements so far are -inf, so is y, and exp(x - y) counts as 0.
  const Tensor top = where(y == -m::infinity(1.0), 0, y);
  return {detail::as(scanned_back<scan::CumSumExp>(dy, -top, x, axis), saved.in_dtype(0))};
}
Tensors cumsum_exp_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const int axis = saved.attrs<ScanAttrs>().axis;
  const Tensor v = widened(saved.in(0)), t = widened(saved.in(1)), u = widened(saved.in(2)),
               dy = widened(dout[0]);
  Tensors grads(3);
  if (saved.needs(0) || saved.needs(1)) {
    const Tensor dv = scanned_back<scan::CumSumExp>(dy, u, t, axis);
    if (saved.needs(0)) grads[0] = detail::as(dv, saved.in_dtype(0));
    if (saved.needs(1)) grads[1] = detail::as(dv * v, saved.in_dtype(1));
  }
  if (saved.needs(2)) grads[2] = detail::as(dy * widened(saved.out()), saved.in_dtype(2));
  return grads;
}

// Adds each dy to the element that its result came from.
Tensors extreme_gradient(const Saved& saved, std::span<const Tensor> dout) {
  if (!dout[0].defined()) return {Tensor()};
  TakeAttrs to{.along = 1};
  to.axes[0] = static_cast<int8_t>(saved.attrs<ExtremeAttrs>().axis);
  const Tensor positions = saved.out(1);
  const Ref ids[] = {positions};
  const Tensor dx = detail::add_to_zeros(saved.in_shape(0), widened(dout[0]), ids, to);
  return {detail::as(dx, saved.in_dtype(0))};
}

// Samples

template <class S>
Samples samples_of(Context c, DType d) {
  Samples all;
  const auto add = [&](const Shape& shape, int axis) {
    Tensors in;
    for (int i = 0; i < S::kIn; ++i) in.push_back(sample_values(c, d, shape, -2, 2, i));
    all.push_back(Sample(in, typename S::Attrs{axis}));
    if (S::kIn > 1) all.back().finite = {0, 1};
    if (S::kIn > 2) all.back().finite.push_back(2);
    if constexpr (S::kOut == 2) all.push_back(Sample(in, ExtremeAttrs{axis, true}));
  };
  add({7}, 0);
  add({3, 5}, 1);
  add({3, 5}, 0);
  add({2, 3, 9}, 1);
  add({1, S::kIn > 1 ? 40 : 300}, 1);
  add({2, 3, 4}, 2);
  return all;
}

template <class S>
auto define_scan(std::vector<std::string> operands) {
  OpDef<typename S::Attrs> op(S::name, std::move(operands));
  op.template infer<&infer_scan<S>>().template samples<&samples_of<S>>().outputs(S::kOut);
  return op;
}

// The operand, flattened if there is no axis, and its axis.
std::pair<Tensor, int> along(const char* op, const Tensor& x, std::optional<int64_t> axis) {
  detail::expect_tensor(op, x);
  if (!axis) return {x.ndim() == 1 ? x : reshape(x, {-1}), 0};
  return {x, detail::axis_of(x, *axis, op)};
}

template <class S>
Tensor scan_of(const Tensor& data, const ScanOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<ScanAttrs> op(S::name);
  const auto [x, axis] = along(S::name, data, o.axis);
  const bool floats = S::kKinds == formula::kFloats;
  const Tensor taken = floats && !is_floating(x.dtype()) ? x.astype(f64)
                       : o.out.defined()                 ? x
                                                         : amp::widen(x);
  if (!o.out.defined()) return invoke(op, {taken}, {axis});
  invoke_into(op, {taken}, {o.out}, ScanAttrs{axis});
  return o.out;
} catch (const Error&) {
  detail::rethrow_as(S::name, from);
}
std::pair<Tensor, Tensor> extremes_of(const char* name, const Tensor& data,
                                      const CumExtremeOptions& o, bool smallest, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<ExtremeAttrs> op(scan::CumExtreme::name);
  const auto [x, axis] = along(name, data, o.axis);
  const Ref in[] = {x};
  const Tensors both = invoke_all(op, in, ExtremeAttrs{axis, smallest});
  return {both[0], both[1]};
} catch (const Error&) {
  detail::rethrow_as(name, from);
}

}  // namespace

Tensor cumsum(const Tensor& x, const ScanOptions& o, Caller from) {
  return scan_of<scan::CumSum>(x, o, from);
}
Tensor cumprod(const Tensor& x, const ScanOptions& o, Caller from) {
  return scan_of<scan::CumProd>(x, o, from);
}
Tensor logcumsumexp(const Tensor& x, const ScanOptions& o, Caller from) {
  return scan_of<scan::LogCumSumExp>(x, o, from);
}
std::pair<Tensor, Tensor> cummax(const Tensor& x, const CumExtremeOptions& o, Caller from) {
  return extremes_of("cummax", x, o, false, from);
}
std::pair<Tensor, Tensor> cummin(const Tensor& x, const CumExtremeOptions& o, Caller from) {
  return extremes_of("cummin", x, o, true, from);
}

void register_scan() {
  define_scan<scan::CumSum>({"data"}).gradient<&cumsum_gradient>(Keep::none);
  define_scan<scan::CumProd>({"data"}).gradient<&cumprod_gradient>(Keep::inputs);
  define_scan<scan::LogCumSumExp>({"data"}).gradient<&logcumsumexp_gradient>(Keep::both);
  define_scan<scan::CumExtreme>({"data"}).gradient<&extreme_gradient>(keep_output(1));
  define_scan<scan::CumSumExp>({"v", "t", "u"}).gradient<&cumsum_exp_gradient>(Keep::both);
  define_scan<scan::Recurrence>({"a", "b"}).gradient<&recurrence_gradient>(Keep::both);
}

}  // namespace locus
