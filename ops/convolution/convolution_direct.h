// Device code: convolutions of groups of few channels. One thread per result or data element, one
// block per weight.
#pragma once

#include <locus/ops/convolution/convolution_kernel.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {
namespace {

// Indices of element `at`. `last`: channels (of all groups) are the last axis; else they come
// before `size`. I is uint32_t below 2^31 elements.
struct ElementIndex {
  int64_t n, channel, at;
};
template <class I>
__device__ __forceinline__ ElementIndex place_of(int64_t at, int64_t channels, int64_t size,
                                                 bool last) {
  const I fast = static_cast<I>(last ? channels : size),
          slow = static_cast<I>(last ? size : channels);
  const I from = static_cast<I>(at), quotient = from / fast, f = from - quotient * fast;
  const I n = quotient / slow, s = quotient - n * slow;
  return last ? ElementIndex{int64_t(n), int64_t(f), int64_t(s)}
              : ElementIndex{int64_t(n), int64_t(s), int64_t(f)};
}
// Splits `at` along three axes.
template <class I>
__device__ __forceinline__ void split(int64_t at, const int64_t (&n)[3], int64_t (&along)[3]) {
  I rest = static_cast<I>(at);
#pragma unroll
  for (int a = 2; a > 0; --a) {
    const I length = static_cast<I>(n[a]), quotient = rest / length;
    along[a] = rest - quotient * length;
    rest = quotient;
  }
  along[0] = rest;
}

// f(tap, element) for all taps inside the array, in order. index(axis, tap) is the index along an
// axis, or -1.
__device__ __forceinline__ void each_tap(const Convolution& g, const int64_t (&extent)[3],
                                         const auto& index, const auto& f) {
  for (int64_t a = 0; a < g.kernel[0]; ++a) {
    const int64_t i = index(0, a);
    if (i < 0) continue;
    for (int64_t b = 0; b < g.kernel[1]; ++b) {
      const int64_t j = index(1, b);
      if (j < 0) continue;
      for (int64_t c = 0; c < g.kernel[2]; ++c) {
        const int64_t k = index(2, c);
        if (k >= 0) f((a * g.kernel[1] + b) * g.kernel[2] + c, (i * extent[1] + j) * extent[2] + k);
      }
    }
  }
}

template <class S, class I, class T = Compute<S>>
__global__ void __launch_bounds__(kBlock)
    direct_forward_kernel(const __grid_constant__ Convolution g, const S* x, const S* w,
                          const S* bias, bool relu, S* y, int64_t total) {
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const ElementIndex p = place_of<I>(i, g.groups * g.out, g.positions(), g.channels_last);
    const int64_t first = p.channel / g.out * g.in;
    int64_t at[3];
    split<I>(p.at, g.result, at);
    const auto index = [&](int axis, int64_t tap) {
      const int64_t place = g.data_index(axis, at[axis], tap);
      return place >= 0 && place < g.data[axis] ? place : -1;
    };
    T sum = 0;
    for (int64_t c = 0; c < g.in; ++c) {
      T part = 0;
      each_tap(g, g.data, index, [&](int64_t tap, int64_t from) {
        part += convert<T>(x[g.data_at(p.n, first + c, from)]) *
                convert<T>(w[g.weight_at(p.channel, c, tap)]);
      });
      sum += part;
    }
    if (bias != nullptr) sum += convert<T>(bias[p.channel]);
    y[i] = convert<S>(relu && sum < T(0) ? T(0) : sum);
  }
}

template <class S, class I, class T = Compute<S>>
__global__ void __launch_bounds__(kBlock)
    direct_data_kernel(const __grid_constant__ Convolution g, const S* dy, const S* y, const S* w,
                       const S* bias, S* dx, int64_t total) {
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const ElementIndex p = place_of<I>(i, g.groups * g.in, g.elements(), g.channels_last);
    const int64_t group = p.channel / g.in, first = group * g.out, c = p.channel - group * g.in;
    int64_t at[3];
    split<I>(p.at, g.data, at);
    const auto index = [&](int axis, int64_t tap) { return g.result_index(axis, at[axis], tap); };
    T sum = 0;
    each_tap(g, g.result, index, [&](int64_t tap, int64_t from) {
      T part = 0;
      for (int64_t o = first; o < first + g.out; ++o)
        part += convert<T>(masked(dy, y, g.result_at(p.n, o, from))) *
                convert<T>(w[g.weight_at(o, c, tap)]);
      sum += part;
    });
    if (bias != nullptr) sum += convert<T>(bias[p.channel]);
    dx[i] = convert<S>(sum);
  }
}

__device__ double block_sum(double v) {
  __shared__ double sums[kBlock];
  sums[threadIdx.x] = v;
  for (unsigned half = kBlock / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  __syncthreads();
  return sums[0];
}

template <class S, class I>
__global__ void __launch_bounds__(kBlock)
    direct_weight_kernel(const __grid_constant__ Convolution g, const S* x, const S* dy, const S* y,
                         S* dw) {
  const ElementIndex p = place_of<I>(blockIdx.x, g.in, g.taps(), g.channels_last);
  const int64_t channel = p.n / g.out * g.in + p.channel, size = g.positions();
  int64_t tap[3];
  split<I>(p.at, g.kernel, tap);
  double sum = 0;
  for (int64_t i = threadIdx.x; i < g.images * size; i += kBlock) {
    const I n = static_cast<I>(i) / static_cast<I>(size);
    const int64_t image = static_cast<int64_t>(n), place = i - image * size;
    int64_t at[3], from = 0;
    split<I>(place, g.result, at);
    bool inside = true;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      const int64_t index = g.data_index(a, at[a], tap[a]);
      inside = inside && index >= 0 && index < g.data[a];
      from = from * g.data[a] + index;
    }
    if (inside)
      sum += convert<double>(x[g.data_at(image, channel, from)]) *
             convert<double>(masked(dy, y, g.result_at(image, p.n, place)));
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) dw[blockIdx.x] = convert<S>(sum);
}

template <class S, class I>
__global__ void __launch_bounds__(kBlock)
    bias_grad_kernel(const __grid_constant__ Convolution g, const S* dy, const S* y, S* db) {
  const int64_t size = g.positions();
  double sum = 0;
  for (int64_t i = threadIdx.x; i < g.images * size; i += kBlock) {
    const int64_t n = static_cast<int64_t>(static_cast<I>(i) / static_cast<I>(size));
    sum += convert<double>(masked(dy, y, g.result_at(n, blockIdx.x, i - n * size)));
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) db[blockIdx.x] = convert<S>(sum);
}

}  // namespace
}  // namespace locus::cuda
