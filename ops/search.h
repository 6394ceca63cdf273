// Searching sorted numbers, counting, and sets: searchsorted, digitize, bincount, histogram, isin,
// unique.
//
//   const Tensor place = searchsorted(bins, x);           // i64, x's shape
//   const Tensor count = bincount(labels);                // how often each of 0, 1, 2, ... occurs
//   const auto [counts, edges] = histogram(x, 10, {.range = std::pair{0, 1}});
//   const Unique u = unique(x, {.return_counts = true});  // u.values, u.counts
//
// Names and rules are NumPy's. Results have the same bits on each run, context and number of
// threads, except that a GPU adds weights in another order. Operands of different dtypes promote.
// Operands on different contexts are a ContextMismatch. NaN lies above all numbers. Weights of
// bincount and histogram, and the values of unique, have gradients.
#pragma once

#include <optional>
#include <utility>

#include <locus/ops/operand.h>

namespace locus {

enum class Side : uint8_t { left, right };

struct SearchOptions {
  Side side = Side::left;
  // The indices that sort the bins, as argsort gives them. Undefined: the bins are sorted.
  Tensor sorter = {};
};
struct DigitizeOptions {
  bool right = false;
};
struct BincountOptions {
  Tensor weights = {};
  int64_t minlength = 0;
};
struct HistogramOptions {
  std::optional<std::pair<double, double>> range = {};
  Tensor weights = {};  // x's shape
  bool density = false;
};
struct IsinOptions {
  bool invert = false;
};
struct UniqueOptions {
  bool return_index = false;
  bool return_inverse = false;
  bool return_counts = false;
  std::optional<int64_t> axis = {};  // none: elements; else the entries along the axis
  bool equal_nan = true;
};
// Results that the options do not select are undefined.
struct Unique {
  Tensor values, index, inverse, counts;
};

// The position in 0 ... n, i64, at which each x is inserted into sorted bins of shape (n,): before
// equal bins, or with Side::right behind equal bins. Bins without exactly one axis are a
// ShapeError. searchsorted does not check whether the bins are sorted.
Tensor searchsorted(const Tensor& bins, const Operand& x, const SearchOptions& options = {},
                    Caller = Caller::here());
// searchsorted(bins, x, Side::right), as in NumPy.
inline Tensor searchsorted(const Tensor& bins, const Operand& x, Side side,
                           Caller from = Caller::here()) {
  return searchsorted(bins, x, {.side = side}, from);
}
// The bin of each x, i64: the i with bins[i - 1] <= x < bins[i], or, if the bins decrease, with
// bins[i - 1] > x >= bins[i]. `right` exchanges `<` with `<=` and `>` with `>=`. If the bins
// neither increase nor decrease, digitize throws ValueError; the host waits for this check.
Tensor digitize(const Tensor& x, const Tensor& bins, const DigitizeOptions& options = {},
                Caller = Caller::here());

// How often each integer from 0 on occurs in x (n,): i64, of length max(x) + 1, or minlength if
// that is longer. With weights (n,): the sum of each integer's weights, in f64. Negative integers
// are a ValueError, and so are weights of 2^32 elements or more; floats are a DTypeError. The host
// waits for the smallest and largest element of x.
Tensor bincount(const Tensor& x, const BincountOptions& options = {}, Caller = Caller::here());

// The number of elements of x in each bin, and the edges. A bin contains its left edge; the
// last contains both. Others and NaN do not count. Counts are i64, or have the weights' dtype
// (summed in f64, integers in i64). With `density`, counts are f64 and scaled to the integral 1.
// Weights of 2^32 elements are a ValueError.
//
// Bins have equal width, over `range` or from the smallest to the largest element, for which the
// host waits. If both are equal, the range is widened by .5 on each side. Edges are f32 for
// f32, f16 and bf16, else f64. NaN or infinity without a range, or a range that decreases or is
// not finite, is a ValueError.
std::pair<Tensor, Tensor> histogram(const Tensor& x, int64_t bins = 10,
                                    const HistogramOptions& options = {}, Caller = Caller::here());
// The same for given edges (n + 1,). If the edges decrease, or if there is a range, histogram
// throws ValueError. The host waits for this check. The second result is `edges`.
std::pair<Tensor, Tensor> histogram(const Tensor& x, const Tensor& edges,
                                    const HistogramOptions& options = {}, Caller = Caller::here());

// Whether each element of x is in test_elements (any shape), bool. NaN equals nothing.
Tensor isin(const Tensor& x, const Tensor& test_elements, const IsinOptions& options = {},
            Caller = Caller::here());

// The distinct elements of x in ascending order, of shape (n,). NaN comes last, once, or if
// equal_nan is false as often as in x. With an axis: the distinct entries along the axis, in
// lexicographic order. The other results:
// - index: where each value first occurs in the flattened x, or along the axis. i64 (n,).
// - inverse: the position of each element's value, i64, in x's shape; with an axis (length,).
// - counts: how often each value occurs, i64 (n,).
// The host waits for n. With an axis, NumPy never joins entries with NaN; here equal_nan decides.
Unique unique(const Tensor& x, const UniqueOptions& options = {}, Caller = Caller::here());

}  // namespace locus
