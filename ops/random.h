// Random numbers from Philox 4x32-10 (core/generator.h).
//
//   const Tensor noise = random::normal(0, 1, {2, 3}, {gpu(0)});
//
// The same seed and the same calls give the same bits on every context, for any instruction set and
// number of threads. random::seed() is in core/generator.h. There are no gradients.
//
// Without options the context is current_context() and the dtype f32; randint's is i32 (MXNet),
// permutation's i64. Invalid bounds are a ValueError, unsupported dtypes a DTypeError.
#pragma once

#include <locus/core/generator.h>
#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus::random {

// Floating numbers in [low, high), never high. They are multiples of 2^-24 (f32), 2^-53 (f64),
// 2^-11 (f16) or 2^-8 (bf16) of the interval, rounded to a number of the dtype inside the interval.
// If low == high, all are low. If the dtype has no number there: ValueError.
Tensor uniform(double low, double high, const Shape& shape, TensorOptions options = {},
               Caller = Caller::here());
// Normal numbers of floating dtypes, mean `loc`, standard deviation `scale`: Box and Muller's
// transform in f64. Numbers outside the dtype's range are a ValueError.
Tensor normal(double loc, double scale, const Shape& shape, TensorOptions options = {},
              Caller = Caller::here());
// Integers in [low, high), of an integer dtype that holds them. Bias: below (high - low) / 2^64.
Tensor randint(int64_t low, int64_t high, const Shape& shape, TensorOptions options = {},
               Caller = Caller::here());
// 1 with probability `prob`, else 0. Any dtype.
Tensor bernoulli(double prob, const Shape& shape, TensorOptions options = {},
                 Caller = Caller::here());

// 0 ... n-1 in random order. If the dtype does not hold all of them (f16: n > 2049), permutation
// throws DTypeError. The host draws and sends them to the context.
Tensor permutation(int64_t n, TensorOptions options = {}, Caller = Caller::here());
// A copy of x with the entries along axis 0 in random order.
Tensor shuffle(const Tensor& x, Caller = Caller::here());

}  // namespace locus::random
