// Steps of fused kernels that reduce rows: on a GPU a team of threads has a row, on the host a
// thread. Free of the standard library.
#pragma once

#include <locus/ops/fuse/body.h>
#ifndef __CUDACC__
#include <locus/ops/reduce/lanes.h>
#endif
#include <locus/ops/reduce/extreme.h>
#include <locus/ops/reduce/logsumexp.h>
#include <locus/ops/reduce/norm.h>
#include <locus/ops/reduce/sum.h>

namespace locus::fusion {

// A row of an array: element i is at data + i * stride.
template <class T>
struct Row {
  T* data;
  int64_t stride;
};

// Where a row of each array begins.
template <int N>
LOCUS_HD void find_row(const jit::Loop& rows, const jit::Array (&array)[N], int64_t row,
                       int64_t (&at)[N]) {
  if (rows.rank == 1) {  // without a call
    for (int k = 0; k < N; ++k) at[k] = row * array[k].stride[0];
    return;
  }
  int64_t found[N] = {};
  jit::locate(rows, array, row, found);
  for (int k = 0; k < N; ++k) at[k] = found[k];
}

#ifdef __CUDACC__
// A thread of a team. Threads behind the last row compute row 0, so that all threads of a block
// reach the barriers, and store nothing.
struct Member {
  int threads, lane;
  int64_t row;
  bool stores;

  __device__ __forceinline__ Member(const Rows& rows, int64_t n)
      : threads(rows.threads),
        lane(threadIdx.x & (threads - 1)),
        row((blockIdx.x * int64_t{blockDim.x} + threadIdx.x) >> (31 - __clz(threads))),
        stores(row < n) {
    if (!stores) row = 0;
  }
  // The first element of pack k of those that begin at `begin`.
  template <int E>
  __device__ __forceinline__ int first(int begin, int k) const {
    return begin + (k * threads + lane) * E;
  }
};

// What a thread holds of an array: K packs.
template <class T, int E, int K>
struct Held {
  jit::Pack<T, E> pack[K];

  // Of packed rows, whose length is a multiple of E.
  __device__ __forceinline__ void load(const Row<const T>& row, const Member& m, int n) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int i = m.first<E>(0, k);
      pack[k] = i < n ? *reinterpret_cast<const jit::Pack<T, E>*>(row.data + i) : jit::Pack<T, E>{};
    }
  }
  // Element i and the next ones of any row.
  __device__ __forceinline__ void gather(const Row<const T>& row, bool packed, int i, int n) {
    if (packed && i < n) {
      pack[0] = *reinterpret_cast<const jit::Pack<T, E>*>(row.data + i);
      return;
    }
#pragma unroll
    for (int e = 0; e < E; ++e)
      pack[0].v[e] = i + e < n ? jit::read(row.data + (i + e) * row.stride) : T();
  }
};
template <class T, int E>
__device__ __forceinline__ void store(const Row<T>& row, int i, int n, const jit::Pack<T, E>& p) {
  if (i < n) *reinterpret_cast<jit::Pack<T, E>*>(row.data + i) = p;
}
template <class T, int E>
__device__ __forceinline__ void scatter(const Row<T>& row, bool packed, int i, int n,
                                        const jit::Pack<T, E>& p) {
  if (packed) return store(row, i, n, p);
#pragma unroll
  for (int e = 0; e < E; ++e)
    if (i + e < n) row.data[(i + e) * row.stride] = p.v[e];
}

// f(word) of each 32-bit word of v.
template <class A, class F>
__device__ __forceinline__ A by_words(const A& v, const F& f) {
  static_assert(sizeof(A) % 4 == 0);
  struct Words {
    unsigned word[sizeof(A) / 4];
  } w = __builtin_bit_cast(Words, v);
#pragma unroll
  for (unsigned& word : w.word) word = f(word);
  return __builtin_bit_cast(A, w);
}
// The first lane's, which has combined all of its team: others get its bits.
template <class R, class A>
__device__ __forceinline__ A combine_lanes(const R& r, A v, int lanes) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2)
    if (d < lanes)
      v = r.combine(v, by_words(v, [&](unsigned word) {
                      return __shfl_down_sync(0xffffffffu, word, d, lanes);
                    }));
  return by_words(v, [&](unsigned word) { return __shfl_sync(0xffffffffu, word, 0, lanes); });
}
// A thread's accumulators: one for each element of a pack, so that none waits for another.
template <class A, int E>
struct Partial {
  A of[E];
};
template <class V, int E, class R>
__device__ __forceinline__ auto start(const R& r) {
  using A = typename R::template Acc<V, int64_t>;
  Partial<A, E> all;
#pragma unroll
  for (A& a : all.of) a = static_cast<A>(r.init(A()));
  return all;
}
// Adds x, which is element i, if the row has that many: a choice without branches.
template <class R, class A, class V>
__device__ __forceinline__ void add(const R& r, A& acc, V x, int i, int n) {
  const A more = reduction::added(r, acc, x, reduction::Position<V, int64_t>{i, i + 1, V()});
  acc = i < n ? more : acc;
}
// All threads of the block call this, once for each N. Every thread of a team gets the same bits.
template <int N, class R, class A, int E>
__device__ __forceinline__ A combine_team(const R& r, Partial<A, E> all, int threads) {
#pragma unroll
  for (int d = E / 2; d > 0; d /= 2)
#pragma unroll
    for (int e = 0; e < d; ++e) all.of[e] = r.combine(all.of[e], all.of[e + d]);
  A v = combine_lanes(r, all.of[0], threads < 32 ? threads : 32);
  if (threads <= 32) return v;
  __shared__ A of_warp[kTeam / 32];  // a team of several warps is the block
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
  __syncthreads();
  v = of_warp[0];
#pragma unroll 1
  for (int w = 1; w < threads / 32; ++w) v = r.combine(v, of_warp[w]);
  return v;
}
#else
using generated::TotalAcc;
static_assert(generated::kBlock == kHostPart);

template <class V, class R>
TotalAcc<R, V> start(const R& r) {
  return static_cast<TotalAcc<R, V> >(r.init(TotalAcc<R, V>()));
}
// Adds the elements k .. k + m, which are at x.
template <class V, class R>
void add(const R& r, TotalAcc<R, V>& total, const V* x, int64_t m, int64_t k) {
  generated::join_one<R, V>(r, total, generated::reduce_block(x, m, r), k);
}
// Elements begin .. begin + m of the row: in place, or in `block`.
template <class T>
const Compute<T>* fetch(const Row<const T>& row, int64_t begin, int64_t m, Compute<T>* block) {
  const T* const from = row.data + begin * row.stride;
  if constexpr (kSame<T, Compute<T> >) {
    if (row.stride == 1) return from;
  }
  if (row.stride == 1) {
    convert_run(from, block, m);
  } else {
    for (int64_t i = 0; i < m; ++i)
      block[i] = convert<Compute<T> >(jit::read(from + i * row.stride));
  }
  return block;
}
template <class T>
Compute<T>* place(const Row<T>& row, int64_t begin, Compute<T>* block) {
  if constexpr (kSame<T, Compute<T> >) {
    if (row.stride == 1) return row.data + begin;
  }
  return block;
}
template <class T>
void put(const Row<T>& row, int64_t begin, int64_t m, const Compute<T>* from) {
  T* const to = row.data + begin * row.stride;
  if constexpr (kSame<T, Compute<T> >) {
    if (from == to) return;
  }
  if (row.stride == 1) return convert_run(from, to, m);
  for (int64_t i = 0; i < m; ++i) to[i * row.stride] = convert<T>(from[i]);
}
#endif

// The result for n elements, an element of T.
template <class T, class R, class A>
LOCUS_HD Compute<T> finish(const R& r, const A& all, int64_t n) {
  return stored<T>(r.result(all, static_cast<double>(n)));
}

}  // namespace locus::fusion
