#include <locus/ops/statistics.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/call_check.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>
#include <locus/ops/reduce/call.h>
#include <locus/ops/statistics/nan.h>
#include <locus/ops/statistics/result.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus {

using namespace reduction;
using detail::called_as, detail::expect_tensor, detail::widened;

namespace {

// A reduction of floats. Other dtypes have no NaN; `plain` reduces them.
template <class R>
Tensor of_numbers(const Tensor& x, const auto& o, const char* other, const auto& plain,
                  Caller from) {
  if (!x.defined() || is_floating(x.dtype())) return reduce<R>(x, o, {}, from);
  return called_as(R::name, other, [&] { return plain(x, o, from); });
}

// The variance of the numbers in x, f64 for f64, else f32, without reduced axes.
Tensor variance(const Tensor& data, const VarOptions& o) {
  const Tensor x = widened(data), missing = isnan(x);
  // Distances from the mean. What is left of the mean, through rounding, is subtracted at the end.
  const Tensor d = where(missing, 0, x - nanmean(x, {.axis = o.axis, .keepdims = true}));
  const ReduceOptions over{.axis = o.axis, .keepdims = o.keepdims};
  const Tensor count = count_nonzero(logical_not(missing), over), rest = sum(d, over).astype(f64);
  const Tensor spread = sum(square(d), over).astype(f64) - square(rest) / maximum(count, 1);
  const Tensor enough = count > o.ddof, share = where(enough, count - o.ddof, 1);
  return where(enough, maximum(spread, 0) / share, NAN).astype(x.dtype());
}

Tensor nan_variance(const char* op, const Tensor& x, const VarOptions& o, bool root) {
  // Checks what var() checks, before anything is computed.
  if (std::isnan(o.ddof)) throw ValueError(op, ": ddof ", o.ddof, "; expected a number");
  expect_tensor(op, x);
  reduce_attrs(x, o.axis, o.keepdims, op);
  Tensor y = variance(x, o);
  if (root) {
    const Tensor is_zero = y == 0;  // where the gradient of sqrt is infinite
    y = where(is_zero, 0, sqrt(where(is_zero, 1, y)));
  }
  return detail::result_in(op, detail::as(y, x.dtype()), o.out);
}

// The weights in x's shape, or in one that broadcasts to it.
Tensor fitted(const Tensor& x, const AverageOptions& o, const char* op) {
  const Tensor& w = o.weights;
  if (w.shape() == x.shape()) return w;
  std::vector<int> axes;
  std::vector<int64_t> lengths;
  for (int64_t a : o.axis.list()) {
    axes.push_back(detail::axis_of(x, a, op));
    lengths.push_back(x.shape()[axes.back()]);
  }
  if (o.axis.all() || w.shape() != Shape(lengths))
    throw ShapeError(op, ": x ", describe(x), ", weights ", describe(w),
                     ": expected weights of x's shape, ",
                     o.axis.all() ? std::string("or an axis")
                                  : text_of("or of the shape of the axes, ", Shape(lengths)));
  std::vector<int> rising(axes.size());
  std::iota(rising.begin(), rising.end(), 0);
  std::ranges::sort(rising, {}, [&](int i) { return axes[static_cast<size_t>(i)]; });
  std::vector<int64_t> shape(static_cast<size_t>(x.ndim()), 1);
  for (int a : axes) shape[static_cast<size_t>(a)] = x.shape()[a];
  return detail::reshape_exact(transpose(w, std::span<const int>(rising)), Shape(shape));
}

Average averaged(const char* op, const Tensor& x, const AverageOptions& o) {
  expect_tensor(op, x);
  const ReduceOptions over{.axis = o.axis, .keepdims = o.keepdims};
  const ReduceAttrs attrs = reduce_attrs(x, o.axis, o.keepdims, op);
  if (!o.weights.defined()) {
    const Tensor y = mean(x, over);
    const double each = y.size() > 0 ? static_cast<double>(x.size() / y.size()) : 0;
    return {y, full(y.shape(), each, {y.context(), y.dtype()})};
  }
  detail::expect_together(op, "x", x, "weights", o.weights);
  const DType d = promote(inexact(x.dtype()), o.weights.dtype());
  const DType wide = size_of(d) == 2 ? f32 : d;
  const Tensor values = detail::as(x, wide), w = detail::as(fitted(x, o, op), wide);
  // Weights that broadcast are summed over their own axes.
  Tensor total = sum(w, {.axis = o.axis, .keepdims = true});
  if (any(total == 0).item<bool>())
    throw ValueError(op, ": weights ", describe(o.weights),
                     ": a sum of weights is 0; expected sums other than 0");
  const Tensor y = sum(values * w, over);
  const Meta kept = reduced(make_meta(d, x.shape()), {attrs.axes, true}, d);
  total = detail::reshape_exact(broadcast_to(total, Shape(kept)), y.shape());
  return {detail::as(y / total, d), detail::as(total, d)};
}

Tensor difference(const Tensor& x, int axis) {
  const Tensor after = slice_axis(x, axis, Slice(1, std::nullopt)),
               before = slice_axis(x, axis, Slice(0, -1));
  return x.dtype() == bool_ ? after != before : after - before;
}

// x with the options' tensors at its ends.
Tensor extended(const Tensor& x, int axis, const DiffOptions& o) {
  Tensors parts;
  const auto add = [&](const char* name, const Tensor& part) {
    if (!part.defined()) return;
    detail::expect_together("diff", "x", x, name, part);
    Meta whole = make_meta(x.dtype(), x.shape());
    whole.shape[axis] = part.ndim() == x.ndim() ? part.shape()[axis] : 1;
    const Shape shape(whole);
    if ((part.ndim() > 0 && part.ndim() != x.ndim()) || !broadcasts_to(part.shape(), shape))
      throw ShapeError("diff: x ", describe(x), ", ", name, " ", describe(part),
                       ": expected no axes, or as many as x has, of the lengths of x or 1 except ",
                       "along axis ", axis);
    parts.push_back(broadcast_to(part, shape));
  };
  add("prepend", o.prepend);
  parts.push_back(x);
  add("append", o.append);
  return parts.size() == 1 ? x : concat(parts, {.axis = axis});
}

}  // namespace

Tensor nansum(const Tensor& x, const ReduceOptions& o, Caller from) {
  return of_numbers<NanSum>(
      x, o, "sum", [](auto&... all) { return sum(all...); }, from);
}
Tensor nanmean(const Tensor& x, const ReduceOptions& o, Caller from) {
  return of_numbers<NanMean>(
      x, o, "mean", [](auto&... all) { return mean(all...); }, from);
}
Tensor nanmax(const Tensor& x, const ReduceOptions& o, Caller from) {
  return of_numbers<NanMax>(
      x, o, "max", [](auto&... all) { return max(all...); }, from);
}
Tensor nanmin(const Tensor& x, const ReduceOptions& o, Caller from) {
  return of_numbers<NanMin>(
      x, o, "min", [](auto&... all) { return min(all...); }, from);
}
Tensor nanprod(const Tensor& x, const ReduceOptions& o, Caller from) try {
  const UserLine user_line(from);
  expect_tensor("nanprod", x);
  const Tensor taken = is_floating(x.dtype()) ? where(isnan(x), 1, x) : x;
  return called_as("nanprod", "prod", [&] { return prod(taken, o); });
} catch (const Error&) {
  detail::rethrow_as("nanprod", from);
}
Tensor nanvar(const Tensor& x, const VarOptions& o, Caller from) try {
  const UserLine user_line(from);
  if (x.defined() && !is_floating(x.dtype()))
    return called_as("nanvar", "var", [&] { return var(x, o); });
  return nan_variance("nanvar", x, o, false);
} catch (const Error&) {
  detail::rethrow_as("nanvar", from);
}
Tensor nanstd(const Tensor& x, const VarOptions& o, Caller from) try {
  const UserLine user_line(from);
  if (x.defined() && !is_floating(x.dtype()))
    return called_as("nanstd", "std", [&] { return locus::std(x, o); });
  return nan_variance("nanstd", x, o, true);
} catch (const Error&) {
  detail::rethrow_as("nanstd", from);
}

Tensor count_nonzero(const Tensor& x, const ReduceOptions& o, Caller from) {
  return reduce<CountNonzero>(x, o, {}, from);
}
Tensor ptp(const Tensor& x, const ReduceOptions& o, Caller from) try {
  const UserLine user_line(from);
  expect_tensor("ptp", x);
  if (x.dtype() == bool_)
    throw DTypeError("ptp: x ", describe(x),
                     ": bool has no differences; expected numbers; cast it: x.astype(i8)");
  const ReduceOptions over{.axis = o.axis, .keepdims = o.keepdims};
  const Tensor top = called_as("ptp", "max", [&] { return max(x, over); });
  return detail::result_in("ptp", top - min(x, over), o.out);
} catch (const Error&) {
  detail::rethrow_as("ptp", from);
}

Tensor average(const Tensor& x, const AverageOptions& o, Caller from) try {
  const UserLine user_line(from);
  return averaged("average", x, o).average;
} catch (const Error&) {
  detail::rethrow_as("average", from);
}
Average weighted_average(const Tensor& x, const AverageOptions& o, Caller from) try {
  const UserLine user_line(from);
  return averaged("weighted_average", x, o);
} catch (const Error&) {
  detail::rethrow_as("weighted_average", from);
}

Tensor diff(const Tensor& x, const DiffOptions& o, Caller from) try {
  const UserLine user_line(from);
  expect_tensor("diff", x);
  if (o.n < 0) throw ValueError("diff: n ", o.n, "; expected 0 or more");
  const int axis = detail::axis_of(x, o.axis, "diff");
  if (o.n == 0) return x;
  Tensor y = extended(x, axis, o);
  for (int64_t i = 0; i < o.n; ++i) {
    if (y.size() == 0 && y.shape()[axis] == 0) break;
    y = difference(y, axis);
  }
  return y;
} catch (const Error&) {
  detail::rethrow_as("diff", from);
}

void register_statistics() { reduction::define(NanReductions() + Counts()); }

}  // namespace locus
