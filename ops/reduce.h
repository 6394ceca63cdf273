// Reductions of a tensor over any set of axes.
//
//   sum(x)                                    all axes: a 0-d tensor
//   max(x, 1)                                 one axis; negative axes count from the end
//   max(x, {.axis = 1, .keepdims = true})     the axis stays, with length 1
//   mean(x, {.axis = {0, 2}, .keepdims = true})
//   norm(x, {.out = log[i]})                  into existing memory: no allocation, no copy
//
// Result dtypes follow NumPy. sum and prod of integers and booleans are i64 and wrap. mean, var,
// std, norm and logsumexp of integers and booleans are f64. max and min keep the dtype. any and all
// are bool. argmax and argmin are i64. f16 and bf16 accumulate in f32.
//
// The shape alone fixes the order of summation, so results repeat bit by bit. If an axis is out of
// range or given twice, a reduction throws ShapeError. If ddof or ord is NaN, it throws ValueError.
// Details about empty tensors, NaN and gradients stand at the end.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// The axes of a reduction: all (the default), one, or several.
class Axes {
 public:
  Axes() = default;
  Axes(Integer auto axis)
      : count_(1), axes_{std::in_range<int64_t>(+axis) ? static_cast<int64_t>(axis) : INT64_MAX} {}
  Axes(std::initializer_list<int> axes);
  explicit Axes(std::span<const int> axes);

  bool all() const { return count_ < 0; }
  std::span<const int64_t> list() const { return {axes_, static_cast<size_t>(all() ? 0 : count_)}; }

 private:
  int count_ = -1;
  int64_t axes_[kMaxRank] = {};
};

// Makes sum(x, {0, 1}) a compile error, because it would mean axis 0 with keepdims. Write {.axis =
// {0, 1}}.
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
  // If defined, the result is written into `out`, and `out` is returned. `out` has the result's
  // shape (else ShapeError) and dtype (else DTypeError), and x's context (else ContextMismatch). If
  // x or out is part of a recorded graph, the call throws Error.
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
// The position of the first largest or smallest element along one axis. Without an axis: its
// position in the flattened tensor.
Tensor argmax(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());
Tensor argmin(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());

// sum((x - mean(x))^2) / (n - ddof) over n elements, and its square root. If n <= ddof, the divisor
// is 0. Each takes one pass, without the cancellation of mean(x^2) - mean(x)^2: accuracy depends on
// the spread of x, not on its size. If std is 0, its gradient is 0.
//
// If f32 overflows, squares are f64: the variance of f32 and 16-bit x is infinite only if the
// result's dtype cannot hold it. f64 x must lie within 1e154 of their mean. If the squares of f64 x
// overflow, the result is NaN. std of f64 x is exact to all digits for distances from 1e-146 on.
Tensor var(const Tensor& x, const VarOptions& = {}, Caller = Caller::here());
Tensor std(const Tensor& x, const VarOptions& = {},
           Caller = Caller::here());  // with `using namespace locus`: locus::std

// log(sum(exp(x))), without overflow. If all elements are -inf, the result is -inf and the gradient
// 0. If the result is inf, the gradient is 0 for finite elements.
Tensor logsumexp(const Tensor& x, const ReduceOptions& = {}, Caller = Caller::here());

// The vector norm sum(|x|^ord)^(1/ord). Several axes count as one flattened axis. ord = inf gives
// max(|x|), ord = -inf gives min(|x|), ord = 0 counts the elements that are not 0. If the norm is
// in range, no power overflows. If the norm or an element is 0, the gradient there is 0. For inf
// and -inf, gradients follow max and min.
Tensor norm(const Tensor& x, const NormOptions& = {}, Caller = Caller::here());
inline Tensor norm(const Tensor& x, const std::same_as<ReduceOptions> auto& o,
                   Caller from = Caller::here()) {
  return norm(x, {.axis = o.axis, .keepdims = o.keepdims, .out = o.out}, from);
}

// Over one axis: sum(x, 1) is sum(x, {.axis = 1}).
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
// A compile error: elsewhere norm(x, 1) means the order.
template <std::same_as<Tensor> T>
Tensor norm(const T&, Integer auto) {
  static_assert(!sizeof(T),
                "norm takes options by name; write norm(x, {.axis = 1}) or "
                "norm(x, {.ord = 1})");
  return T();
}

// max and min of two operands are a compile error. Options in braces, {.axis = 1}, and axes select
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

// Sums x over the axes along which `shape` broadcasts to x's shape: the inverse of broadcast_to.
// The dtype stays. If x has that shape, the result is x itself. If `shape` does not broadcast to
// x's shape, sum_to throws ShapeError.
Tensor sum_to(const Tensor& x, const Shape& shape, Caller = Caller::here());

// --- Details ---
//
// - No elements: sum 0, prod 1, mean, var and std NaN, logsumexp -inf, any false, all true; norm 0,
//   of a negative order inf. max, min, argmax, argmin and the norms of order inf and -inf throw
//   ShapeError.
// - NaN: argmax and argmin return its position; reductions with floating results return NaN.
// - CPU: f32 sums join blocks of at most 4096 elements in f64. Each block is added in 64 lanes. The
//   number of threads does not change the bits, nor does the instruction set (except logsumexp).
// - prod joins products of parts. If one part is inf and another 0, the result is NaN, although the
//   product of all may be in range.
// - mean divides the sum. If f32 or f64 cannot hold the sum, the mean is infinite, as in NumPy.
// - max and min send the gradient to every element that equals the result, as MXNet does.
// - If elements are 0, the gradient of prod is exact, but its second-order gradient is not.
// - If the product of the other elements is in range, so is the gradient of prod. With more than
//   2000 elements, f64 must also hold the product of all.
// - If logsumexp is inf, each inf among the elements has gradient 1 (PyTorch: NaN).

}  // namespace locus
