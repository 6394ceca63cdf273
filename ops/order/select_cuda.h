// Radix select in CUDA kernels: topk's threshold and partition's pivots. Included by order.cu.
//
// A pass counts one digit of the keys that share all higher digits with the wanted one. The last
// block of a row picks the digit. Integer counts do not hang on the order of blocks. No pass reads
// a result on the host, so all passes are launched, and those behind the last needed one return at
// once.
#pragma once

#include <locus/ops/order/entries_cuda.h>

namespace locus::cuda {
namespace {

constexpr int kDigit = 11, kDigits = 1 << kDigit;
constexpr int64_t kMostPicks = 4096;  // of a group, for their memory

// Elements are ordered by key, then by place in the row. A place's digits follow those of the key.
struct Pick {
  uint64_t key = 0, place = 0;  // the digits found so far
  int64_t left = 0;             // the wanted element's position among those with these digits
  int32_t key_shift = 64, place_shift = 64;  // digits that were not found
  int32_t done = 0;
  unsigned arrived = 0;  // blocks of this pass
  unsigned taken = 0;    // elements that collect() has counted
};

__device__ __forceinline__ uint64_t shifted(uint64_t v, int by) { return by < 64 ? v >> by : 0; }

// What to look for in each row: one position (topk: k - 1) or several.
struct Wanted {
  const void* x;
  int64_t rows, n;
  AnyKey key;
  int32_t targets = 1;  // of each row
  int64_t position[kMaxKth] = {};
  int64_t enough = 0;  // topk: stop if at most so many elements are not behind the wanted one
  int32_t blocks = 1;  // of each pick
  Pick* picks = nullptr;
  unsigned* counts = nullptr;  // kDigits for each pick, 0 between passes

  __host__ __device__ int64_t picked() const { return rows * targets; }
};

__global__ void __launch_bounds__(kBlock) start_picks(const __grid_constant__ Wanted w) {
  for (int64_t i = first_thread(); i < w.picked(); i += all_threads()) {
    Pick p;
    p.left = w.position[i % w.targets];
    w.picks[i] = p;
  }
}

// Calls f(key, place) for this block's share of its row.
template <class W>
__device__ __forceinline__ void each_of(const Wanted& w, int64_t row, const auto& f) {
  constexpr int kAhead = 4;  // loads in flight
  const W* const x = static_cast<const W*>(w.x) + row * w.n;
  const int64_t step = static_cast<int64_t>(w.blocks) * kBlock;
  int64_t i =
      static_cast<int64_t>(blockIdx.x % static_cast<unsigned>(w.blocks)) * kBlock + threadIdx.x;
  for (; i + (kAhead - 1) * step < w.n; i += kAhead * step) {
    W v[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) v[k] = x[i + k * step];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) f(static_cast<uint64_t>(w.key.of(v[k])), i + k * step);
  }
  for (; i < w.n; i += step) f(static_cast<uint64_t>(w.key.of(x[i])), i);
}

// One pass over the keys (kPlaces: over the places), whose digit has `bits` bits above `shift`.
template <class W, bool kPlaces>
__global__ void __launch_bounds__(kBlock)
    count_digits(const __grid_constant__ Wanted w, int shift, int bits) {
  __shared__ unsigned count[kDigits];
  __shared__ unsigned sums[kBlock];
  constexpr int kEach = kDigits / kBlock;
  const int64_t pick = blockIdx.x / static_cast<unsigned>(w.blocks);
  Pick* const p = w.picks + pick;
  if (__ldcg(&p->done)) return;
  const uint64_t key = __ldcg(reinterpret_cast<const unsigned long long*>(&p->key)),
                 place = __ldcg(reinterpret_cast<const unsigned long long*>(&p->place)),
                 mask = (uint64_t{1} << bits) - 1;
  for (int d = static_cast<int>(threadIdx.x); d < kDigits; d += kBlock) count[d] = 0;
  __syncthreads();
  each_of<W>(w, pick / w.targets, [&](uint64_t k, int64_t i) {
    const uint64_t from = kPlaces ? static_cast<uint64_t>(i) : k;
    const bool same = kPlaces ? k == key && shifted(from, shift + bits) == place
                              : shifted(from, shift + bits) == key;
    if (same) atomicAdd(&count[from >> shift & mask], 1u);
  });
  __syncthreads();
  unsigned* const all = w.counts + pick * kDigits;
  for (int d = static_cast<int>(threadIdx.x); d < kDigits; d += kBlock)
    if (count[d]) atomicAdd(all + d, count[d]);
  if (!arrives_last(&p->arrived, static_cast<unsigned>(w.blocks))) return;
  // The last block finds the digit of element `left`, and leaves zeros.
  const int64_t left = p->left;  // before the thread that finds it writes
  unsigned own[kEach], sum = 0;
  const int first = static_cast<int>(threadIdx.x) * kEach;
#pragma unroll
  for (int d = 0; d < kEach; ++d) {
    own[d] = __ldcg(all + first + d);
    all[first + d] = 0;
    sum += own[d];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int step = 1; step < kBlock; step *= 2) {
    const unsigned before =
        threadIdx.x >= static_cast<unsigned>(step) ? sums[threadIdx.x - step] : 0;
    __syncthreads();
    sums[threadIdx.x] += before;
    __syncthreads();
  }
  int64_t before = static_cast<int64_t>(sums[threadIdx.x]) - sum;
  if (left < before || left >= before + sum) return;  // another thread's digits
  int d = 0;
  while (left >= before + own[d]) before += own[d++];
  const auto digit = static_cast<uint64_t>(first + d);
  // Elements that are not behind: those before this digit, and all with it.
  const int64_t position = w.position[pick % w.targets];
  const int64_t not_behind = position - (left - before) + own[d];
  p->left = left - before;
  if (kPlaces) {
    p->place = place << bits | digit;
    p->place_shift = shift;
  } else {
    p->key = key << bits | digit;
    p->key_shift = shift;
  }
  if (not_behind <= w.enough) p->done = 1;
}

// Runs f with the unsigned type of elements.
void by_word(const AnyKey& key, const auto& f) { by_size(key.bytes(), f); }

// Finds each pick's digits. With `places`, ties are broken by places.
void find_picks(const Call& call, const Wanted& w, bool places) {
  LOCUS_CUDA(cudaMemsetAsync(
      w.counts, 0, static_cast<size_t>(w.picked()) * kDigits * sizeof *w.counts, stream(call)));
  launch(call.stream, w.picked(), start_picks, w);
  const auto grid = static_cast<unsigned>(w.picked() * w.blocks);
  by_word(w.key, [&](auto word) {
    using W = decltype(word);
    const auto passes = [&](auto kernel, int width) {
      const int n = (width + kDigit - 1) / kDigit, bits = (width + n - 1) / n;
      for (int top = width; top > 0; top -= bits) {
        const int shift = top > bits ? top - bits : 0;
        kernel<<<grid, kBlock, 0, stream(call)>>>(w, shift, top - shift);
      }
    };
    passes(count_digits<W, false>, 8 * sizeof(W));
    if (places) passes(count_digits<W, true>, bits_of(static_cast<uint64_t>(w.n - 1)));
  });
}

// Blocks for each pick: enough to fill the device.
int blocks_of(const Call& call, int64_t picks, int64_t n) {
  const int64_t all = static_cast<int64_t>(multiprocessors(call.stream)) * 8;
  const int64_t most = (n + kBlock * 16 - 1) / (kBlock * 16);
  const int64_t each = (all + picks - 1) / picks;
  return static_cast<int>(each < most ? each : most);
}

// Memory of picks.
struct PickMemory {
  Scratch picks, counts;
  PickMemory(const Call& call, Wanted& w)
      : picks(call, static_cast<size_t>(w.picked()) * sizeof(Pick)),
        counts(call, static_cast<size_t>(w.picked()) * kDigits * sizeof(unsigned)) {
    w.picks = picks.as<Pick>();
    w.counts = counts.as<unsigned>();
    w.blocks = blocks_of(call, w.picked(), w.n);
  }
};

// Collects the elements that are not behind the wanted one, in any order.
template <class W, class E>
__global__ void __launch_bounds__(kBlock)
    collect(const __grid_constant__ Wanted w, E* entries, int64_t capacity) {
  const int64_t row = blockIdx.x / static_cast<unsigned>(w.blocks);
  Pick* const p = w.picks + row;
  const Pick found = *p;
  each_of<W>(w, row, [&](uint64_t k, int64_t i) {
    const uint64_t high = shifted(k, found.key_shift);
    const bool wanted =
        high < found.key ||
        (high == found.key && shifted(static_cast<uint64_t>(i), found.place_shift) <= found.place);
    if (wanted) {
      const unsigned at = atomicAdd(&p->taken, 1u);
      if (at < capacity) set(entries[row * capacity + at], k, static_cast<uint32_t>(i));
    }
  });
}
__global__ void __launch_bounds__(kBlock) copy_taken(const Pick* picks, int64_t n, unsigned* out) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) out[i] = picks[i].taken;
}

// The first k of long rows, k <= kShortRow<E>.
template <class E>
void select_first(const Call& call, const SortedRows& r) {
  Wanted w{r.x, r.rows, r.n, r.key};
  w.position[0] = r.k - 1;
  w.enough = kShortRow<E>;
  const PickMemory memory(call, w);
  const auto rows = static_cast<size_t>(r.rows);
  const Scratch entries(call, rows * kShortRow<E> * sizeof(E)), counts(call, rows * 4);
  find_picks(call, w, true);
  by_word(r.key, [&](auto word) {
    using W = decltype(word);
    if constexpr ((sizeof(W) == 8) == (sizeof(E) != 8))
      collect<W, E><<<static_cast<unsigned>(r.rows * w.blocks), kBlock, 0, stream(call)>>>(
          w, entries.as<E>(), kShortRow<E>);
  });
  launch(call.stream, r.rows, copy_taken, w.picks, r.rows, counts.as<unsigned>());
  launch_short<E, kShortRow<E> / 8, 8>(
      call, Collected<E>{r, entries.as<E>(), counts.as<unsigned>(), kShortRow<E>});
}

// Entries with an element's row and its side of the pivots instead of a key.
template <class W>
__global__ void __launch_bounds__(kBlock)
    make_sides(const __grid_constant__ Wanted w, int64_t total, Entry* out) {
  const auto sides = static_cast<uint64_t>(2 * w.targets + 1);
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const int64_t row = w.rows == 1 ? 0 : i / w.n;
    const uint64_t k = w.key.of(static_cast<const W*>(w.x)[i]);
    const Pick* const picks = w.picks + row * w.targets;
    const uint64_t side = side_of(k, w.targets, [&](int t) { return picks[t].key; });
    set(out[i], static_cast<uint64_t>(row) * sides + side, static_cast<uint32_t>(i));
  }
}

// Partitions a group of rows of fewer than 2^32 elements.
void partition_group(const Call& call, const SortedRows& r) {
  const PartitionAttrs& a = *r.partition;
  Wanted w{r.x, r.rows, r.n, r.key, a.n};
  for (int t = 0; t < a.n; ++t) w.position[t] = a.kth[t];
  const PickMemory memory(call, w);
  find_picks(call, w, false);
  const int64_t total = r.rows * r.n;
  const auto bytes = static_cast<size_t>(total) * sizeof(Entry);
  const Scratch first(call, r.ids ? 0 : bytes), second(call, bytes);
  Entry* const entries = r.ids ? reinterpret_cast<Entry*>(r.ids) : first.as<Entry>();
  by_word(r.key, [&](auto word) {
    launch(call.stream, total, make_sides<decltype(word)>, w, total, entries);
  });
  const auto sides = static_cast<uint64_t>(r.rows) * static_cast<uint64_t>(2 * a.n + 1);
  sort_entries(call, r, entries, second.as<Entry>(), bits_of(sides - 1));
}

}  // namespace
}  // namespace locus::cuda
