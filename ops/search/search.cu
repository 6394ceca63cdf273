// Sums of weights are the same bits on each run: elements are sorted by bin, and each bin adds its
// elements in an order that the numbers of elements alone fix. Counts are integers, so the order of
// their atomics does not matter.
#include <cuda_runtime.h>
#include <cub/device/device_radix_sort.cuh>

#include <locus/core/scratch.h>
#include <locus/devices/cuda/check.h>
#include <locus/ops/kernel/ids.h>
#include <locus/ops/kernel/reduce_block.h>
#include <locus/ops/order/order_kernel.h>
#include <locus/ops/search/search_kernel.h>

namespace locus::cuda {
namespace {

using Counter = unsigned long long;

constexpr int kSharedBins = 8192;  // counters of a block, in shared memory

// Element i as a number of a type that holds all numbers of the dtype.
template <class To>
__device__ To number_at(const void* x, DType d, int64_t i) {
  return dispatch(d, [&](auto type) {
    return convert<To>(static_cast<const typename decltype(type)::type*>(x)[i]);
  });
}

// The bins of elements; -1: none.
struct IntegerBins {
  const void* x;
  DType dtype;
  int64_t bins;
  __device__ int64_t operator()(int64_t i) const {
    const int64_t id = id_at(x, dtype, i);
    return static_cast<uint64_t>(id) < static_cast<uint64_t>(bins) ? id : -1;
  }
};
template <class E>
struct EdgeBins {
  const void* x;
  DType dtype;
  const E* edges;
  int64_t bins;
  bool uniform;
  __device__ int64_t operator()(int64_t i) const {
    const E q = number_at<E>(x, dtype, i), first = edges[0], last = edges[bins];
    if constexpr (kFloating<E>)
      if (uniform) return search::uniform_bin(q, edges, bins, first, last, last - first);
    const int64_t place = search::count_before(
        bins + 1, [&](int64_t k) { return search::before<true>(edges[k], q); });
    return search::bin_of_place(place, q, first, last, bins);
  }
};

// Each block counts in shared memory, its warps in `copies` rows of counters, and adds them to out.
template <class F>
__global__ void __launch_bounds__(kBlock)
    count_shared(F bin, int64_t n, int bins, int copies, Counter* out) {
  extern __shared__ unsigned counts[];
  for (int k = static_cast<int>(threadIdx.x); k < copies * bins; k += kBlock) counts[k] = 0;
  __syncthreads();
  unsigned* const own = counts + static_cast<int>(threadIdx.x / 32) % copies * bins;
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const int64_t id = bin(i);
    if (id >= 0) atomicAdd(own + id, 1u);
  }
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < bins; k += kBlock) {
    unsigned sum = 0;
    for (int c = 0; c < copies; ++c) sum += counts[c * bins + k];
    if (sum > 0) atomicAdd(out + k, Counter{sum});
  }
}

template <class F>
__global__ void __launch_bounds__(kBlock) count_global(F bin, int64_t n, Counter* out) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const int64_t id = bin(i);
    if (id >= 0) atomicAdd(out + id, Counter{1});
  }
}

template <class F>
__global__ void __launch_bounds__(kBlock)
    find_keys(F bin, int64_t n, int64_t bins, uint64_t* key, uint32_t* value) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const int64_t id = bin(i);
    key[i] = static_cast<uint64_t>(id < 0 ? bins : id);
    value[i] = static_cast<uint32_t>(i);
  }
}

// Floats are summed in f64, integers in u64. Stores the sum of a bin.
template <class S>
__device__ void store(void* out, DType d, uint64_t bin, S sum) {
  dispatch(d, [&](auto type) {
    using W = typename decltype(type)::type;
    using Whole = If<kFloating<S>, S, int64_t>;
    static_cast<W*>(out)[bin] = convert<W>(static_cast<Whole>(sum));
  });
}

// Sorted elements are added in pieces. A run is the elements of one bin. `parts` has two sums of
// each piece: that of the run that began in an earlier piece, and that of the run that goes on in
// the next piece. Other runs of the piece are results.
constexpr int64_t kPiece = 512;
constexpr uint64_t kNoBin = ~uint64_t{0};

// A warp adds a piece, 32 elements at a time.
template <class S>
__global__ void __launch_bounds__(kBlock)
    sum_pieces(const uint64_t* __restrict__ key, const uint32_t* __restrict__ value, int64_t n,
               const void* __restrict__ weights, DType dtype, uint64_t bins, S* __restrict__ parts,
               void* __restrict__ out) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int64_t p = first_thread() / 32; p * kPiece < n; p += all_threads() / 32) {
    const int64_t begin = p * kPiece, end = begin + kPiece < n ? begin + kPiece : n;
    const uint64_t before = begin > 0 ? key[begin - 1] : kNoBin;
    uint64_t previous = before;  // the bin of the element before these 32
    S carry = 0;                 // the sum of its run in this piece
    for (int64_t at = begin; at < end; at += 32) {
      const int64_t i = at + lane;
      const uint64_t bin = i < end ? key[i] : kNoBin;
      S sum = 0;
      if (bin < bins) sum += number_at<S>(weights, dtype, value[i]);
      const uint64_t left = __shfl_up_sync(~0u, bin, 1);
      const unsigned starts = __ballot_sync(~0u, bin != (lane > 0 ? left : previous));
      const unsigned until = starts & (~0u >> (31 - lane));  // runs that start up to this lane
      const int first = until != 0 ? 31 - __clz(static_cast<int>(until)) : 0;
#pragma unroll
      for (int d = 1; d < 32; d *= 2) {
        const S other = __shfl_up_sync(~0u, sum, d);
        if (lane - d >= first) sum = other + sum;
      }
      if (until == 0) sum = carry + sum;
      carry = __shfl_sync(~0u, sum, 31);
      previous = __shfl_sync(~0u, bin, 31);
      if (bin >= bins) continue;
      const bool ends = i + 1 == n || key[i + 1] != bin;
      if (!ends && i + 1 < end) continue;
      if (bin == before)
        parts[2 * p] = sum;
      else if (ends)
        store(out, dtype, bin, sum);
      else
        parts[2 * p + 1] = sum;
    }
  }
}

// A warp adds the parts of a run of several pieces, of which piece p is the first.
template <class S>
__global__ void __launch_bounds__(kBlock)
    join_pieces(const uint64_t* __restrict__ key, int64_t n, DType dtype, uint64_t bins,
                const S* __restrict__ parts, void* __restrict__ out) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int64_t p = first_thread() / 32; (p + 1) * kPiece < n; p += all_threads() / 32) {
    const int64_t begin = p * kPiece, end = begin + kPiece;
    const uint64_t bin = key[end - 1];
    if (bin >= bins || key[end] != bin || (begin > 0 && key[begin - 1] == bin)) continue;
    const int64_t more =
        search::count_before(n - end, [&](int64_t i) { return key[end + i] == bin; });
    const int64_t last = (end + more - 1) / kPiece;
    S sum = 0;
    for (int64_t q = p + 1 + lane; q <= last; q += 32) sum += parts[2 * q];
    sum = all_of_lanes(sum, 32, [](auto x, auto y) { return x + y; });
    if (lane == 0) store(out, dtype, bin, parts[2 * p + 1] + sum);
  }
}

template <class F>
void count(const Call& call, F bin) {
  const int64_t n = call.in[0].meta.size(), bins = call.out[0].meta.shape[0];
  Counter* const out = call.out[0].as<Counter>();
  LOCUS_CUDA(cudaMemsetAsync(out, 0, static_cast<size_t>(bins) * sizeof *out, stream(call)));
  if (n == 0) return;
  if (bins > kSharedBins) return launch(call.stream, n, count_global<F>, bin, n, out);
  const int each = kSharedBins / static_cast<int>(bins), warps = kBlock / 32;
  const int copies = each < warps ? each : warps;
  const unsigned most = static_cast<unsigned>(multiprocessors(call.stream)) * 6;
  const unsigned all = blocks_for(call.stream, (n + 7) / 8), blocks = all < most ? all : most;
  const size_t bytes = static_cast<size_t>(copies * bins) * sizeof(unsigned);
  count_shared<F>
      <<<blocks, kBlock, bytes, stream(call)>>>(bin, n, static_cast<int>(bins), copies, out);
}

constexpr int64_t padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

template <class F>
void add_weights(const Call& call, const View& weights, F bin) {
  const int64_t n = call.in[0].meta.size(), bins = call.out[0].meta.shape[0];
  Views::fill(call.out[0], 0, call.stream);
  if (n == 0) return;
  int bits = 1;
  while (bits < 64 && static_cast<uint64_t>(bins) >> bits) ++bits;
  const int64_t keys = padded(n * 8), values = padded(n * 4);
  size_t temporary = 0;
  uint64_t *key = nullptr, *sorted_key = nullptr;
  uint32_t *value = nullptr, *sorted_value = nullptr;
  const auto sort = [&](void* memory) {
    LOCUS_CUDA(cub::DeviceRadixSort::SortPairs(memory, temporary, static_cast<const uint64_t*>(key),
                                               sorted_key, static_cast<const uint32_t*>(value),
                                               sorted_value, n, 0, bits, stream(call)));
  };
  sort(nullptr);
  const Scratch scratch(call, static_cast<size_t>(2 * keys + 2 * values) + temporary);
  char* const memory = scratch.as<char>();
  key = reinterpret_cast<uint64_t*>(memory);
  sorted_key = reinterpret_cast<uint64_t*>(memory + keys);
  value = reinterpret_cast<uint32_t*>(memory + 2 * keys);
  sorted_value = reinterpret_cast<uint32_t*>(memory + 2 * keys + values);
  launch(call.stream, n, find_keys<F>, bin, n, bins, key, value);
  sort(memory + 2 * keys + 2 * values);
  const auto add = [&](auto zero) {
    using S = decltype(zero);
    S* const parts = reinterpret_cast<S*>(memory);  // where `key` was
    const DType d = weights.meta.dtype;
    void* const out = call.out[0].data;
    const auto end = static_cast<uint64_t>(bins);
    const int64_t threads = (n + kPiece - 1) / kPiece * 32;
    launch(call.stream, threads, sum_pieces<S>, sorted_key, sorted_value, n, weights.data, d, end,
           parts, out);
    if (n > kPiece) launch(call.stream, threads, join_pieces<S>, sorted_key, n, d, end, parts, out);
  };
  if (is_floating(weights.meta.dtype))
    add(double{});
  else
    add(uint64_t{});
}

// With weights as the last operand, or without.
template <class F>
void sum_bins(const Call& call, int weights, F bin) {
  if (call.out[0].meta.size() == 0) return;
  if (call.n_in == weights) return count(call, bin);
  add_weights(call, call.in[weights], bin);
}

// Elements are compared by their keys (order_kernel.h): -0 is 0, and all NaNs are one element above
// all numbers.

template <class W>
__device__ bool is_nan(const KeyMap<W, true>&, W key) {
  return key == static_cast<W>(~W{0});
}
template <class W>
__device__ bool is_nan(const KeyMap<W, false>&, W) {
  return false;
}

template <class Key, class W>
__global__ void __launch_bounds__(kBlock) find_places(Key key, const W* bins, int64_t m, const W* x,
                                                      int64_t n, bool right, int64_t* out) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const W q = key(x[i]);
    out[i] = search::count_before(m, [&](int64_t k) {
      const W bin = key(bins[k]);
      return bin < q || (right && bin == q);
    });
  }
}

template <class Key, class W>
__global__ void __launch_bounds__(kBlock)
    find_equal(Key key, const W* x, int64_t n, const W* tests, int64_t m, bool invert, bool* out) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const W q = key(x[i]);
    const int64_t place = search::count_before(m, [&](int64_t k) { return key(tests[k]) < q; });
    out[i] = (place < m && key(tests[place]) == q && !is_nan(key, q)) != invert;
  }
}

// x: n rows of k elements.
template <class Key, class W>
__global__ void __launch_bounds__(kBlock)
    find_starts(Key key, const W* x, int64_t n, int64_t k, bool equal_nan, bool* out) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    bool start = i == 0;
    for (int64_t c = i * k; !start && c < (i + 1) * k; ++c) {
      const W own = key(x[c]);
      start = own != key(x[c - k]) || (!equal_nan && is_nan(key, own));
    }
    out[i] = start;
  }
}

struct Backend {
  static void searchsorted(const Call& call) {
    const View &bins = call.in[0], &x = call.in[1];
    const int64_t m = bins.meta.size(), n = x.meta.size();
    if (n == 0) return;
    by_key(x.meta.dtype, false, [&](auto key) {
      using W = decltype(key(0));
      launch(call.stream, n, find_places<decltype(key), W>, key, bins.as<W>(), m, x.as<W>(), n,
             call.attributes<SearchAttrs>().right, call.out[0].as<int64_t>());
    });
  }

  static void isin(const Call& call) {
    const View &x = call.in[0], &tests = call.in[1];
    const int64_t n = x.meta.size(), m = tests.meta.size();
    if (n == 0) return;
    by_key(x.meta.dtype, false, [&](auto key) {
      using W = decltype(key(0));
      launch(call.stream, n, find_equal<decltype(key), W>, key, x.as<W>(), n, tests.as<W>(), m,
             call.attributes<IsinAttrs>().invert, call.out[0].as<bool>());
    });
  }

  static void bincount(const Call& call) {
    const View& x = call.in[0];
    const DType d = x.meta.dtype == bool_ ? u8 : x.meta.dtype;
    sum_bins(call, 1, IntegerBins{x.data, d, call.out[0].meta.shape[0]});
  }

  template <class E>
  static void histogram_of(const Call& call) {
    const View& x = call.in[0];
    sum_bins(call, 2,
             EdgeBins<E>{x.data, x.meta.dtype, call.in[1].as<E>(), call.out[0].meta.shape[0],
                         call.attributes<HistogramAttrs>().uniform});
  }
  static void histogram(const Call& call) {
    switch (call.in[1].meta.dtype) {
      case f32:
        return histogram_of<float>(call);
      case i64:
        return histogram_of<int64_t>(call);
      default:
        return histogram_of<double>(call);
    }
  }

  static void run_starts(const Call& call) {
    const View& x = call.in[0];
    const int64_t n = call.out[0].meta.size();
    if (n == 0) return;
    by_key(x.meta.dtype, false, [&](auto key) {
      using W = decltype(key(0));
      launch(call.stream, n, find_starts<decltype(key), W>, key, x.as<W>(), n, x.meta.size() / n,
             call.attributes<RunAttrs>().equal_nan, call.out[0].as<bool>());
    });
  }
};

}  // namespace

extern constinit const KernelList searches = search::kernels<Backend>();

}  // namespace locus::cuda
