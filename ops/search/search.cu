// Sums of weights are the same bits on each run: elements are sorted by bin, and each bin adds its
// elements in an order that the numbers of elements alone fix. Counts are integers, so the order of
// their atomics does not matter.
#include <cuda_runtime.h>
#include <cub/device/device_radix_sort.cuh>

#include <locus/core/scratch.h>
#include <locus/devices/cuda/check.h>
#include <locus/ops/kernel/reduce_block.h>
#include <locus/ops/search/search_kernel.h>

namespace locus::cuda {
namespace {

using Counter = unsigned long long;

constexpr int kSharedBins = 8192;  // counters of a block, in shared memory

// The bins of elements; -1: none.
template <class T>
struct IntegerBins {
  const T* x;
  int64_t bins;
  __device__ int64_t operator()(int64_t i) const {
    const int64_t id = static_cast<int64_t>(x[i]);
    return static_cast<uint64_t>(id) < static_cast<uint64_t>(bins) ? id : -1;
  }
};
template <class T, class E>
struct EdgeBins {
  const T* x;
  const E* edges;
  int64_t bins;
  bool uniform;
  __device__ int64_t operator()(int64_t i) const {
    const E q = convert<E>(x[i]), first = edges[0], last = edges[bins];
    if constexpr (kFloating<E>)
      if (uniform) return search::uniform_bin(q, edges, bins, first, last, last - first);
    const int64_t place = search::place_of<true>(edges, bins + 1, q);
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

// Floats are summed in f64, integers in i64.
template <class W>
using SumOf = If<kFloating<Compute<W>>, double, uint64_t>;

template <class W>
__device__ SumOf<W> weight_at(const W* weights, uint32_t i) {
  return static_cast<SumOf<W>>(convert<Compute<W>>(weights[i]));
}
template <class W>
__device__ W result_of(SumOf<W> sum) {
  if constexpr (kFloating<SumOf<W>>)
    return convert<W>(sum);
  else
    return convert<W>(static_cast<int64_t>(sum));
}

// One block adds a bin: for bins of many elements.
template <class W>
__global__ void __launch_bounds__(kBlock)
    sum_long(const uint64_t* key, const uint32_t* value, int64_t n, const W* weights, int64_t bins,
             W* out) {
  for (int64_t b = blockIdx.x; b < bins; b += gridDim.x) {
    const int64_t begin = search::place_of<false>(key, n, static_cast<uint64_t>(b));
    const int64_t end = search::place_of<true>(key, n, static_cast<uint64_t>(b));
    SumOf<W> sum = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += kBlock) sum += weight_at(weights, value[i]);
    sum = all_of_team(sum, kBlock, [](auto x, auto y) { return x + y; });
    if (threadIdx.x == 0) out[b] = result_of<W>(sum);
  }
}

// The thread at a bin's first element adds the bin. Other bins have been set to 0.
template <class W>
__global__ void __launch_bounds__(kBlock)
    sum_short(const uint64_t* key, const uint32_t* value, int64_t n, const W* weights, int64_t bins,
              W* out) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const uint64_t b = key[i];
    if (b == static_cast<uint64_t>(bins) || (i > 0 && key[i - 1] == b)) continue;
    SumOf<W> sum = 0;
    for (int64_t k = i; k < n && key[k] == b; ++k) sum += weight_at(weights, value[k]);
    out[b] = result_of<W>(sum);
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
  dispatch(weights.meta.dtype, [&](auto type) {
    using W = typename decltype(type)::type;
    const W* const w = weights.as<W>();
    W* const out = call.out[0].as<W>();
    if (n / bins < 64)
      return launch(call.stream, n, sum_short<W>, sorted_key, sorted_value, n, w, bins, out);
    sum_long<W><<<blocks_for(call.stream, bins * kBlock), kBlock, 0, stream(call)>>>(
        sorted_key, sorted_value, n, w, bins, out);
  });
}

// With weights as the last operand, or without.
template <class F>
void sum_bins(const Call& call, int weights, F bin) {
  if (call.out[0].meta.size() == 0) return;
  if (call.n_in == weights) return count(call, bin);
  add_weights(call, call.in[weights], bin);
}

template <bool kRight, class T>
__global__ void __launch_bounds__(kBlock)
    find_places(const T* bins, int64_t m, const T* x, int64_t n, int64_t* out) {
  for (int64_t i = first_thread(); i < n; i += all_threads())
    out[i] = search::place_of<kRight>(bins, m, convert<Promoted<T>>(x[i]));
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    find_equal(const T* x, int64_t n, const T* tests, int64_t m, bool invert, bool* out) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const auto q = convert<Promoted<T>>(x[i]);
    const int64_t place = search::place_of<false>(tests, m, q);
    out[i] = (place < m && convert<Promoted<T>>(tests[place]) == q) != invert;
  }
}

// x: n rows of k elements.
template <class T>
__global__ void __launch_bounds__(kBlock)
    find_starts(const T* x, int64_t n, int64_t k, bool equal_nan, bool* out) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    bool start = i == 0;
    for (int64_t c = i * k; !start && c < (i + 1) * k; ++c)
      start = search::differ(x[c], x[c - k], equal_nan);
    out[i] = start;
  }
}

struct Backend {
  template <class T>
  static void searchsorted(const Call& call) {
    const int64_t m = call.in[0].meta.size(), n = call.in[1].meta.size();
    const auto kernel =
        call.attributes<SearchAttrs>().right ? find_places<true, T> : find_places<false, T>;
    if (n > 0)
      launch(call.stream, n, kernel, call.in[0].as<const T>(), m, call.in[1].as<const T>(), n,
             call.out[0].as<int64_t>());
  }

  template <class T>
  static void isin(const Call& call) {
    const int64_t n = call.in[0].meta.size(), m = call.in[1].meta.size();
    if (n > 0)
      launch(call.stream, n, find_equal<T>, call.in[0].as<const T>(), n, call.in[1].as<const T>(),
             m, call.attributes<IsinAttrs>().invert, call.out[0].as<bool>());
  }

  template <class T>
  static void bincount(const Call& call) {
    sum_bins(call, 1, IntegerBins<T>{call.in[0].as<const T>(), call.out[0].meta.shape[0]});
  }

  template <class T, class E>
  static EdgeBins<T, E> bins_of(const Call& call) {
    return {call.in[0].as<const T>(), call.in[1].as<const E>(), call.out[0].meta.shape[0],
            call.attributes<HistogramAttrs>().uniform};
  }
  template <class T>
  static void histogram(const Call& call) {
    if constexpr (kSame<T, int64_t>)
      if (call.in[1].meta.dtype == i64) return sum_bins(call, 2, bins_of<T, int64_t>(call));
    sum_bins(call, 2, bins_of<T, search::EdgeOf<T>>(call));
  }

  template <class T>
  static void run_starts(const Call& call) {
    const int64_t n = call.out[0].meta.size(), k = n > 0 ? call.in[0].meta.size() / n : 0;
    if (n > 0)
      launch(call.stream, n, find_starts<T>, call.in[0].as<const T>(), n, k,
             call.attributes<RunAttrs>().equal_nan, call.out[0].as<bool>());
  }
};

}  // namespace

extern constinit const KernelList searches = search::kernels<Backend>();

}  // namespace locus::cuda
