// Scans: each result is the reduction of the elements up to its position.
//
//   const Tensor y = cumsum(x, 1);            // along axis 1
//   const Tensor z = cumsum(x);               // of the flattened tensor: shape (x.size(),)
//
// Results have x's shape. Negative axes count from the end; an axis out of range is a ShapeError.
// On the CPU floats accumulate in f64; on GPUs f16, bf16 and f32 accumulate in f32. The shape alone
// fixes the order, so results repeat bit by bit. NaN stays until the end of its row.
//
// Names and rules are NumPy's; cummax, cummin and logcumsumexp follow PyTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

struct ScanOptions {
  std::optional<int64_t> axis = std::nullopt;  // none: the flattened tensor
  // If defined, the result is written into `out`, as in reductions (reduce.h).
  Tensor out = {};
};
struct CumExtremeOptions {
  std::optional<int64_t> axis = std::nullopt;
};

// Sums and products of integers and bool are i64 and wrap.
Tensor cumsum(const Tensor& x, const ScanOptions& = {}, Caller = Caller::here());
// The gradient never divides by elements, so it is right for elements that are 0, too.
Tensor cumprod(const Tensor& x, const ScanOptions& = {}, Caller = Caller::here());
// log(cumsum(exp(x))), without overflow. Integers and bool give f64. Elements of -inf have gradient
// 0, elements of inf NaN. Results that are infinite add 0 to the gradient of finite elements.
Tensor logcumsumexp(const Tensor& x, const ScanOptions& = {}, Caller = Caller::here());

// The largest element so far, and its position along the axis, i64. Of equal elements, the position
// of the last counts, and the last gets the gradient.
std::pair<Tensor, Tensor> cummax(const Tensor& x, const CumExtremeOptions& = {},
                                 Caller = Caller::here());
// The smallest element so far, and its position.
std::pair<Tensor, Tensor> cummin(const Tensor& x, const CumExtremeOptions& = {},
                                 Caller = Caller::here());

// Along one axis: cumsum(x, 1) is cumsum(x, {.axis = 1}).
inline Tensor cumsum(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return cumsum(x, {.axis = axis}, from);
}
inline Tensor cumprod(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return cumprod(x, {.axis = axis}, from);
}
inline Tensor logcumsumexp(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return logcumsumexp(x, {.axis = axis}, from);
}
inline std::pair<Tensor, Tensor> cummax(const Tensor& x, Integer auto axis,
                                        Caller from = Caller::here()) {
  return cummax(x, {.axis = axis}, from);
}
inline std::pair<Tensor, Tensor> cummin(const Tensor& x, Integer auto axis,
                                        Caller from = Caller::here()) {
  return cummin(x, {.axis = axis}, from);
}

}  // namespace locus
