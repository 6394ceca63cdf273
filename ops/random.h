// Random numbers: Philox 4x32-10 (core/generator.h). The same seed and the same calls give the same
// bits on every context, CPU or GPU, whatever its instruction set or number of threads.
//
// Options: unset, the context is current_context() and the dtype f32; randint's is i32 (MXNet),
// permutation's i64. ValueError for bounds that make no sense,
// DTypeError for a dtype not said below. No gradients. random::seed() is in core/generator.h.
#pragma once

#include <locus/core/generator.h>
#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus::random {

// In [low, high), never high: multiples of 2^-24 (f32), 2^-53 (f64), 2^-11 (f16), 2^-8 (bf16) of
// the interval, each rounded to a number that the dtype has in it. If low == high, all are low.
// Floating dtypes. ValueError if the dtype has no number in the interval.
Tensor uniform(double low, double high, const Shape& shape, TensorOptions options = {},
               Caller = Caller::here());
// Mean `loc`, standard deviation `scale`: Box and Muller's transform in f64. Floating dtypes.
// ValueError for numbers outside the dtype's range.
Tensor normal(double loc, double scale, const Shape& shape, TensorOptions options = {},
              Caller = Caller::here());
// Integers in [low, high): the bias is below (high - low) / 2^64. Integer dtypes that can hold
// them.
Tensor randint(int64_t low, int64_t high, const Shape& shape, TensorOptions options = {},
               Caller = Caller::here());
// 1 with probability `prob`, else 0. Any dtype.
Tensor bernoulli(double prob, const Shape& shape, TensorOptions options = {},
                 Caller = Caller::here());

// 0 ... n-1 in random order, in a dtype that tells them apart (f16: n up to 2049), else DTypeError.
// Drawn on the host and sent to the context.
Tensor permutation(int64_t n, TensorOptions options = {}, Caller = Caller::here());
// A copy of x with the entries along axis 0 in random order.
Tensor shuffle(const Tensor& x, Caller = Caller::here());

}  // namespace locus::random
