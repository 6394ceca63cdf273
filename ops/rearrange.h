// Tensors made of another tensor's elements: pad, roll, tril, triu, diag, meshgrid.
//
//   const Tensor framed = pad(x, {{1, 1}, {0, 2}});    // a row above and below, 2 columns right
//
// Results are new tensors, except diag of a matrix, which is a view. All dtypes. Axes may be
// negative. Gradients exist to any order. A gradient adds in a fixed order, so it has the same bits
// each run.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// What pad writes around x. For an axis (1 2 3) and widths (2, 2):
//   constant   0 0 1 2 3 0 0      the constant
//   edge       1 1 1 2 3 3 3      the nearest element
//   reflect    3 2 1 2 3 2 1      mirrored; the end element is not repeated
//   symmetric  2 1 1 2 3 3 2      mirrored; the end element is repeated
//   wrap       2 3 1 2 3 1 2      the axis repeated
// Widths may be longer than the axis: the pattern continues, as in NumPy.
enum class PadMode : uint8_t { constant, edge, reflect, symmetric, wrap };

// Elements before and after an axis.
struct PadWidth {
  int64_t before = 0, after = 0;
};
// A width for each axis. A single width, 2 or {{1, 2}}, holds for all axes.
class PadWidths {
 public:
  template <std::integral I>
  PadWidths(I all) : list_{{static_cast<int64_t>(all), static_cast<int64_t>(all)}} {}
  PadWidths(std::initializer_list<PadWidth> widths) : list_(widths) {}
  PadWidths(std::span<const PadWidth> widths) : list_(widths.begin(), widths.end()) {}

  std::span<const PadWidth> list() const { return list_; }

 private:
  std::vector<PadWidth> list_;
};

struct PadOptions {
  PadMode mode = PadMode::constant;
  Scalar constant_values = 0;
};

// Errors of pad:
// - ShapeError: widths for another number of axes than x's.
// - ValueError: a negative width; a mode other than constant, if an axis of length 0 is padded.
// - DTypeError: x's integer dtype does not hold constant_values.
Tensor pad(const Tensor& x, const PadWidths& widths, const PadOptions& options = {},
           Caller = Caller::here());

// Element i moves to position (i + shift) mod n, along one axis or in the flattened tensor. Shifts
// may be negative or longer than the axis. A single shift holds for all axes, and shifts of a
// repeated axis add up, as in NumPy. Any other number of shifts is a ValueError.
Tensor roll(const Tensor& x, int64_t shift, Caller = Caller::here());
Tensor roll(const Tensor& x, int64_t shift, int64_t axis, Caller = Caller::here());
Tensor roll(const Tensor& x, int64_t shift, std::initializer_list<int> axes,
            Caller = Caller::here());
Tensor roll(const Tensor& x, std::span<const int64_t> shifts, std::span<const int> axes,
            Caller = Caller::here());
Tensor roll(const Tensor& x, std::initializer_list<int64_t> shifts, std::initializer_list<int> axes,
            Caller = Caller::here());

// The elements of each matrix, the last two axes, with column - row <= k (tril) or >= k (triu), and
// zeros elsewhere. If x has one axis, it is first repeated as every row of a square matrix, as in
// NumPy. A 0-d tensor is a ShapeError.
Tensor tril(const Tensor& x, int64_t k = 0, Caller = Caller::here());
Tensor triu(const Tensor& x, int64_t k = 0, Caller = Caller::here());
// One axis: a new square matrix with x where column - row == k, and zeros elsewhere. Two axes: the
// diagonal where column - row == k, a view of x, as from diagonal(). Other ranks are a ShapeError.
Tensor diag(const Tensor& x, int64_t k = 0, Caller = Caller::here());

// xy: the first tensor runs along axis 1 and the second along axis 0, as in NumPy's default. ij:
// tensor i runs along axis i.
enum class Indexing : uint8_t { xy, ij };
struct MeshgridOptions {
  Indexing indexing = Indexing::xy;
};
// The coordinates of a grid: result i has the elements of tensor i along one axis, repeated along
// the others. Tensors of more axes are flattened. More than 8 tensors are a ShapeError.
Tensors meshgrid(const Tensors& xs, const MeshgridOptions& options = {}, Caller = Caller::here());

}  // namespace locus
