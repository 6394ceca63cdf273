// Device code: adds partial weight and bias gradients.
#pragma once

#include <locus/devices/cuda.h>
#include <locus/ops/kernel/cast.h>

namespace locus::cuda {
namespace {

// sum[i] of n parts in a fixed order: 32 elements per block, every eighth part per thread.
template <class S>
__global__ void __launch_bounds__(256)
    join_kernel(const S* parts, int64_t n, int64_t weights, int64_t size, S* dw, S* db) {
  using C = Compute<S>;
  __shared__ C sums[8][32];
  const int lane = static_cast<int>(threadIdx.x) % 32, share = static_cast<int>(threadIdx.x) / 32;
  const int64_t i = int64_t{blockIdx.x} * 32 + lane;
  C sum = 0;
  if (i < size) {
#pragma unroll 8
    for (int64_t s = share; s < n; s += 8) sum += convert<C>(parts[s * size + i]);
  }
  sums[share][lane] = sum;
  __syncthreads();
  if (share > 0 || i >= size) return;
#pragma unroll
  for (int k = 1; k < 8; ++k) sum += sums[k][lane];
  *(i < weights ? dw + i : db + (i - weights)) = convert<S>(sum);
}

// A part has `size` elements: dw, then db if size > weights. Enqueues one launch.
template <class S>
void join_parts(const Call& call, const S* parts, int64_t n, int64_t weights, int64_t size, S* dw,
                S* db) {
  join_kernel<<<static_cast<unsigned>((size + 31) / 32), 256, 0, stream(call)>>>(parts, n, weights,
                                                                                 size, dw, db);
}

}  // namespace
}  // namespace locus::cuda
