// Reductions over any set of axes.
//
//   sum(x)                                    all axes: a 0-d tensor
//   max(x, 1)                                 one axis; negative axes count from the end
//   max(x, {.axis = 1, .keepdims = true})     the axis stays, with length 1
//   mean(x, {.axis = {0, 2}, .keepdims = true})
//   norm(x, {.out = log[i]})                  into existing memory: no allocation, no copy
//
// Dtypes follow NumPy: sum and prod of integers and booleans are i64 (and wrap); mean, var, std,
// norm and logsumexp of them are f64; max and min keep the dtype; any and all are bool; argmax and
// argmin are i64. f16 and bf16 accumulate in f32. No elements: sum 0, prod 1, mean, var and std
// NaN, logsumexp -inf, norm 0, any false, all true; max, min, argmax, argmin and the norms of order
// inf and -inf throw ShapeError. NaN: argmax and argmin return its position, the others it. Order:
// fixed by the shape, so results repeat bit by bit. On the CPU f32 results join blocks of at most
// 4096 elements, each added in 64 lanes, in f64: the same bits for every number of threads, and
// (logsumexp apart) for every instruction set.
// mean divides the sum: where f32 or f64 does not hold the sum, the mean is infinite, as in NumPy.
// Gradients: max and min send the gradient to every element equal to the result, as MXNet does.
// That of prod is exact where elements are 0; its own gradient only where none is. It fits where
// the product of the other elements does, for up to 2000 elements whatever they are; for more where
// f64 holds the product of all, too. Errors: an axis out of range or given twice throws ShapeError,
// a NaN for ddof or ord ValueError.
#pragma once

#include <concepts>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// Which axes: all of them by default, one, or several.
class Axes {
 public:
  Axes() = default;
  Axes(Integer auto axis)
      : Axes({std::in_range<int>(+axis) ? static_cast<int>(axis)
                                        : out_of_range(std::to_string(axis))}) {}
  Axes(std::initializer_list<int> axes);

  bool all() const { return count_ < 0; }
  std::span<const int> list() const { return {axes_, static_cast<size_t>(all() ? 0 : count_)}; }

 private:
  [[noreturn]] static int out_of_range(const std::string& axis);

  int count_ = -1;
  int axes_[kMaxRank] = {};
};

// Makes sum(x, {0, 1}) an error: it would mean axis 0 with keepdims. Write {.axis = {0, 1}}.
class ByName {
  friend struct ReduceOptions;
  friend struct VarOptions;
  friend struct NormOptions;
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

struct VarOptions {
  ByName by_name = ByName();
  Axes axis = {};
  double ddof = 0;  // 1: the unbiased estimate from a sample
  bool keepdims = false;
  Tensor out = {};
};

struct NormOptions {
  ByName by_name = ByName();
  double ord = 2;
  Axes axis = {};
  bool keepdims = false;
  Tensor out = {};
};

Tensor sum(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor mean(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor prod(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor max(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor min(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor any(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor all(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
// The position of the first largest or smallest, over one axis, or over all: then in the flattened
// tensor.
Tensor argmax(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor argmin(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());

// sum((x - mean(x))^2) / (n - ddof) over n elements, and its square root; n <= ddof divides by 0.
// Where f32 does not hold the squares, they are f64: f32 and 16-bit x have the variance that fits
// their dtype, else infinity. f64 x must lie within 1e154 of their mean; std has all digits of
// distances from 1e-146. NaN, not infinity, where the squares of f64 are more than it holds.
// One pass, without the cancellation of mean(x^2) - mean(x)^2: what counts is the spread of x, not
// its size. The gradient of std is 0 where std is.
Tensor var(const Tensor& x, const VarOptions& = {}, Caller = Caller::here());
Tensor std(const Tensor& x, const VarOptions& = {},
           Caller = Caller::here());  // with `using namespace locus`: locus::std

// log(sum(exp(x))), without overflow. Of -inf alone: -inf, with gradient 0. Where it is inf, each
// inf among the elements has gradient 1 and the others 0 (PyTorch: NaN).
Tensor logsumexp(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());

// sum(|x|^ord)^(1/ord): of a vector, over several axes as if flattened. ord = inf: max(|x|), -inf:
// min(|x|), 0: how many are not 0. No power overflows where the norm fits. Gradients: 0 where the
// norm or x is 0; inf and -inf as max and min.
Tensor norm(const Tensor& x, const NormOptions& = {}, Caller = Caller::here());
inline Tensor norm(const Tensor& x, const std::same_as<ReduceOptions> auto& o,
                   Caller from = Caller::here()) {
  return norm(x, {.axis = o.axis, .keepdims = o.keepdims, .out = o.out}, from);
}

// Over one axis: sum(x, 1) is sum(x, {.axis = 1}). norm(x, 1), too, is over axis 1, not of order 1.
inline Tensor sum(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return sum(x, {.axis = axis}, from);
}
inline Tensor mean(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return mean(x, {.axis = axis}, from);
}
inline Tensor prod(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return prod(x, {.axis = axis}, from);
}
inline Tensor max(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return max(x, {.axis = axis}, from);
}
inline Tensor min(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return min(x, {.axis = axis}, from);
}
inline Tensor any(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return any(x, {.axis = axis}, from);
}
inline Tensor all(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return all(x, {.axis = axis}, from);
}
inline Tensor argmax(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return argmax(x, {.axis = axis}, from);
}
inline Tensor argmin(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return argmin(x, {.axis = axis}, from);
}
inline Tensor var(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return var(x, {.axis = axis}, from);
}
inline Tensor std(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return std(x, {.axis = axis}, from);
}
inline Tensor logsumexp(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return logsumexp(x, {.axis = axis}, from);
}
inline Tensor norm(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return norm(x, {.axis = axis}, from);
}

// A compile error: max and min reduce one tensor. Options in braces, {.axis = 1}, and axes choose
// the functions above.
template <std::same_as<Tensor> T, class U>
requires(std::same_as<U, Tensor> || std::floating_point<U>) T max(const T&, const U&) {
  static_assert(!sizeof(T), "max reduces one tensor; for the larger of two write maximum(x, y)");
  return T();
}
template <std::same_as<Tensor> T, class U>
requires(std::same_as<U, Tensor> || std::floating_point<U>) T min(const T&, const U&) {
  static_assert(!sizeof(T), "min reduces one tensor; for the smaller of two write minimum(x, y)");
  return T();
}

// Sums x over the axes along which `shape` would be broadcast to x's: the inverse of broadcast_to.
// Keeps the dtype. x itself when it has that shape. Throws ShapeError when it does not broadcast.
Tensor sum_to(const Tensor& x, const Shape& shape, Caller = Caller::here());

}  // namespace locus
