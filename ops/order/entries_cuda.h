// Entries of rows in CUDA kernels: what argsort, topk and partition sort. Included by order.cu.
//
// A place is the number of an element among the rows of a group, below 2^32. An entry is the
// element's key and its place. Entries differ, so a sort of entries has one result.
#pragma once

#include <cub/block/block_merge_sort.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/warp/warp_merge_sort.cuh>

#include <locus/core/scratch.h>
#include <locus/devices/cuda/check.h>
#include <locus/ops/kernel/launch.h>
#include <locus/ops/order/order_kernel.h>

namespace locus::cuda {
namespace {

// The keys of elements of any dtype.
struct AnyKey {
  DType dtype;
  uint64_t sign = 0, infinity = 0, flip = 0;

  AnyKey(DType d, bool descending) : dtype(d) {
    by_key(d, descending, [&](auto key) {
      sign = key.sign;
      infinity = key.infinity;
      flip = key.flip;
    });
  }
  __host__ __device__ int bytes() const { return size_of(dtype); }
  template <class W>
  __device__ __forceinline__ W of(W x) const {
    if (infinity != 0)
      return KeyMap<W, true>{static_cast<W>(sign), static_cast<W>(infinity),
                             static_cast<W>(flip)}(x);
    return KeyMap<W, false>{static_cast<W>(sign), 0, static_cast<W>(flip)}(x);
  }
  template <class W>
  __device__ __forceinline__ W element(W k) const {
    if (infinity != 0)
      return KeyMap<W, true>{static_cast<W>(sign), static_cast<W>(infinity), static_cast<W>(flip)}
          .element(k);
    return KeyMap<W, false>{static_cast<W>(sign), 0, static_cast<W>(flip)}.element(k);
  }
  __device__ __forceinline__ uint64_t at(const void* x, int64_t i) const {
    switch (bytes()) {
      case 1:
        return of(static_cast<const uint8_t*>(x)[i]);
      case 2:
        return of(static_cast<const uint16_t*>(x)[i]);
      case 4:
        return of(static_cast<const uint32_t*>(x)[i]);
      default:
        return of(static_cast<const uint64_t*>(x)[i]);
    }
  }
};

// y[to] = x[from], for elements of `bytes` bytes.
__device__ __forceinline__ void move_element(const void* x, int64_t from, void* y, int64_t to,
                                             int bytes) {
  switch (bytes) {
    case 1:
      static_cast<uint8_t*>(y)[to] = static_cast<const uint8_t*>(x)[from];
      return;
    case 2:
      static_cast<uint16_t*>(y)[to] = static_cast<const uint16_t*>(x)[from];
      return;
    case 4:
      static_cast<uint32_t*>(y)[to] = static_cast<const uint32_t*>(x)[from];
      return;
    default:
      static_cast<uint64_t*>(y)[to] = static_cast<const uint64_t*>(x)[from];
  }
}

using Entry = unsigned long long;  // key << 32 | place, for keys of 32 bits
struct WideEntry {
  uint64_t key;
  uint32_t place;
};

__device__ __forceinline__ void set(Entry& e, uint64_t key, uint32_t place) {
  e = key << 32 | place;
}
__device__ __forceinline__ void set(WideEntry& e, uint64_t key, uint32_t place) {
  e = {key, place};
}
__device__ __forceinline__ uint32_t place_of(Entry e) { return static_cast<uint32_t>(e); }
__device__ __forceinline__ uint32_t place_of(uint32_t place) { return place; }
__device__ __forceinline__ uint32_t place_of(const WideEntry& e) { return e.place; }
__device__ __forceinline__ uint64_t key_of(Entry e) { return e >> 32; }
__device__ __forceinline__ uint64_t key_of(const WideEntry& e) { return e.key; }
struct Before {
  __device__ bool operator()(Entry a, Entry b) const { return a < b; }
  __device__ bool operator()(const WideEntry& a, const WideEntry& b) const {
    return a.key < b.key || (a.key == b.key && a.place < b.place);
  }
};

// Rows of n elements that lie one behind the other, and the first k of each in sorted order.
// values and ids may be null.
struct SortedRows {
  const void* x;
  int64_t rows, n, k;
  void* values;
  int64_t* ids;
  AnyKey key;
  const PartitionAttrs* partition = nullptr;  // on the host: how rows are partitioned instead

  // Writes element j of a row, whose place in the row is known.
  __device__ __forceinline__ void write(int64_t row, int64_t j, int64_t place) const {
    const int64_t to = row * k + j;
    if (ids) ids[to] = place;
    if (values) move_element(x, row * n + place, values, to, key.bytes());
  }
  // The same rows from row `first` on.
  SortedRows part(int64_t first, int64_t count) const {
    SortedRows p = *this;
    const auto moved = [&](const void* base, int64_t elements) {
      return static_cast<char*>(const_cast<void*>(base)) + elements * key.bytes();
    };
    p.x = moved(x, first * n);
    p.rows = count;
    if (values) p.values = moved(values, first * k);
    if (ids) p.ids = ids + first * k;
    return p;
  }
};

// --- Short rows: kLanes threads sort a row in registers and shared memory ---

// Entries of a row, made from x. If there are pivots, rows are partitioned.
struct OfRow {
  SortedRows r;
  PartitionAttrs pivots{0, 0};

  __device__ int64_t count(int64_t) const { return r.n; }
  template <class E>
  __device__ void get(int64_t row, int64_t i, E& e) const {
    set(e, r.key.at(r.x, row * r.n + i), static_cast<uint32_t>(i));
  }
};
// Candidates that were collected before.
template <class Each>
struct Collected {
  SortedRows r;
  const Each* entries;
  const unsigned* counts;
  int64_t capacity;

  __device__ int64_t count(int64_t row) const { return counts[row]; }
  __device__ void get(int64_t row, int64_t i, Each& e) const { e = entries[row * capacity + i]; }
};

// The side of a key among pivots: 0 if below all, 1 if it equals the least one, and so on.
template <class F>
__device__ __forceinline__ uint64_t side_of(uint64_t key, int pivots, const F& pivot) {
  uint64_t side = 0;
  for (int t = 0; t < pivots; ++t) side += (key > pivot(t)) + (key >= pivot(t));
  return side;
}

template <class E, int kLanes, int kItems, class Source>
__global__ void __launch_bounds__(kLanes > 128 ? kLanes : 128)
    sort_short_rows(const __grid_constant__ Source source) {
  constexpr bool kPartitions = std::is_same_v<Source, OfRow>;
  constexpr int kTogether = kLanes >= 128 ? 1 : 128 / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int team = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t row = blockIdx.x * static_cast<int64_t>(kTogether) + team;
  const int64_t n = row < source.r.rows ? source.count(row) : 0;
  E e[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int64_t at = i * kLanes + lane;
    set(e[i], ~uint64_t{0}, ~uint32_t{0});  // behind all others
    if (at < n) source.get(row, at, e[i]);
  }
#pragma unroll 1
  for (bool again = kPartitions;; again = false) {
    if constexpr (kLanes <= 32) {
      using Sort = cub::WarpMergeSort<E, kItems, kLanes>;
      __shared__ typename Sort::TempStorage memory[kTogether];
      Sort(memory[team]).Sort(e, Before());
    } else {
      using Sort = cub::BlockMergeSort<E, kLanes, kItems>;
      __shared__ typename Sort::TempStorage memory;
      Sort(memory).Sort(e, Before());
    }
    if constexpr (kPartitions) {
      const int pivots = source.pivots.n;
      if (!again || pivots == 0) break;
      __shared__ uint64_t pivot[kTogether][kMaxKth];
      for (int i = 0; i < kItems; ++i)
        for (int t = 0; t < pivots; ++t)
          if (lane * kItems + i == source.pivots.kth[t]) pivot[team][t] = key_of(e[i]);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kItems; ++i)
        if (lane * kItems + i < n)
          set(e[i], side_of(key_of(e[i]), pivots, [&](int t) { return pivot[team][t]; }),
              place_of(e[i]));
    } else {
      break;
    }
  }
  const int64_t k = n < source.r.k ? n : source.r.k;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int64_t j = lane * kItems + i;
    if (j < k) source.r.write(row, j, place_of(e[i]));
  }
}

template <class E>
constexpr int64_t kShortRow = sizeof(E) == 8 ? 4096 : 2048;

template <class E, int kLanes, int kItems, class Source>
void launch_short(const Call& call, const Source& source) {
  constexpr int kTogether = kLanes >= 128 ? 1 : 128 / kLanes;
  sort_short_rows<E, kLanes, kItems>
      <<<static_cast<unsigned>((source.r.rows + kTogether - 1) / kTogether), kLanes * kTogether, 0,
         stream(call)>>>(source);
}
// For rows of at most kShortRow<E> elements.
template <class E>
void sort_short(const Call& call, const SortedRows& r) {
  OfRow source{r};
  if (r.partition) source.pivots = *r.partition;
  if (r.n <= 32)
    launch_short<E, 8, 4>(call, source);
  else if (r.n <= 256)
    launch_short<E, 32, 8>(call, source);
  else if (r.n <= 1024)
    launch_short<E, 128, 8>(call, source);
  else
    launch_short<E, kShortRow<E> / 8, 8>(call, source);
}

// --- Long rows: radix sorts of all entries of a group ---

// Sorts `n` keys by bits [from, to). Returns where they are: in a or in b.
template <class K>
K* radix_sort(const Call& call, K* a, K* b, int64_t n, int from, int to) {
  cub::DoubleBuffer<K> keys(a, b);
  size_t bytes = 0;
  LOCUS_CUDA(cub::DeviceRadixSort::SortKeys(nullptr, bytes, keys, n, from, to, stream(call)));
  const Scratch memory(call, bytes);
  LOCUS_CUDA(cub::DeviceRadixSort::SortKeys(memory.data(), bytes, keys, n, from, to, stream(call)));
  return keys.Current();
}

int bits_of(uint64_t largest) {
  int bits = 1;
  while (bits < 64 && largest >> bits) ++bits;
  return bits;
}

__global__ void __launch_bounds__(kBlock)
    make_entries(const void* x, int64_t total, AnyKey key, Entry* out) {
  for (int64_t i = first_thread(); i < total; i += all_threads())
    set(out[i], key.at(x, i), static_cast<uint32_t>(i));
}
__global__ void __launch_bounds__(kBlock)
    make_keys(const uint64_t* x, int64_t total, AnyKey key, uint64_t* keys, uint32_t* places) {
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    keys[i] = key.of(x[i]);
    places[i] = static_cast<uint32_t>(i);
  }
}
// The row instead of the key. P: an entry or a place; `from` may be `to`.
template <class P>
__global__ void __launch_bounds__(kBlock)
    key_by_row(const P* from, int64_t total, uint32_t n, Entry* to) {
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const uint32_t place = place_of(from[i]);
    set(to[i], place / n, place);
  }
}
// Writes the first k of each row. `from` may be r.ids.
template <class P>
__global__ void __launch_bounds__(kBlock)
    write_sorted(const P* from, const __grid_constant__ SortedRows r) {
  const int64_t total = r.rows * r.k;
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const int64_t row = r.rows == 1 ? 0 : i / r.k, j = i - row * r.k;
    r.write(row, j, static_cast<int64_t>(place_of(from[row * r.n + j])) - row * r.n);
  }
}

template <class P>
void finish(const Call& call, const P* places, const SortedRows& r) {
  launch(call.stream, r.rows * r.k, write_sorted<P>, places, r);
}

// Sorts entries by `bits` bits of their keys, and writes the rows.
void sort_entries(const Call& call, const SortedRows& r, Entry* a, Entry* b, int bits) {
  finish(call, radix_sort(call, a, b, r.rows * r.n, 32, 32 + bits), r);
}

// A group of rows of fewer than 2^32 elements: sorted by key, then by row.
void sort_group(const Call& call, const SortedRows& r) {
  const int64_t total = r.rows * r.n;
  const auto bytes = static_cast<size_t>(total) * sizeof(Entry);
  // All ids serve as one of the two buffers.
  const bool reuses = r.ids && r.k == r.n;
  const Scratch first(call, reuses ? 0 : bytes), second(call, bytes);
  Entry *a = reuses ? reinterpret_cast<Entry*>(r.ids) : first.as<Entry>(), *b = second.as<Entry>();
  const int row_bits = bits_of(static_cast<uint64_t>(r.rows - 1));
  if (r.key.bytes() < 8) {
    launch(call.stream, total, make_entries, r.x, total, r.key, a);
    Entry* const sorted = radix_sort(call, a, b, total, 32, 32 + 8 * r.key.bytes());
    if (r.rows == 1) return finish(call, sorted, r);
    launch(call.stream, total, key_by_row<Entry>, sorted, total, static_cast<uint32_t>(r.n),
           sorted);
    return sort_entries(call, r, sorted, sorted == a ? b : a, row_bits);
  }
  const Scratch memory(call, bytes);
  uint32_t *p = memory.as<uint32_t>(), *q = p + total;
  cub::DoubleBuffer<uint64_t> keys(reinterpret_cast<uint64_t*>(a), reinterpret_cast<uint64_t*>(b));
  cub::DoubleBuffer<uint32_t> places(p, q);
  launch(call.stream, total, make_keys, static_cast<const uint64_t*>(r.x), total, r.key,
         keys.Current(), p);
  size_t temporary = 0;
  LOCUS_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, temporary, keys, places, total, 0, 64,
                                             stream(call)));
  const Scratch sorting(call, temporary);
  LOCUS_CUDA(cub::DeviceRadixSort::SortPairs(sorting.data(), temporary, keys, places, total, 0, 64,
                                             stream(call)));
  if (r.rows == 1) return finish(call, places.Current(), r);
  launch(call.stream, total, key_by_row<uint32_t>, places.Current(), total,
         static_cast<uint32_t>(r.n), a);
  sort_entries(call, r, a, b, row_bits);
}

// Calls f with groups of at most `most` rows, of fewer than 2^32 elements together.
void each_group(const SortedRows& r, int64_t most, const auto& f) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const int64_t fits = r.n >= kMost ? 1 : kMost / r.n, each = fits < most ? fits : most;
  for (int64_t row = 0; row < r.rows; row += each)
    f(r.part(row, r.rows - row < each ? r.rows - row : each));
}

}  // namespace
}  // namespace locus::cuda
