// Statistics beyond ops/reduce.h: reductions that leave NaN out, counts, averages, differences.
//
//   nanmean(x, {.axis = 0})
//   average(x, {.axis = 1, .weights = w})
//   diff(x, {.n = 2})
//
// Axes, keepdims and `out` are those of ops/reduce.h. Floats keep their dtype. All dtypes work,
// except where a function says otherwise. Bad axes are a ShapeError. Gradients have any order. An
// element that was left out has gradient 0.
#pragma once

#include <cstdint>

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

// Reductions of the elements that are not NaN. If all are NaN, nansum is 0, nanprod 1, and the
// others are NaN. nanmax and nanmin of no elements are a ShapeError. Integers and bool have no NaN:
// the results are those of sum, mean, prod, max, min, var and std. nanmax and nanmin send the
// gradient to every element that equals the result.
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

}  // namespace locus
