// Statistics beyond ops/reduce.h: reductions that leave NaN out, counts, averages, differences,
// medians and quantiles.
//
//   nanmean(x, {.axis = 0})
//   average(x, {.axis = 1, .weights = w})
//   quantile(x, {.25, .75}, {.axis = -1})             shape (2, ...): q's axes come first
//   percentile(x, 90, {.method = QuantileMethod::hazen})
//   diff(x, {.n = 2})
//
// Axes, keepdims and `out` are those of ops/reduce.h. Floats keep their dtype. All dtypes work,
// except where a function says otherwise. Bad axes are a ShapeError. Gradients have any order. An
// element that was left out, or not picked, has gradient 0.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include <locus/ops/reduce.h>

namespace locus {

struct AverageOptions {
  Axes axis = {};
  Tensor weights = {};
  bool keepdims = false;
};
struct Average {
  Tensor average, sum_of_weights;
};

struct DiffOptions {
  int64_t n = 1;  // times
  int64_t axis = -1;
  Tensor prepend = {}, append = {};  // joined to x along the axis first; they broadcast elsewhere
};

// NumPy's methods. inverted_cdf, closest_observation, lower, higher and nearest pick an element.
// The others interpolate between two neighbours.
enum class QuantileMethod : uint8_t {
  inverted_cdf,
  averaged_inverted_cdf,
  closest_observation,
  interpolated_inverted_cdf,
  hazen,
  weibull,
  linear,
  median_unbiased,
  normal_unbiased,
  lower,
  higher,
  midpoint,
  nearest
};

struct QuantileOptions {
  Axes axis = {};
  QuantileMethod method = QuantileMethod::linear;
  bool keepdims = false;
  Tensor out = {};
};

// What quantile() looks for: a number, a list or a tensor of any shape. A tensor's numbers are read
// at the call, which waits for them; they have no gradient.
class Quantiles {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> Quantiles(T q) : list_{static_cast<double>(q)} {}
  Quantiles(std::initializer_list<double> q)
      : Quantiles(std::span<const double>(q.begin(), q.size())) {}
  Quantiles(const std::vector<double>& q) : Quantiles(std::span<const double>(q)) {}
  explicit Quantiles(std::span<const double> q);
  Quantiles(const Tensor& q, Caller = Caller::here());

  const Shape& shape() const { return shape_; }
  const std::vector<double>& list() const { return list_; }

 private:
  Shape shape_;
  std::vector<double> list_;
};

// Reductions of the elements that are not NaN. If all are NaN, nansum is 0, nanprod 1, and the
// others are NaN. nanmax and nanmin of no elements are a ShapeError. Integers and bool have no NaN:
// the results are those of sum, mean, prod, max, min, var and std.
Tensor nansum(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor nanmean(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor nanprod(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor nanmax(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor nanmin(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
// NaN if at most ddof elements are not NaN. Squares are computed in x's dtype (f16 and bf16: f32),
// so f32 more than 1e19 from their mean give inf. If nanstd is 0, its gradient is 0.
Tensor nanvar(const Tensor& x, const VarOptions& = {}, Caller = Caller::here());
Tensor nanstd(const Tensor& x, const VarOptions& = {}, Caller = Caller::here());

// The number of elements that are not 0, i64. NaN counts, -0 does not.
Tensor count_nonzero(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
// max(x) - min(x), in x's dtype; integers wrap. bool is a DTypeError.
Tensor ptp(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());

// sum(x * weights) / sum(weights); without weights the mean. The weights have x's shape, or that of
// the axes in the order given: (n,) for one axis, which must be given. Else average throws
// ShapeError. If a sum of weights is 0, it throws ValueError; the check waits for the weights.
// Integers count as f64.
Tensor average(const Tensor& x, const AverageOptions& = {}, Caller = Caller::here());
// The average, and the sum of the weights in the average's shape: without weights the count.
Average weighted_average(const Tensor& x, const AverageOptions& = {}, Caller = Caller::here());

// x[i + 1] - x[i] along an axis, n times. The dtype stays: integers wrap, and bool is not_equal. A
// negative n is a ValueError, a tensor without axes a ShapeError.
Tensor diff(const Tensor& x, const DiffOptions& = {}, Caller = Caller::here());

// The middle element in sorted order; of an even number of elements the mean of the middle two.
// Integers and bool give f64. With NaN among the elements, or without elements, it is NaN.
Tensor median(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());

// The elements below which the share q of the elements lies, 0 <= q <= 1 (else ValueError), by
// NumPy's formulas. For percentile q is in percent. Methods that pick an element keep the dtype;
// the others give f64 for integers and bool. With NaN among the elements, or without elements, the
// result is NaN; integers that keep their dtype need an element (ShapeError).
Tensor quantile(const Tensor& x, const Quantiles& q, const QuantileOptions& = {},
                Caller = Caller::here());
Tensor percentile(const Tensor& x, const Quantiles& q, const QuantileOptions& = {},
                  Caller = Caller::here());

// Over one axis: median(x, 1) is median(x, {.axis = 1}).
inline Tensor nansum(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return nansum(x, {.axis = axis}, from);
}
inline Tensor nanmean(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return nanmean(x, {.axis = axis}, from);
}
inline Tensor nanprod(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return nanprod(x, {.axis = axis}, from);
}
inline Tensor nanmax(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return nanmax(x, {.axis = axis}, from);
}
inline Tensor nanmin(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return nanmin(x, {.axis = axis}, from);
}
inline Tensor nanvar(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return nanvar(x, {.axis = axis}, from);
}
inline Tensor nanstd(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return nanstd(x, {.axis = axis}, from);
}
inline Tensor count_nonzero(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return count_nonzero(x, {.axis = axis}, from);
}
inline Tensor ptp(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return ptp(x, {.axis = axis}, from);
}
inline Tensor average(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return average(x, {.axis = axis}, from);
}
inline Tensor median(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return median(x, {.axis = axis}, from);
}
inline Tensor quantile(const Tensor& x, const Quantiles& q, Integer auto axis,
                Caller from = Caller::here()) {
  return quantile(x, q, {.axis = axis}, from);
}
inline Tensor percentile(const Tensor& x, const Quantiles& q, Integer auto axis,
                Caller from = Caller::here()) {
  return percentile(x, q, {.axis = axis}, from);
}
// diff(x, 2) is diff(x, {.n = 2}).
inline Tensor diff(const Tensor& x, Integer auto n, Caller from = Caller::here()) {
  return diff(x, {.n = static_cast<int64_t>(n)}, from);
}

// --- Details ---
//
// - f32, f16 and bf16 interpolate in f64 and round once. NumPy rounds q to x's dtype, which may
//   pick another element.
// - Neighbours of an infinite element interpolate to NaN, as in NumPy, even if q is exactly at one
//   of them. Methods that pick elements, and median, do not.
// - NumPy's differences of integer neighbours may wrap; here they are differences in f64.
// - A result of 0 may have another sign than the element.
// - nanmax and nanmin send the gradient to every element that equals the result.

}  // namespace locus
