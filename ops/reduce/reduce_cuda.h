// The CUDA kernel of every reduction, for reduce.cu and reduce_arg.cu. One launch each: a block of
// 256 threads is `lanes` threads an output times 256 / lanes outputs. In `rows` form neighbouring
// threads share an output (its elements are neighbours in memory), else they have neighbouring
// outputs (going down columns). When the outputs are few, several blocks share an output: each
// leaves a partial result in the workspace, and the last to arrive adds them in order, so the bits
// do not depend on who was last.
#pragma once

#include <locus/devices/cuda.h>
#include <locus/ops/reduce/reduce_kernel.h>

namespace locus::cuda {
namespace {

using namespace reduction;

constexpr int kThreads = 256;
constexpr int kTiles = 512;    // counters a stream: as many output tiles may be shared by blocks
constexpr int kStreams = 256;  // streams with counters of their own
constexpr int kUnroll = 8;

// How many blocks of a tile have finished. 0 between launches: the last block puts it back.
// Launches of one stream follow each other, so a stream's counters are never in use twice.
__device__ unsigned g_finished[kStreams][kTiles];

struct Geometry {
  int lanes;       // threads an output, a power of two
  bool rows;       // which of threadIdx.x and .y counts them
  int splits;      // blocks an output
  int64_t length;  // elements a block takes of an output
  void* parts;
  unsigned* finished;  // null: g_finished[stream]
  unsigned stream;
  double divisor;  // negative: none
};

__device__ __forceinline__ int64_t divide(int64_t& n, int64_t d) {  // the quotient; n: the rest
  int64_t q;
  if (((n | d) >> 32) == 0)
    q = static_cast<uint32_t>(n) / static_cast<uint32_t>(d);
  else
    q = n / d;
  n -= q * d;
  return q;
}

__device__ __forceinline__ int64_t element_offset(const ReducePlan& p, int64_t k) {
  int64_t at = 0;
  for (int a = 0; a + 1 < p.n_reduce; ++a) {
    int64_t i = k;
    k = divide(i, p.reduce[a].size);
    at += i * p.reduce[a].in;
  }
  return at + k * p.reduce[p.n_reduce - 1].in;
}

// Moves a value of any type in words.
template <class A>
__device__ __forceinline__ A shuffle_down(A v, int distance, int width) {
  static_assert(sizeof(A) % 4 == 0);
  union Words {
    A value;
    uint32_t word[sizeof(A) / 4];
    __device__ Words() {}
  } w;
  w.value = v;
#pragma unroll
  for (unsigned i = 0; i < sizeof(A) / 4; ++i)
    w.word[i] = __shfl_down_sync(0xffffffffu, w.word[i], distance, width);
  return w.value;
}
// Past the first-level cache: another block wrote it.
template <class A>
__device__ __forceinline__ A load_shared_result(const A* p) {
  union Words {
    A value;
    uint32_t word[sizeof(A) / 4];
    __device__ Words() {}
  } w;
#pragma unroll
  for (unsigned i = 0; i < sizeof(A) / 4; ++i)
    w.word[i] = __ldcg(reinterpret_cast<const uint32_t*>(p) + i);
  return w.value;
}

// Combines the lanes of each output in a fixed tree; lane 0 has the result. All threads call it.
template <class R, class A>
__device__ A combine_lanes(A a, int lanes, bool rows, A* shared) {
  if (rows) {
    const int width = lanes < 32 ? lanes : 32;
    for (int d = width / 2; d > 0; d /= 2) a = R::combine(a, shuffle_down(a, d, width));
    if (lanes <= 32) return a;
    const int warps = lanes / 32, lane = threadIdx.x;
    A* mine = shared + threadIdx.y * warps;
    __syncthreads();
    if (lane % 32 == 0) mine[lane / 32] = a;
    __syncthreads();
    if (lane == 0)
      for (int w = 1; w < warps; ++w) a = R::combine(a, mine[w]);
    return a;
  }
  const int outputs = blockDim.x, lane = threadIdx.y;
  A* mine = shared + lane * outputs + threadIdx.x;
  __syncthreads();
  *mine = a;
  for (int d = lanes / 2; d > 0; d /= 2) {
    __syncthreads();
    if (lane < d) *mine = a = R::combine(a, mine[d * outputs]);
  }
  return a;
}

template <class R, class T>
__global__ void __launch_bounds__(kThreads)
    reduce_kernel(const T* __restrict__ in, typename R::template Out<T>* __restrict__ out,
                  const __grid_constant__ ReducePlan p, const __grid_constant__ Geometry g) {
  using A = typename R::template Acc<T>;
  using Out = typename R::template Out<T>;
  __shared__ alignas(16) unsigned char shared_bytes[kThreads * sizeof(A)];
  __shared__ bool last;
  A* shared = reinterpret_cast<A*>(shared_bytes);

  const int lane = g.rows ? threadIdx.x : threadIdx.y;
  const int64_t per_block = g.rows ? blockDim.y : blockDim.x;
  const int64_t o = blockIdx.x * per_block + (g.rows ? threadIdx.y : threadIdx.x);
  const bool active = o < p.outputs;

  int64_t in_at = 0, out_at = 0;
  for (int64_t a = 0, rest = o; a < p.n_keep; ++a) {
    int64_t i = rest;
    rest = a + 1 < p.n_keep ? divide(i, p.keep[a].size) : 0;
    in_at += i * p.keep[a].in;
    out_at += i * p.keep[a].out;
  }

  A acc = R::template identity<A>();
  if (active) {
    const T* base = in + in_at;
    const int64_t begin = blockIdx.y * g.length;
    const int64_t end = begin + g.length < p.count ? begin + g.length : p.count;
    const int64_t step = g.lanes;
    int64_t k = begin + lane;
    if (p.n_reduce == 1) {
      const int64_t stride = p.reduce[0].in;
      for (; k + (kUnroll - 1) * step < end; k += kUnroll * step) {
        T v[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) v[u] = base[(k + u * step) * stride];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
          acc = R::combine(acc, R::template element<A>(v[u], k + u * step));
      }
      for (; k < end; k += step) acc = R::combine(acc, R::template element<A>(base[k * stride], k));
    } else {
#pragma unroll 4
      for (; k < end; k += step)
        acc = R::combine(acc, R::template element<A>(base[element_offset(p, k)], k));
    }
  }
  acc = combine_lanes<R>(acc, g.lanes, g.rows, shared);

  if (g.splits > 1) {
    A* parts = static_cast<A*>(g.parts);
    unsigned* finished = g.finished ? g.finished : g_finished[g.stream];
    if (active && lane == 0) parts[blockIdx.y * p.outputs + o] = acc;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
      last = atomicAdd(&finished[blockIdx.x], 1u) == gridDim.y - 1;
      if (last) finished[blockIdx.x] = 0;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    acc = R::template identity<A>();
    if (active)
      for (int s = lane; s < g.splits; s += g.lanes)
        acc = R::combine(acc, load_shared_result(&parts[s * p.outputs + o]));
    acc = combine_lanes<R>(acc, g.lanes, g.rows, shared);
  }
  if (active && lane == 0) out[out_at] = R::template result<Out>(acc, g.divisor);
}

inline int power_of_two_above(int64_t n, int limit) {
  int p = 1;
  while (p < n && p < limit) p *= 2;
  return p;
}

// R adds to a reduction: element<A>(value, k) and result<Out>(acc, divisor).
template <class R, class T>
void launch_reduce(const Call& call, uint32_t axes, bool ordered, bool mean) {
  using A = typename R::template Acc<T>;
  using Out = typename R::template Out<T>;
  const ReducePlan p(call.in[0], axes, ordered);
  const auto magnitude = [](int64_t n) { return n < 0 ? -n : n; };

  Geometry g{};
  g.divisor = mean ? static_cast<double>(p.count) : -1;
  g.rows =
      p.outputs == 1 || magnitude(p.reduce[0].in) <= magnitude(p.keep[0].in) || p.keep[0].size == 1;
  int outputs;
  if (g.rows) {
    g.lanes = power_of_two_above((p.count + 3) / 4, kThreads);
    outputs = kThreads / g.lanes;
  } else {
    outputs = power_of_two_above(p.outputs, 32);
    g.lanes = power_of_two_above((p.count + 1) / 2, kThreads / outputs);
  }
  const int64_t tiles = (p.outputs + outputs - 1) / outputs;
  const int64_t wanted = 8LL * multiprocessors(call.stream);
  const int64_t chunk = static_cast<int64_t>(g.lanes) * kUnroll;
  int64_t splits = 1;
  if (tiles <= kTiles && tiles * 2 <= wanted) splits = wanted / tiles;
  if (splits > p.count / (2 * chunk)) splits = p.count / (2 * chunk);
  if (splits < 1) splits = 1;
  g.length = (p.count + splits * chunk - 1) / (splits * chunk) * chunk;
  splits = g.length > 0 ? (p.count + g.length - 1) / g.length : 1;
  g.splits = static_cast<int>(splits < 1 ? 1 : splits);
  if (g.splits > 1) {
    const size_t parts = static_cast<size_t>(g.splits * p.outputs) * sizeof(A);
    const bool own = call.stream.id < kStreams;
    char* scratch = static_cast<char*>(
        workspace(call.stream, parts + (own ? 0 : kTiles * sizeof(unsigned) + 16)));
    g.parts = scratch;
    g.stream = call.stream.id;
    if (!own) {
      g.finished = reinterpret_cast<unsigned*>(scratch + (parts + 15) / 16 * 16);
      cudaMemsetAsync(g.finished, 0, kTiles * sizeof(unsigned), stream(call));
    }
  }
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(g.splits));
  const dim3 block = g.rows ? dim3(g.lanes, outputs) : dim3(outputs, g.lanes);
  reduce_kernel<R, T>
      <<<grid, block, 0, stream(call)>>>(call.in[0].as<T>(), call.out[0].as<Out>(), p, g);
}

}  // namespace
}  // namespace locus::cuda
