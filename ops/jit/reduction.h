// Reductions, for kernels that are compiled at run time: by NVRTC, and by the machine's C++
// compiler. The host fills the same structs. Free of the standard library.
//
// The generated struct K has the user's functions: map(), join() and post(), and identity() if
// kIdentity is true. K::R is the reduce type. A lane is an accumulator of some elements of an
// output, and starts with the first of them. The order of joins depends only on lengths and
// strides.
#pragma once

#include <locus/ops/jit/element.h>

namespace locus::jit {

enum { kBlockThreads = 256, kMostPart = 128 };  // kMostPart: bytes of an R at most
enum { kRowPart = 4096, kColumnPart = 256 };    // elements of an output in a part on the host
// The host's lanes for an R of this size.
LOCUS_HD constexpr int lanes_for(int64_t size) { return size <= 8 ? 128 : 8; }

// Output o is element o of `keep`. It joins the elements of `reduce`.
struct Reduction {
  Loop keep, reduce;
  // On the host, a unit is `width` outputs along the last axis of `keep`. By columns: each lane is
  // an output. Otherwise the width is 1, and lanes share the output.
  int64_t width = 1, columns = 0;
  // On a GPU, a block has `lanes` threads per output, and `length` elements of it. `rows`: lanes
  // lie along threadIdx.x, else along .y.
  int64_t length = 0;
  int32_t lanes = 1, rows = 1;
  void* parts = nullptr;         // of the blocks of an output, if there are several
  unsigned* finished = nullptr;  // blocks done of each tile; the last one resets it to 0
};
// The walk of an input along the reduced axes, as in Array.
struct Steps {
  int64_t dense = 0;
  int64_t stride[kAxes] = {};
};

// The result of an output, from all of its elements.
template <class K>
LOCUS_HD void finish(const typename K::Args& a, const int64_t (&at)[K::kArrays],
                     const typename K::R& all) {
  if constexpr (K::kIdentity)
    K::post(a, at, K::join(K::identity(), all));
  else
    K::post(a, at, all);
}

#ifdef __CUDACC__
template <class R>
struct alignas(alignof(R) < 4 ? 4 : alignof(R)) Padded {
  R v;
};
template <class R>
struct Words {
  unsigned word[sizeof(Padded<R>) / 4];
};
// A value whose words are f(address of the word in `from`).
template <class R, class F>
__device__ __forceinline__ R by_words(const Padded<R>& from, const F& f) {
  static_assert(sizeof(R) <= kMostPart, "the reduce type has at most 128 bytes");
  static_assert(__is_trivially_copyable(R), "the reduce type is copied by its bytes");
  Words<R> w;
  const unsigned* const words = reinterpret_cast<const unsigned*>(&from);
#pragma unroll
  for (unsigned i = 0; i < sizeof(w) / 4; ++i) w.word[i] = f(words + i);
  return __builtin_bit_cast(Padded<R>, w).v;
}

// Joins the first `valid` lanes of each output. Lane 0 has the result. All threads call it.
template <class K, class R = typename K::R>
__device__ R join_lanes(R v, int lane, int64_t valid, const Reduction& r) {
  __shared__ alignas(16) unsigned char bytes[kBlockThreads * sizeof(Padded<R>)];
  Padded<R>* const shared = reinterpret_cast<Padded<R>*>(bytes);
  __syncthreads();  // earlier contents have been read
  if (r.rows) {
    const int width = r.lanes < 32 ? r.lanes : 32, in_warp = lane % 32;
    for (int d = width / 2; d > 0; d /= 2) {
      const R other = by_words(Padded<R>{v}, [&](const unsigned* w) {
        return __shfl_down_sync(0xffffffffu, *w, d, width);
      });
      if (in_warp < d && lane + d < valid) v = K::join(v, other);
    }
    if (r.lanes <= 32) return v;
    Padded<R>* const mine = shared + threadIdx.y * (r.lanes / 32);
    if (in_warp == 0) mine[lane / 32].v = v;
    __syncthreads();
    if (lane == 0)
      for (int w = 1; w < r.lanes / 32 && w * 32 < valid; ++w) v = K::join(v, mine[w].v);
    return v;
  }
  const int outputs = blockDim.x;
  Padded<R>* const mine = shared + lane * outputs + threadIdx.x;
  mine->v = v;
  for (int d = r.lanes / 2; d > 0; d /= 2) {
    __syncthreads();
    if (lane < d && lane + d < valid) mine->v = v = K::join(v, mine[d * outputs].v);
  }
  return v;
}

// A lane's elements begin + lane, begin + lane + lanes, ... before `end`; several loads in flight.
// A lane without elements returns R().
template <class K, bool kOneAxis, class R = typename K::R>
__device__ __forceinline__ R lane_of(const typename K::Args& a, const int64_t (&at)[K::kArrays],
                                     int64_t begin, int64_t end, int lane) {
  constexpr int kAtOnce = kOneAxis ? 8 : 4;
  const Reduction& r = a.r;
  const auto map = [&](int64_t k) {
    int64_t element[K::kIn];
    if constexpr (kOneAxis) {
#pragma unroll
      for (int j = 0; j < K::kIn; ++j) element[j] = at[j] + k * a.down[j].stride[0];
    } else {
      for (int j = 0; j < K::kIn; ++j) element[j] = at[j];
      locate(r.reduce, a.down, k, element);
    }
    return K::map(a, element, k);
  };
  R all{};
  bool some = false;
  const auto add = [&](const R& v) {
    all = some ? K::join(all, v) : v;
    some = true;
  };
  const int64_t step = r.lanes;
  int64_t k = begin + lane;
#pragma unroll 1
  for (; k + (kAtOnce - 1) * step < end; k += kAtOnce * step) {
    R v[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) v[u] = map(k + u * step);
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) add(v[u]);
  }
  if (k < end) {  // in flight at once, too: short rows have only these
    R v[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u)
      if (k + u * step < end) v[u] = map(k + u * step);
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u)
      if (k + u * step < end) add(v[u]);
  }
  return all;
}

// Whether the calling block is the last of a tile's. Then it sees what the others wrote, if it
// reads past the L1 cache.
__device__ __forceinline__ bool arrives_last(unsigned* counter) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    last = ::atomicAdd(counter, 1u) == gridDim.y - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// The kernel. Blocks of kBlockThreads; blockIdx.x is the tile of outputs, blockIdx.y the part.
template <class K, class R = typename K::R>
__device__ __forceinline__ void reduce(const typename K::Args& a) {
  const Reduction& r = a.r;
  const int lane = r.rows ? threadIdx.x : threadIdx.y;
  const int64_t o =
      blockIdx.x * int64_t{r.rows ? blockDim.y : blockDim.x} + (r.rows ? threadIdx.y : threadIdx.x);
  const bool active = o < r.keep.n;
  int64_t at[K::kArrays] = {};
  if (active) locate(r.keep, a.array, o, at);
  if constexpr (K::kIdentity) {
    if (r.reduce.n == 0) {
      if (active && lane == 0) K::post(a, at, K::identity());
      return;
    }
  }
  const int64_t begin = blockIdx.y * r.length, left = r.reduce.n - begin;
  const int64_t n = left < r.length ? left : r.length;
  R all{};
  if (active)
    all = r.reduce.rank == 1 ? lane_of<K, true>(a, at, begin, begin + n, lane)
                             : lane_of<K, false>(a, at, begin, begin + n, lane);
  all = join_lanes<K>(all, lane, n, r);
  if (gridDim.y > 1) {
    Padded<R>* const parts = static_cast<Padded<R>*>(r.parts);
    if (active && lane == 0) parts[blockIdx.y * r.keep.n + o].v = all;
    if (!arrives_last(&r.finished[blockIdx.x])) return;
    const auto part = [&](int64_t s) {
      return by_words(parts[s * r.keep.n + o], [](const unsigned* w) { return __ldcg(w); });
    };
    const int64_t splits = gridDim.y;
    if (active && lane < splits) {
      all = part(lane);
      for (int64_t s = lane + r.lanes; s < splits; s += r.lanes) all = K::join(all, part(s));
    }
    all = join_lanes<K>(all, lane, splits, r);
  }
  if (active && lane == 0) finish<K>(a, at, all);
}
#else

// The host's part of a reduction. A part is a range of the elements of a unit, and gives one value
// for each output. Parts are joined as a binary tree.
template <class K>
class HostReduction {
  using Args = typename K::Args;
  using R = typename K::R;
  static_assert(sizeof(R) <= kMostPart, "the reduce type has at most 128 bytes");
  static_assert(__is_trivially_copyable(R), "the reduce type is copied by its bytes");
  enum { kLanes = lanes_for(sizeof(R)), kLevels = 48 };

 public:
  explicit HostReduction(const Args& args)
      : a(args),
        size_(a.r.columns ? kColumnPart : kRowPart),
        parts_((a.r.reduce.n + size_ - 1) / size_) {}

  void units(int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      aim(u);
      tree_.parts = 0;
      R all[kLanes];
      for (int64_t b = 0; b < parts_; ++b) {
        part(b, all);
        add(all);
      }
      finish_unit();
    }
  }
  // Parts begin .. end of unit u. Part b has its values at parts + b * width.
  void parts(int64_t u, int64_t begin, int64_t end, R* parts) {
    aim(u);
    for (int64_t b = begin; b < end; ++b) {
      R all[kLanes];
      part(b, all);
      for (int64_t j = 0; j < n_; ++j) parts[b * a.r.width + j] = all[j];
    }
  }
  void join_parts(int64_t u, const R* parts) {
    aim(u);
    for (int64_t b = 0; b < parts_; ++b) {
      R all[kLanes];
      for (int64_t j = 0; j < n_; ++j) all[j] = parts[b * a.r.width + j];
      add(all);
    }
    finish_unit();
  }

 private:
  // Sets the place of unit u.
  void aim(int64_t u) {
    const Loop& keep = a.r.keep;
    const int64_t inner = keep.shape[keep.rank - 1], across = (inner + a.r.width - 1) / a.r.width;
    const int64_t j = u % across * a.r.width;
    n_ = inner - j < a.r.width ? inner - j : a.r.width;
    for (int64_t& offset : at_) offset = 0;
    locate(keep, a.array, u / across * inner + j, at_);
    for (int k = 0; k < K::kIn; ++k) {
      if (a.r.columns) {
        array_[k].dense = a.array[k].stride[keep.rank - 1] == 1;
        array_[k].stride[0] = a.array[k].stride[keep.rank - 1];
      } else {
        array_[k].dense = a.down[k].dense;
        for (int x = 0; x < a.r.reduce.rank; ++x) array_[k].stride[x] = a.down[k].stride[x];
        array_[k].data = address(k, at_[k]);
      }
    }
    across_.n = across_.shape[0] = n_;
  }
  void* address(int k, int64_t offset) const {
    return static_cast<char*>(a.array[k].data) + offset * K::size(k);
  }

  // Joins the mapped elements e .. e + m of the pointers to m lanes, or sets the lanes. Element e
  // has number i, and the next has i + by.
  LOCUS_HD void lanes(const typename K::Pointers& p, int64_t e, int64_t m, int64_t i, int64_t by,
                      bool set, R* lane) const {
    if (set) {
      for (int64_t l = 0; l < m; ++l) lane[l] = K::map(a, p, e + l, i + l * by);
      return;
    }
#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
    for (int64_t l = 0; l < m; ++l) lane[l] = K::join(lane[l], K::map(a, p, e + l, i + l * by));
  }
  // Not inlined: units() and parts() get the same bits.
  __attribute__((noinline)) void part(int64_t b, R* all) {
    const int64_t begin = b * size_, left = a.r.reduce.n - begin;
    const int64_t n = left < size_ ? left : size_;
    if (a.r.columns) {
      for (int64_t k = begin; k < begin + n; ++k) {
        int64_t offset[K::kIn] = {};
        locate(a.r.reduce, a.down, k, offset);
        for (int x = 0; x < K::kIn; ++x) array_[x].data = address(x, at_[x] + offset[x]);
        const typename K::Pointers p = K::fetch(buffers_, across_, array_, 0, n_);
        lanes(p, 0, n_, k, 0, k == begin, all);
      }
      return;
    }
    R lane[kLanes];
    for (int64_t k = 0; k < n; k += kStaged) {
      const int64_t m = n - k < kStaged ? n - k : int64_t{kStaged};
      const typename K::Pointers p = K::fetch(buffers_, a.r.reduce, array_, begin + k, m);
      for (int64_t e = 0; e < m; e += kLanes)
        lanes(p, e, m - e < kLanes ? m - e : int64_t{kLanes}, begin + k + e, 1, k + e == 0, lane);
    }
    for (int d = kLanes / 2; d > 0; d /= 2)
      for (int l = 0; l < d && l + d < n; ++l) lane[l] = K::join(lane[l], lane[l + d]);
    all[0] = lane[0];
  }

  // Adds the next part. Level l holds the join of 2^l parts if bit l of the number of parts is 1.
  __attribute__((noinline)) void add(R* all) {
    int level = 0;
    for (uint64_t rest = tree_.parts++; rest & 1; rest /= 2, ++level)
      for (int64_t j = 0; j < n_; ++j) all[j] = K::join(tree_.level[level][j], all[j]);
    for (int64_t j = 0; j < n_; ++j) tree_.level[level][j] = all[j];
  }
  __attribute__((noinline)) void finish_unit() {
    R all[kLanes];
    bool some = false;
    int level = 0;
    for (uint64_t rest = tree_.parts; rest != 0; rest /= 2, ++level) {
      if (!(rest & 1)) continue;
      for (int64_t j = 0; j < n_; ++j)
        all[j] = some ? K::join(tree_.level[level][j], all[j]) : tree_.level[level][j];
      some = true;
    }
    const int last = a.r.keep.rank - 1;
    for (int64_t j = 0; j < n_; ++j) {
      int64_t at[K::kArrays];
      for (int k = 0; k < K::kArrays; ++k) at[k] = at_[k] + j * a.array[k].stride[last];
      if (some)
        finish<K>(a, at, all[j]);
      else if constexpr (K::kIdentity)
        K::post(a, at, K::identity());
    }
  }

  const Args& a;
  const int64_t size_, parts_;  // elements of a part of an output; parts of a unit
  int64_t n_ = 0, at_[K::kArrays] = {};
  Array array_[K::kIn];  // of the unit; by columns: of a row of it
  Loop across_;
  typename K::Buffers buffers_;
  struct {
    uint64_t parts = 0;
    R level[kLevels][kLanes];
  } tree_;
};
#endif

}  // namespace locus::jit
