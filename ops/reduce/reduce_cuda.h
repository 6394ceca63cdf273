// The CUDA kernel of every reduction, for reduce.cu and reduce_{extreme,arg,compound}.cu, one
// launch each. A block of 256 threads is `lanes` threads per output times 256 / lanes outputs. In
// `rows` form, neighbouring threads share an output, whose elements are neighbours in memory.
// Otherwise they have neighbouring outputs and go down columns.
//
// If the outputs are few, several blocks share an output. Each leaves a partial result in scratch
// memory, and the last to arrive adds them in order, so the bits do not depend on timing.
#pragma once

#include <optional>
#include <type_traits>

#include <locus/core/scratch.h>
#include <locus/ops/elementwise/kernels.h>
#include <locus/ops/kernel/launch.h>
#include <locus/ops/reduce/reduce_walk.h>
#include <locus/ops/reduce/reduction.h>

namespace locus::cuda {
namespace {

using namespace reduction;

constexpr int kThreads = 256;
template <class R>
constexpr int kUnroll = R::kHeavy ? 2 : 8;
struct Geometry {
  int lanes;       // threads per output, a power of two
  bool rows;       // lanes along threadIdx.x, else .y
  int splits;      // blocks per output
  int64_t length;  // elements of an output per block
  void* parts;
  unsigned* finished;  // blocks done of each tile; the last resets to 0
};

template <int N>
__device__ __forceinline__ void offsets_of(const Walk<N>& w, int64_t at, int64_t (&offset)[N]) {
  if (w.size >> 31 == 0)
    offsets<uint32_t>(w, at, offset);
  else
    offsets<int64_t>(w, at, offset);
}

template <class A>
__device__ __forceinline__ A shuffle_down(A v, int distance, int width) {
  return by_words(
      v, [&](const uint32_t* w) { return __shfl_down_sync(0xffffffffu, *w, distance, width); });
}

// Combines the lanes of each output in a fixed tree; lane 0 has the result. All threads call it.
template <class R, class A>
__device__ A combine_lanes(const R& r, A a, int lanes, bool rows, A* shared) {
  if (rows) {
    const int width = lanes < 32 ? lanes : 32;
    for (int d = width / 2; d > 0; d /= 2) a = r.combine(a, shuffle_down(a, d, width));
    if (lanes <= 32) return a;
    const int warps = lanes / 32, lane = threadIdx.x;
    A* mine = shared + threadIdx.y * warps;
    __syncthreads();
    if (lane % 32 == 0) mine[lane / 32] = a;
    __syncthreads();
    if (lane == 0)
      for (int w = 1; w < warps; ++w) a = r.combine(a, mine[w]);
    return a;
  }
  const int outputs = blockDim.x, lane = threadIdx.y;
  A* mine = shared + lane * outputs + threadIdx.x;
  __syncthreads();
  *mine = a;
  for (int d = lanes / 2; d > 0; d /= 2) {
    __syncthreads();
    if (lane < d) *mine = a = r.combine(a, mine[d * outputs]);
  }
  return a;
}

// A lane's accumulator of its elements of the block, kAtOnce in flight.
template <int kAtOnce, class R, class T>
__device__ __forceinline__ auto taken(const R& r, const T* base, const ReduceWalk& p,
                                      const Geometry& g, int lane) {
  using V = Promoted<T>;
  using A = typename R::template Acc<V, int64_t>;
  A acc = r.init(A());
  const int64_t begin = blockIdx.y * g.length;
  const int64_t end = begin + g.length < p.count ? begin + g.length : p.count;
  const int64_t step = g.lanes;
  int64_t k = begin + lane, count = 0;
  const V first = R::kCentered && k < end ? convert<V>(*base) : V();
  const auto add = [&](T v, int64_t index) {
    acc = added(r, acc, convert<V>(v), Position<V, int64_t>{index, ++count, first});
  };
  if (p.reduce.rank == 1) {
    const int64_t stride = p.reduce.stride[0][0];
    for (; k + (kAtOnce - 1) * step < end; k += kAtOnce * step) {
      T v[kAtOnce];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) v[u] = base[(k + u * step) * stride];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) add(v[u], k + u * step);
    }
    if (k < end) {  // in flight at once, too: short rows have only these
      T v[kAtOnce];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u)
        if (k + u * step < end) v[u] = base[(k + u * step) * stride];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u)
        if (k + u * step < end) add(v[u], k + u * step);
    }
  } else {
#pragma unroll(kAtOnce < 8 ? 1 : 4)
    for (; k < end; k += step) {
      int64_t offset[1] = {};
      offsets_of(p.reduce, k, offset);
      add(base[offset[0]], k);
    }
  }
  return acc;
}

template <class R, class T, class Out>
__global__ void __launch_bounds__(kThreads)
    reduce_kernel(const T* __restrict__ in, Out* __restrict__ out, const __grid_constant__ R r,
                  const __grid_constant__ ReduceWalk p, const __grid_constant__ Geometry g) {
  using V = Promoted<T>;
  using A = typename R::template Acc<V, int64_t>;
  __shared__ alignas(16) unsigned char shared_bytes[kThreads * sizeof(A)];

  const int lane = g.rows ? threadIdx.x : threadIdx.y;
  const int64_t per_block = g.rows ? blockDim.y : blockDim.x;
  const int64_t o = blockIdx.x * per_block + (g.rows ? threadIdx.y : threadIdx.x);
  const bool active = o < p.outputs;

  int64_t at[2] = {};  // out, in
  if (active) offsets_of(p.keep, o, at);
  // Combines all lanes of an output, in lane 0.
  const auto all = [&]<int kAtOnce>(const auto& how, std::integral_constant<int, kAtOnce>) {
    using Part = typename std::remove_cvref_t<decltype(how)>::template Acc<V, int64_t>;
    Part part = how.init(Part());
    if (active) part = taken<kAtOnce>(how, in + at[1], p, g, lane);
    return combine_lanes(how, part, g.lanes, g.rows, reinterpret_cast<Part*>(shared_bytes));
  };
  const std::integral_constant<int, kUnroll<R>> many;
  A acc;
  if constexpr (tries_simple<R, V, int64_t>()) {
    const auto simple = r.simple();
    const auto part = all(simple, many);
    const bool lost = active && lane == 0 && !simple.kept(part);
    acc = r.from(part, A());
    if (__syncthreads_or(lost)) {  // the block's other outputs keep their results
      const A again = all(r, std::integral_constant<int, 1>());
      if (lost) acc = again;
    }
  } else {
    acc = all(r, many);
  }

  if (g.splits > 1) {
    A* parts = static_cast<A*>(g.parts);
    if (active && lane == 0) parts[blockIdx.y * p.outputs + o] = acc;
    if (!arrives_last(&g.finished[blockIdx.x], gridDim.y)) return;
    acc = r.init(A());
    if (active)
      for (int s = lane; s < g.splits; s += g.lanes)
        acc = r.combine(
            acc, by_words(parts[s * p.outputs + o], [](const uint32_t* w) { return __ldcg(w); }));
    acc = combine_lanes(r, acc, g.lanes, g.rows, reinterpret_cast<A*>(shared_bytes));
  }
  if (active && lane == 0) out[at[0]] = convert<Out>(r.result(acc, static_cast<double>(p.count)));
}

inline int power_of_two_above(int64_t n, int limit) {
  int p = 1;
  while (p < n && p < limit) p *= 2;
  return p;
}

struct Launch {
  ReduceWalk walk;
  Geometry geometry;
  dim3 grid, block;
};
// `unroll`: elements that a thread has in flight.
[[maybe_unused]] __attribute__((noinline)) Launch arrange(const Call& call, uint32_t axes,
                                                          bool ordered, int unroll) {
  const ReduceWalk p(call.in[0], axes, ordered);
  Geometry g{};
  g.rows = p.outputs == 1 || magnitude(p.down()) <= magnitude(p.across()) || p.width() == 1;
  int outputs;
  if (g.rows) {
    // Up to a warp with four elements per thread. Beyond that, threads with `unroll` elements each,
    // all in flight.
    g.lanes = power_of_two_above((p.count + 3) / 4, 32);
    const int full = power_of_two_above((p.count + unroll - 1) / unroll, kThreads);
    if (full > g.lanes) g.lanes = full;
    outputs = kThreads / g.lanes;
  } else {
    outputs = power_of_two_above(p.outputs, 32);
    g.lanes = power_of_two_above((p.count + 1) / 2, kThreads / outputs);
  }
  const int64_t tiles = (p.outputs + outputs - 1) / outputs;
  const int64_t wanted = 8LL * multiprocessors(call.stream);
  const int64_t chunk = static_cast<int64_t>(g.lanes) * unroll;
  int64_t splits = 1;
  if (tiles <= kMaxCounters && tiles * 2 <= wanted) splits = wanted / tiles;
  if (splits > p.count / (2 * chunk)) splits = p.count / (2 * chunk);
  if (splits < 1) splits = 1;
  g.length = (p.count + splits * chunk - 1) / (splits * chunk) * chunk;
  splits = g.length > 0 ? (p.count + g.length - 1) / g.length : 1;
  g.splits = static_cast<int>(splits < 1 ? 1 : splits);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(g.splits));
  return {p, g, grid, g.rows ? dim3(g.lanes, outputs) : dim3(outputs, g.lanes)};
}

template <class T, class R>
void launch_reduce(const Call& call, uint32_t axes, const R& r) {
  using A = typename R::template Acc<Promoted<T>, int64_t>;
  Launch l = arrange(call, axes, R::kOrdered, kUnroll<R>);
  Geometry& g = l.geometry;
  std::optional<Scratch> parts;
  if (g.splits > 1) {
    const auto accumulators = static_cast<size_t>(g.splits * l.walk.outputs);
    g.parts = parts.emplace(call, accumulators * sizeof(A)).data();
    g.finished = counters(call.stream, static_cast<int>(l.grid.x));
  }
  reduce_kernel<R, T><<<l.grid, l.block, 0, stream(call)>>>(
      call.in[0].as<T>(), call.out[0].as<typename R::template Out<T>>(), r, l.walk, g);
}

struct Engine {
  template <class R, DType D>
  static void reduce(const Call& call) {
    const auto& attrs = call.attributes<ReduceBy<R>>();
    for_kernel(attrs.how, [&](const auto& r) { launch_reduce<CppTypeOf<D>>(call, attrs.axes, r); });
  }
  template <class R, DType D>
  static void sum_to(const Call& call) {
    const uint32_t axes = broadcast_axes(call.in[0].meta, call.out[0].meta);
    launch_reduce<CppTypeOf<D>>(call, axes, R());
  }
  template <class R, DType D>
  static constexpr Kernel kernel() {
    return &reduce<R, D>;
  }
};

}  // namespace
}  // namespace locus::cuda
