// Reductions over any set of axes: sum, mean, prod, max, min, norm, any, all, argmax, argmin.
//
//   sum(x)                                    all axes: a 0-d tensor
//   max(x, {.axis = 1})                       one axis; negative axes count from the end
//   mean(x, {.axis = {0, 2}, .keepdims = true})
//   norm(x, {.out = log[i]})                  into existing memory: no allocation, no copy
//
// Dtypes follow NumPy: sum and prod of integers and booleans are i64 (and wrap); mean and norm of
// them are f64; max and min keep the dtype; any and all are bool; argmax and argmin are i64. f16
// and bf16 accumulate in f32. No elements: sum 0, prod 1, mean NaN, norm 0, any false, all true;
// max, min, argmax and argmin throw ShapeError. NaN: max and min return it, argmax and argmin
// return its position; of equal elements argmax and argmin return the first. Order: fixed by the
// shape, so results repeat bit by bit. On the CPU f32 sums add blocks of at most 4096 elements in
// 64 lanes and the blocks in f64: the same bits for every instruction set and number of threads.
// Gradients: max and min send the gradient to every element equal to the result, as MXNet does.
// That of prod is exact where elements are 0; its own gradient only where none is. Errors: an axis
// out of range or given twice throws ShapeError.
#pragma once

#include <initializer_list>
#include <span>

#include <locus/core/tensor.h>
#include <locus/ops/kernel/register.h>

namespace locus {

// Which axes: all of them by default, one, or several.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : Axes({axis}) {}
  Axes(std::initializer_list<int> axes);

  bool all() const { return count_ < 0; }
  std::span<const int> list() const { return {axes_, static_cast<size_t>(all() ? 0 : count_)}; }

 private:
  int count_ = -1;
  int axes_[kMaxRank] = {};
};

// Makes sum(x, {0, 1}) an error: it would mean axis 0 with keepdims. Write {.axis = {0, 1}}.
class ByName {
  friend struct ReduceOptions;
  constexpr explicit ByName() = default;
};

struct ReduceOptions {
  ByName by_name = ByName();
  Axes axis = {};
  bool keepdims = false;  // reduced axes stay, with length 1
  // Where to write, and what is returned then: of the result's shape and dtype (else ShapeError,
  // DTypeError) and x's context (else ContextMismatch). Not while x or out is being recorded.
  Tensor out = {};
};

Tensor sum(const Tensor& x, const ReduceOptions& = {});
Tensor mean(const Tensor& x, const ReduceOptions& = {});
Tensor prod(const Tensor& x, const ReduceOptions& = {});
Tensor max(const Tensor& x, const ReduceOptions& = {});
Tensor min(const Tensor& x, const ReduceOptions& = {});
Tensor norm(const Tensor& x, const ReduceOptions& = {});  // sqrt(sum(x * x))
Tensor any(const Tensor& x, const ReduceOptions& = {});
Tensor all(const Tensor& x, const ReduceOptions& = {});
// Over one axis, or over all: then the position in the flattened tensor.
Tensor argmax(const Tensor& x, const ReduceOptions& = {});
Tensor argmin(const Tensor& x, const ReduceOptions& = {});

// Sums x over the axes along which `shape` would be broadcast to x's: the inverse of broadcast_to.
// Keeps the dtype. x itself when it has that shape. Throws ShapeError when it does not broadcast.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace locus
