// A block scans a tile of a row, a warp 32 neighbours at a time. If a row has several tiles, each
// block publishes its tile's total and adds the totals of the tiles before it. Tiles form groups of
// 256; the last tile of a group publishes the total up to there, so that no block reads more than
// a group. Every sum has a fixed order: the same bits on each run.
//
// Blocks take tiles in order, by a counter, and wait for earlier tiles only.
#include <locus/core/scratch.h>
#include <locus/devices/cuda.h>
#include <locus/devices/cuda/check.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/copy.h>
#include <locus/ops/kernel/reduce_block.h>
#include <locus/ops/scan/scan_kernel.h>

namespace locus::cuda {
namespace {

constexpr int kWarps = kBlock / 32;
constexpr int kGroup = kBlock;  // tiles

// Elements of a thread.
template <class A>
constexpr int kItems = sizeof(A) > 8   ? 8
                       : sizeof(A) > 4 ? 16
                                       : 32;
template <class A>
constexpr int kTile = kBlock* kItems<A>;
// Blocks of a multiprocessor: few enough that the elements of a thread stay in registers.
template <class A>
constexpr int kBlocks = sizeof(A) > 8 ? 2 : 4;

// The totals of tiles and, up to their ends, of groups. Each word of a total is stored together
// with a flag that it is there, so that a reader needs one load and no fence.
template <class A>
constexpr int kWords = sizeof(A) / sizeof(uint32_t);
struct Totals {
  uint64_t *tiles, *groups;
  unsigned* next_tile;
};
template <class A>
struct Rows {
  int64_t rows, n, tiles, groups;  // tiles and groups of a row
  int items;                       // of a thread
  Totals totals;
};

template <class A>
__device__ __forceinline__ void publish(uint64_t* totals, int64_t i, const A& a) {
  volatile uint64_t* to = totals + i * kWords<A>;
  by_words(a, [&](const uint32_t* w) {
    *to++ = uint64_t{1} << 32 | *w;
    return *w;
  });
}
// Total i, for which it waits.
template <class A>
__device__ __forceinline__ A await(const uint64_t* totals, int64_t i) {
  const volatile uint64_t* from = totals + i * kWords<A>;
  return by_words(A(), [&](const uint32_t*) {
    uint64_t word;
    do word = *from;
    while (word >> 32 == 0);
    ++from;
    return static_cast<uint32_t>(word);
  });
}

template <class A>
__device__ __forceinline__ A shuffled(const A& a, const auto& f) {
  return by_words(a, [&](const uint32_t* w) { return f(*w); });
}

// Scans a thread's elements, of which element i lies 32 i places from the first, over the warp.
// Returns the warp's total.
template <class D, int kItems, class A = typename D::A>
__device__ __forceinline__ A scan_warp(A (&a)[kItems], int used) {
  const int lane = threadIdx.x % 32;
  A total;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (i >= used) break;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const A before = shuffled(a[i], [&](uint32_t w) { return __shfl_up_sync(~0u, w, d); });
      if (lane >= d) a[i] = D::combine(before, a[i]);
    }
    if (i > 0) a[i] = D::combine(total, a[i]);
    total = shuffled(a[i], [&](uint32_t w) { return __shfl_sync(~0u, w, 31); });
  }
  return total;
}

// The total of all tiles of the row before this one. All threads of the block call it; tile > 0.
template <class D, class A = typename D::A>
__device__ __forceinline__ A total_before(const Rows<A>& g, int64_t row, int64_t tile,
                                          const A& own) {
  using R = typename D::R;
  const Totals& t = g.totals;
  const int64_t group = tile / kGroup, first = row * g.tiles + group * kGroup;
  const int in_group = static_cast<int>(tile % kGroup), mine = static_cast<int>(threadIdx.x);
  A sum = mine < in_group ? await<A>(t.tiles, first + mine) : R::init(A());
  __shared__ A of_group;
  if (group > 0 && mine == kBlock - 1) of_group = await<A>(t.groups, row * g.groups + group - 1);
  sum = all_of_team(sum, kBlock, [](const A& a, const A& b) { return D::combine(a, b); });
  if (group > 0) sum = in_group > 0 ? D::combine(of_group, sum) : of_group;
  if (in_group == kGroup - 1 && mine == 0)
    publish(t.groups, row * g.groups + group, D::combine(sum, own));
  return sum;
}

// `by_warp`: rows of at most a warp's elements, one warp each.
template <class D, class A = typename D::A>
__global__ void __launch_bounds__(kBlock, kBlocks<A>)
    scan_rows(const __grid_constant__ D data, const __grid_constant__ Rows<A> g, bool by_warp) {
  constexpr int kN = kItems<A>;
  __shared__ A of_warp[kWarps];
  __shared__ unsigned ticket;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int64_t row, tile = 0;
  if (by_warp) {
    row = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
    if (row >= g.rows) return;
  } else {
    if (threadIdx.x == 0) ticket = g.tiles > 1 ? atomicAdd(g.totals.next_tile, 1u) : blockIdx.x;
    __syncthreads();
    row = ticket / g.tiles;
    tile = ticket % g.tiles;
  }
  const int64_t begin = tile * kTile<A> + (by_warp ? 0 : warp * 32 * g.items), base = row * g.n;
  const int64_t left = g.n - begin;
  const int used = left <= 0              ? 0
                   : left >= 32 * g.items ? g.items
                                          : static_cast<int>((left + 31) / 32);
  const auto inside = [&](int i) { return i < used && begin + i * 32 + lane < g.n; };
  A a[kN];
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    const int64_t k = begin + i * 32 + lane;
    a[i] = inside(i) ? data.element(base + k, k) : D::R::init(A());
  }
  const A total = used > 0 ? scan_warp<D, kN>(a, used) : D::R::init(A());
  bool any = false;
  A before = total;
  if (!by_warp) {
    if (lane == 0) of_warp[warp] = total;
    __syncthreads();
    before = of_warp[0];
    for (int w = 1; w < warp; ++w) before = D::combine(before, of_warp[w]);
    any = warp > 0;
    if (g.tiles > 1) {
      A own = of_warp[0];
      for (int w = 1; w < kWarps; ++w) own = D::combine(own, of_warp[w]);
      const int64_t at = row * g.tiles + tile;
      if (threadIdx.x == 0) publish(g.totals.tiles, at, own);
      if (tile > 0) {
        const A earlier = total_before<D>(g, row, tile, own);
        before = any ? D::combine(earlier, before) : earlier;
        any = true;
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    const int64_t k = begin + i * 32 + lane;
    if (inside(i)) data.store(base + k, any ? D::combine(before, a[i]) : a[i]);
  }
}

// One thread for each row: short rows, and rows whose neighbours are neighbours in memory.
template <class D, class A = typename D::A>
__global__ void __launch_bounds__(kBlock)
    scan_columns(const __grid_constant__ D data, int64_t rows, int64_t n, int64_t inner) {
  for (int64_t r = first_thread(); r < rows; r += all_threads()) {
    const int64_t base = r / inner * n * inner + r % inner;
    A a = data.element(base, 0);
    data.store(base, a);
#pragma unroll 4
    for (int64_t i = 1; i < n; ++i) {
      a = D::combine(a, data.element(base + i * inner, i));
      data.store(base + i * inner, a);
    }
  }
}

template <class D>
void launch_scan(const Call& call, const D& data, int64_t rows, int64_t n) {
  using A = typename D::A;
  Rows<A> g{rows, n, (n + kTile<A> - 1) / kTile<A>, 0, kItems<A>, {}};
  if (n <= 16) return launch(call.stream, rows, scan_columns<D>, data, rows, n, int64_t{1});
  if (n <= 32 * kItems<A>) {
    const auto blocks = static_cast<unsigned>((rows + kWarps - 1) / kWarps);
    scan_rows<<<blocks, kBlock, 0, stream(call)>>>(data, g, true);
    return;
  }
  const int64_t tiles = rows * g.tiles;
  if (g.tiles == 1) {
    g.items = static_cast<int>((n + kBlock - 1) / kBlock);
    scan_rows<<<static_cast<unsigned>(tiles), kBlock, 0, stream(call)>>>(data, g, false);
    return;
  }
  g.groups = (g.tiles + kGroup - 1) / kGroup;
  const int64_t totals = (tiles + rows * g.groups) * kWords<A>;
  const auto bytes = static_cast<size_t>(totals + 1) * sizeof(uint64_t);
  const Scratch scratch(call, bytes);
  uint64_t* const tile_totals = scratch.as<uint64_t>();
  g.totals = {tile_totals, tile_totals + tiles * kWords<A>,
              reinterpret_cast<unsigned*>(tile_totals + totals)};
  LOCUS_CUDA(cudaMemsetAsync(tile_totals, 0, bytes, stream(call)));
  scan_rows<<<static_cast<unsigned>(tiles), kBlock, 0, stream(call)>>>(data, g, false);
}

// (outer, inner, n) elements: the rows of the tensor v.
View rows_of(const View& v, const Along& s) {
  View to = v;
  const int64_t shape[] = {s.outer, s.inner, s.n}, stride[] = {s.n * s.inner, 1, s.inner};
  to.meta.rank = 3;
  for (int i = 0; i < 3; ++i) {
    to.meta.shape[i] = shape[i];
    to.stride[i] = stride[i];
  }
  return to;
}
// The same in row-major memory.
View rows_in(void* memory, const View& v, const Along& s) {
  View to = rows_of(v, s);
  to.data = memory;
  to.stride[1] = s.n;
  to.stride[2] = 1;
  return to;
}

struct Backend {
  template <class S, DType K>
  static void run(const Call& call) {
    using T = CppTypeOf<K>;
    using D = scan::Data<S, T, If<S::kDouble, double, Promoted<T>>>;
    const auto& attrs = call.attributes<typename S::Attrs>();
    const Along s(call.in[0].meta, attrs.axis);
    const int64_t rows = s.rows();
    if (rows == 0 || s.n == 0) return;
    const D data = scan::data_of<D, T>(call.in, call.out, attrs);
    constexpr int64_t kFewRows = 1 << 14, kLong = 256;
    if (s.inner == 1)
      launch_scan(call, data, rows, s.n);
    else if (rows >= kFewRows || s.n < kLong)
      launch(call.stream, rows, scan_columns<D>, data, rows, s.n, s.inner);
    else
      run_transposed<D, T>(call, s, attrs);
  }

 private:
  // Few long columns: as rows, in scratch memory.
  template <class D, class T>
  static void run_transposed(const Call& call, const Along& s, const auto& attrs) {
    constexpr int kMost = 3;
    const View* tensors[2 * kMost];
    size_t bytes[2 * kMost], all = 0;
    int n = 0;
    for (int i = 0; i < call.n_in; ++i) tensors[n++] = call.in + i;
    for (int i = 0; i < call.n_out; ++i) tensors[n++] = call.out + i;
    for (int i = 0; i < n; ++i) {
      const Meta& m = tensors[i]->meta;
      all += bytes[i] = (static_cast<size_t>(m.size() * size_of(m.dtype)) + 255) / 256 * 256;
    }
    const Scratch scratch(call, all);
    std::byte* free = scratch.as<std::byte>();
    View rows[2 * kMost];
    for (int i = 0; i < n; free += bytes[i++]) rows[i] = rows_in(free, *tensors[i], s);
    for (int i = 0; i < call.n_in; ++i) Views::copy(rows_of(call.in[i], s), rows[i], call.stream);
    const View* const out = rows + call.n_in;
    launch_scan(call, scan::data_of<D, T>(rows, out, attrs), s.rows(), s.n);
    for (int i = 0; i < call.n_out; ++i) Views::copy(out[i], rows_of(call.out[i], s), call.stream);
  }
};

}  // namespace

extern constinit const KernelList scans = scan::kernels<Backend>(scan::Scans());

}  // namespace locus::cuda
