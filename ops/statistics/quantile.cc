#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/call_check.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/order.h>
#include <locus/ops/reduce.h>
#include <locus/ops/reduce/reduce_shape.h>
#include <locus/ops/statistics.h>
#include <locus/ops/statistics/result.h>
#include <locus/ops/view.h>

namespace locus {

Quantiles::Quantiles(std::span<const double> q) : shape_({q.size()}), list_(q.begin(), q.end()) {}
Quantiles::Quantiles(const Tensor& q, Caller from) try {
  detail::expect_tensor("quantile", q, "q");
  shape_ = q.shape();
  list_ = q.to_vector<double>(from);
  tensor_ = q;
} catch (const Error&) {
  rethrow_at(from);
}

namespace {

using Method = QuantileMethod;

bool interpolates(Method m) {
  switch (m) {
    case Method::inverted_cdf:
    case Method::closest_observation:
    case Method::lower:
    case Method::higher:
    case Method::nearest:
      return false;
    default:
      return true;
  }
}

// A value among n sorted elements: that of element `below`, or the share t of the way to `above`.
struct Place {
  int64_t below, above;
  double t = 0;
};

Place at(double index) {
  const auto i = static_cast<int64_t>(std::max(index, 0.));
  return {i, i};
}

// NumPy's formulas, step by step: other steps round to other elements.
Place place_of(Method m, double q, int64_t count) {
  const auto n = static_cast<double>(count);
  const auto between = [&](double alpha, double beta) {
    return n * q + (alpha + q * (1 - alpha - beta)) - 1;
  };
  const auto observed = [&](double index, bool odd) {
    const double floor = std::floor(index);
    return at(index == floor && (!odd || std::fmod(floor, 2) != 0) ? floor : floor + 1);
  };
  double index = 0;
  switch (m) {
    case Method::inverted_cdf:
      return observed(n * q - 1, false);
    case Method::closest_observation:
      return observed(n * q - 1 - .5, true);
    case Method::lower:
      return at(std::floor((n - 1) * q));
    case Method::higher:
      return at(std::ceil((n - 1) * q));
    case Method::nearest:
      return at(std::nearbyint((n - 1) * q));
    case Method::averaged_inverted_cdf:
      index = n * q - 1;
      break;
    case Method::interpolated_inverted_cdf:
      index = between(0, 1);
      break;
    case Method::hazen:
      index = between(.5, .5);
      break;
    case Method::weibull:
      index = between(0, 0);
      break;
    case Method::linear:
      index = (n - 1) * q;
      break;
    case Method::median_unbiased:
      index = between(1 / 3., 1 / 3.);
      break;
    case Method::normal_unbiased:
      index = between(3 / 8., 3 / 8.);
      break;
    case Method::midpoint:
      index = .5 * (std::floor((n - 1) * q) + std::ceil((n - 1) * q));
      break;
  }
  double below = std::floor(index), above = below + 1;
  if (index >= n - 1) below = above = -1;  // the last element
  if (index < 0) below = above = 0;
  double t = index - below;
  if (m == Method::averaged_inverted_cdf) t = t == 0 ? .5 : 1;
  if (m == Method::midpoint) t = std::fmod(index, 1) == 0 ? 0 : .5;
  const auto element = [&](double i) { return i < 0 ? count - 1 : static_cast<int64_t>(i); };
  return {element(below), element(above), t};
}

// The rows whose elements are looked for.
struct Rows {
  Tensor data;
  int axis = 0;
  int64_t n = 0;
  Shape kept;  // the result's, for one element of each row

  Rows(const char* op, const Tensor& x, const Axes& axes, bool keepdims) {
    detail::expect_tensor(op, x);
    const ReduceAttrs a = reduce_attrs(x, axes, keepdims, op);
    kept = Shape(reduced(make_meta(x.dtype(), x.shape()), a, x.dtype()));
    if (!axes.all() && axes.list().size() == 1) {
      data = x;
      axis = detail::axis_of(x, axes.list()[0], op);
    } else {
      std::vector<int> order;
      std::vector<int64_t> shape;
      int64_t together = 1;
      for (int i = 0; i < x.ndim(); ++i)
        if (!(a.axes >> i & 1)) {
          order.push_back(i);
          shape.push_back(x.shape()[i]);
        }
      axis = static_cast<int>(order.size());
      for (int i = 0; i < x.ndim(); ++i)
        if (a.axes >> i & 1) {
          order.push_back(i);
          together *= x.shape()[i];
        }
      shape.push_back(together);
      const Tensor turned = order.empty() ? x : transpose(x, std::span<const int>(order));
      data = detail::reshape_exact(turned, Shape(shape));
    }
    n = data.shape()[axis];
  }
  // y, NaN for rows that contain NaN. y has length 1 or more along the axis.
  Tensor or_nan(const Tensor& y) const {
    if (!is_floating(data.dtype())) return y;
    return where(isnan(max(data.detach(), {.axis = axis, .keepdims = true})), NAN, y);
  }
};

// NaN for each row of a tensor without elements, or no rows; recorded as made from x.
Tensor of_nothing(const Tensor& x, const Axes& axes, bool keepdims, DType d) {
  const Tensor zeros = sum(x, {.axis = axes, .keepdims = keepdims}).astype(d);
  return is_floating(d) ? zeros + NAN : zeros;
}

// Elements of sorted rows.
class Sorted {
 public:
  // Finds those at positions `ids`.
  Sorted(const Rows& rows, std::vector<int64_t> ids) : axis_(rows.axis), ids_(std::move(ids)) {
    std::ranges::sort(ids_);
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
    values_ = detail::order_select(rows.data, ids_, axis_);
  }
  // Those at positions `ids`, which were found, along the axis.
  Tensor at(const std::vector<int64_t>& ids) const {
    if (ids == ids_) return values_;
    std::vector<int64_t> places;
    for (int64_t id : ids) places.push_back(std::ranges::lower_bound(ids_, id) - ids_.begin());
    if (places.size() == 1) return slice_axis(values_, axis_, Slice(places[0], places[0] + 1));
    return take(values_, array(places, {values_.context(), i64}), {.axis = axis_});
  }

 private:
  int axis_;
  std::vector<int64_t> ids_;
  Tensor values_;
};

// a + t (b - a), by NumPy's formula. t: one number, or one for each entry of the axis.
Tensor interpolated(const Tensor& a, const Tensor& b, const std::vector<double>& t, int axis) {
  const Tensor step = b - a;
  if (t.size() == 1) return t[0] >= .5 ? b - step * (1 - t[0]) : a + step * t[0];
  std::vector<int64_t> shape(static_cast<size_t>(a.ndim()), 1);
  shape[static_cast<size_t>(axis)] = std::ssize(t);
  const Tensor share = detail::reshape_exact(array(t, {a.context(), f64}), Shape(shape));
  return where(share >= .5, b - step * (1 - share), a + step * share);
}

Tensor quantiles(const char* op, const Tensor& x, const Quantiles& q, double whole,
                 const QuantileOptions& o) {
  if (q.tensor().defined()) detail::expect_together(op, "x", x, "q", q.tensor());
  if (o.method > Method::nearest)
    throw ValueError(op, ": method ", static_cast<int>(o.method), "; expected a QuantileMethod");
  for (double each : q.list())
    if (!(each / whole >= 0 && each / whole <= 1))
      throw ValueError(op, ": q ", each, "; expected numbers from 0 to ", whole);
  const Rows rows(op, x, o.axis, o.keepdims);
  const bool between = interpolates(o.method);
  const DType d = between ? inexact(x.dtype()) : x.dtype();
  std::vector<int64_t> shape(q.shape().begin(), q.shape().end());
  shape.insert(shape.end(), rows.kept.begin(), rows.kept.end());
  const Shape result(shape);
  if (rows.n == 0 || result.size() == 0) {
    if (result.size() > 0 && !is_floating(d))
      throw ShapeError(op, ": x ", describe(x), " has no elements to pick from; expected one",
                       " or more, or a method that interpolates");
    return detail::result_in(op, broadcast_to(of_nothing(x, o.axis, o.keepdims, d), result), o.out);
  }
  std::vector<int64_t> below, above, all;
  std::vector<double> t;
  for (double each : q.list()) {
    const Place p = place_of(o.method, each / whole, rows.n);
    below.push_back(p.below);
    above.push_back(p.above);
    t.push_back(p.t);
  }
  all = below;
  if (between) all.insert(all.end(), above.begin(), above.end());
  const Sorted sorted(rows, std::move(all));
  Tensor y = sorted.at(below);
  if (between) {
    const Tensor a = y.astype(f64), b = sorted.at(above).astype(f64);
    y = interpolated(a, b, t, rows.axis).astype(d);
  }
  y = rows.or_nan(y);
  if (rows.axis > 0) {
    std::vector<int> order{rows.axis};
    for (int i = 0; i < y.ndim(); ++i)
      if (i != rows.axis) order.push_back(i);
    y = transpose(y, std::span<const int>(order));
  }
  return detail::result_in(op, detail::reshape_exact(y, result), o.out);
}

}  // namespace

Tensor median(const Tensor& x, const ReduceOptions& o, Caller from) try {
  const UserLine user_line(from);
  const Rows rows("median", x, o.axis, o.keepdims);
  const DType d = inexact(x.dtype());
  if (rows.n == 0 || rows.kept.size() == 0)
    return detail::result_in("median", of_nothing(x, o.axis, o.keepdims, d), o.out);
  const int64_t low = (rows.n - 1) / 2, high = rows.n / 2;
  const Sorted sorted(rows, {low, high});
  Tensor y = sorted.at({low});
  if (high > low) y = (y.astype(f64) + sorted.at({high}).astype(f64)) / 2;
  y = detail::reshape_exact(rows.or_nan(y.astype(d)), rows.kept);
  return detail::result_in("median", y, o.out);
} catch (const Error&) {
  detail::rethrow_as("median", from);
}

Tensor quantile(const Tensor& x, const Quantiles& q, const QuantileOptions& o, Caller from) try {
  const UserLine user_line(from);
  return quantiles("quantile", x, q, 1, o);
} catch (const Error&) {
  detail::rethrow_as("quantile", from);
}
Tensor percentile(const Tensor& x, const Quantiles& q, const QuantileOptions& o, Caller from) try {
  const UserLine user_line(from);
  return quantiles("percentile", x, q, 100, o);
} catch (const Error&) {
  detail::rethrow_as("percentile", from);
}

}  // namespace locus
