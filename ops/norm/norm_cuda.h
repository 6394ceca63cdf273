// For the CUDA kernels of the normalisations: the sums over the elements of each channel. Blocks
// leave partial ones in scratch memory, and a second launch combines them, in an order that the
// shape alone fixes. Included by *.cu only.
#pragma once

#include <locus/core/scratch.h>
#include <locus/ops/kernel/launch.h>
#include <locus/ops/norm/norm_kernel.h>

namespace locus::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kSideBySide = 16;  // shorter runs of a channel are columns, one a thread

template <class V>
__device__ __forceinline__ V shuffle_down(V v, int distance) {
  return by_words(v, [&](const uint32_t* w) { return __shfl_down_sync(~0u, *w, distance); });
}

template <int kN, class T>
__device__ __forceinline__ Pack<T, kN> load(const T* p) {
  return *reinterpret_cast<const Pack<T, kN>*>(p);
}

// Sums of a channel. Adder: `Sum`, combined by combine(); in a thread start(c) begins those of
// channel c, add<kN>(o, c, at) takes the kN elements from `at` on in, end() gives the sum. whole():
// whether memory lets 16 bytes be loaded at once; kWhole is as many elements.
template <class T>
struct AddMoments {
  using A = Compute<T>;
  using Sum = Moments<double>;
  static constexpr int kWhole = 16 / sizeof(T);
  const T* x;
  A first;
  Moments<A> m;
  int64_t count;

  __device__ void start(int64_t) {
    first = 0;
    m = {0, 0, 0};
    count = 0;
  }
  bool whole() const { return aligned(x, 16); }
  template <int kN>
  __device__ void add(int64_t, int64_t, int64_t at) {
    const auto v = load<kN>(x + at);
    if (count == 0) first = convert<A>(v.v[0]);
#pragma unroll
    for (int k = 0; k < kN; ++k)
      m = reduction::Var::add(m, convert<A>(v.v[k]),
                              reduction::Position<A, int64_t>{0, ++count, first});
  }
  __device__ Sum end() const { return widened(static_cast<double>(first), m); }
};
// Stat: start(c), and operator()(o, c), the statistics of an element.
template <class T, class Stat>
struct AddSums {
  using A = Compute<T>;
  using Sum = NormSums;
  static constexpr int kWhole = 16 / sizeof(T);
  const T *dy, *x;
  Stat stat;
  A a, b;

  __device__ void start(int64_t c) {
    stat.start(c);
    a = b = 0;
  }
  bool whole() const { return aligned(dy, 16) && aligned(x, 16); }
  template <int kN>
  __device__ void add(int64_t o, int64_t c, int64_t at) {
    const NormStat<A> s = stat(o, c);
    const auto d = load<kN>(dy + at), v = load<kN>(x + at);
#pragma unroll
    for (int k = 0; k < kN; ++k) {
      a += convert<A>(d.v[k]);
      b += convert<A>(d.v[k]) * s.hat(convert<A>(v.v[k]));
    }
  }
  __device__ Sum end() const { return {static_cast<double>(a), static_cast<double>(b)}; }
};

// Block (x, y) takes part y of the `outer` elements of a channel, kN at once, or of 32 columns.
template <bool kRuns, int kN, class Adder>
__global__ void __launch_bounds__(kThreads)
    partial_kernel(Adder adder, const __grid_constant__ Along s, int64_t parts,
                   typename Adder::Sum* __restrict__ sums) {
  using Sum = typename Adder::Sum;
  __shared__ alignas(16) unsigned char bytes[kThreads * sizeof(Sum)];
  Sum* const shared = reinterpret_cast<Sum*>(bytes);
  const int t = static_cast<int>(threadIdx.x);
  const int64_t part = blockIdx.y, width = kRuns ? s.n : s.n * s.inner;
  const int64_t begin = s.outer * part / parts, end = s.outer * (part + 1) / parts;
  const int64_t column = kRuns ? blockIdx.x : blockIdx.x * int64_t{32} + t % 32;
  Sum sum{};
  if (column < width) {
    const int64_t c = kRuns ? column : column / s.inner;
    adder.start(c);
    if (kRuns) {
      const int64_t packs = s.inner / kN, whole = kThreads / packs, rest = kThreads % packs;
      int64_t o = begin + t / packs, i = t % packs;
      while (o < end) {
        adder.template add<kN>(o, c, (o * s.n + c) * s.inner + i * kN);
        o += whole;
        i += rest;
        if (i >= packs) {
          i -= packs;
          ++o;
        }
      }
    } else {
#pragma unroll 4
      for (int64_t o = begin + t / 32; o < end; o += kThreads / 32)
        adder.template add<1>(o, c, o * width + column);
    }
    sum = adder.end();
  }
  shared[t] = sum;
  for (int d = kThreads / 2; d >= (kRuns ? 1 : 32); d /= 2) {
    __syncthreads();
    if (t < d) shared[t] = sum = combine(sum, shared[t + d]);
  }
  if (t < (kRuns ? 1 : 32) && column < width) sums[part * width + column] = sum;
}

// A warp a channel: done(c, sum).
template <class Sum, class Done>
__global__ void __launch_bounds__(kThreads)
    finish_kernel(const Sum* __restrict__ sums, int64_t channels, int64_t copies, int64_t parts,
                  const __grid_constant__ Done done) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t c = blockIdx.x * int64_t{kThreads / 32} + threadIdx.x / 32;
  if (c >= channels) return;
  Sum sum{};
  for (int64_t k = lane; k < parts * copies; k += 32)
    sum = combine(sum, sums[(k / copies * channels + c) * copies + k % copies]);
  for (int d = 16; d > 0; d /= 2) sum = combine(sum, shuffle_down(sum, d));
  if (lane == 0) done(c, sum);
}

template <class Adder, class Done>
void for_channels(const Call& call, const Along& s, const Adder& adder, const Done& done) {
  using Sum = typename Adder::Sum;
  constexpr int64_t kBlocks = 1024, kElements = 2048;  // enough blocks; enough for a block
  const bool runs = s.inner >= kSideBySide;
  const int64_t copies = runs ? 1 : s.inner, width = s.n * copies;
  const int64_t tiles = runs ? width : (width + 31) / 32;
  int64_t parts = s.outer * (runs ? s.inner : 32) / kElements;
  if (tiles > 0 && parts > kBlocks / tiles) parts = kBlocks / tiles;
  if (parts > s.outer) parts = s.outer;
  if (parts < 1) parts = 1;
  const Scratch scratch(call, static_cast<size_t>(parts * width) * sizeof(Sum));
  Sum* const sums = scratch.as<Sum>();
  if (tiles > 0) {
    const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(parts));
    constexpr int kN = Adder::kWhole;
    if (runs && s.inner % kN == 0 && adder.whole())
      partial_kernel<true, kN><<<grid, kThreads, 0, stream(call)>>>(adder, s, parts, sums);
    else if (runs)
      partial_kernel<true, 1><<<grid, kThreads, 0, stream(call)>>>(adder, s, parts, sums);
    else
      partial_kernel<false, 1><<<grid, kThreads, 0, stream(call)>>>(adder, s, parts, sums);
  }
  constexpr int64_t kEach = kThreads / 32;
  finish_kernel<<<static_cast<unsigned>((s.n + kEach - 1) / kEach), kThreads, 0, stream(call)>>>(
      sums, s.n, copies, parts, done);
}

}  // namespace
}  // namespace locus::cuda
