// Statistics beyond ops/reduce.h: reductions that leave NaN out, counts, averages, differences,
// medians and quantiles.
//
//   nanmean(x, {.axis = 0})
//   average(x, {.axis = 1, .weights = w})
//   quantile(x, {.25, .75}, {.axis = -1})             shape (2, ...): q's axes come first
//   percentile(x, 90, {.method = QuantileMethod::hazen})
//   diff(x, {.n = 2})
//
// Axes, keepdims and `out` work as in ops/reduce.h. Floats keep their dtype. A function takes all
// dtypes unless it names exceptions. Bad axes are a ShapeError. All functions except count_nonzero
// can be differentiated repeatedly. Elements that are left out, or not picked, have gradient 0.
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
  Tensor prepend = {}, append = {};  // joined to x along the axis; other axes broadcast
};

// NumPy's methods. inverted_cdf, closest_observation, lower, higher and nearest pick an element.
// Other methods interpolate between two neighbours.
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

// The q of quantile(): a number, a list or a tensor of any shape. If q is a tensor, it lies
// on x's context, and the host waits for its values. q has no gradient.
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
  const Tensor& tensor() const { return tensor_; }  // undefined if q was not given as a tensor

 private:
  Shape shape_;
  std::vector<double> list_;
  Tensor tensor_;
};

// Reductions of the elements that are not NaN. If all elements are NaN, nansum is 0, nanprod 1, and
// the other results are NaN. nanmax and nanmin of no elements are a ShapeError. Integers and bool
// have no NaN and give the results of sum, mean, prod, max, min, var and std.
Tensor nansum(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor nanmean(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor nanprod(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor nanmax(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor nanmin(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
// NaN if at most ddof elements are not NaN. Squares are computed in x's dtype (f16 and bf16: f32),
// so elements of f32 that differ from the mean by more than 1.9e19 give inf. If nanstd is 0, its
// gradient is 0.
Tensor nanvar(const Tensor& x, const VarOptions& = {}, Caller = Caller::here());
Tensor nanstd(const Tensor& x, const VarOptions& = {}, Caller = Caller::here());

// The number of elements that are not 0, i64. NaN counts, -0 does not.
Tensor count_nonzero(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
// max(x) - min(x), in x's dtype; integers wrap. bool is a DTypeError.
Tensor ptp(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());

// sum(x * weights) / sum(weights); without weights the mean. The weights have x's shape, or the
// shape of the given axes in the given order, such as (n,) for one axis. Other shapes are a
// ShapeError. If a sum of weights is 0, average throws ValueError; the host waits for this check.
// Integers are converted to f64.
Tensor average(const Tensor& x, const AverageOptions& = {}, Caller = Caller::here());
// The average, and the sum of the weights in the average's shape. Without weights, the sum is the
// number of elements.
Average weighted_average(const Tensor& x, const AverageOptions& = {}, Caller = Caller::here());

// x[i + 1] - x[i] along an axis, n times. Differences keep the dtype: integers wrap, and bool uses
// not_equal. A negative n is a ValueError, a tensor without axes a ShapeError.
Tensor diff(const Tensor& x, const DiffOptions& = {}, Caller = Caller::here());

// The middle element in sorted order, or the mean of the middle two of an even number of elements.
// Integers and bool give f64. With NaN among the elements, or without elements, the median is NaN.
Tensor median(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());

// quantile gives the number below which a fraction q of the elements lies, by NumPy's formulas.
// percentile takes q in percent. If q is not from 0 to 1 (0 to 100), both throw ValueError. Methods
// that pick an element keep the dtype. Methods that interpolate give f64 for integers and bool.
// With NaN among the elements, or without elements, the result is NaN. If the result's dtype has no
// NaN and there are no elements, both throw ShapeError.
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
//   pick another element, so results may differ from NumPy's.
// - If a neighbour is infinite, interpolation gives NaN, as in NumPy, even if q is exactly at one
//   neighbour. Methods that pick elements do not interpolate. median halves the neighbours' sum.
// - Integers are converted to f64 before interpolation; NumPy subtracts integers, which may wrap.
// - A result of 0 may have another sign than the element.
// - nanmax and nanmin send the gradient to every element that equals the result.

}  // namespace locus
