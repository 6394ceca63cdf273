#include <cuda_fp16.h>

#include <locus/devices/cuda.h>
#include <locus/ops/order/select_cuda.h>

namespace locus::cuda {
namespace {

// --- Values alone: CUB sorts elements as they are ---
//
// CUB puts NaNs with the sign bit first (descending: those without). They move to the end.

template <class W>
__device__ __forceinline__ bool is_leading_nan(W x, const KeyMap<W, true>& key) {
  const W magnitude = static_cast<W>(x & static_cast<W>(~key.sign));
  return magnitude > key.infinity && ((x & key.sign) != 0) == (key.flip == 0);
}

// If y begins with NaNs, spare is y with them at its end, and *moves is 1.
template <class W>
__global__ void __launch_bounds__(kBlock)
    rotate_nans(const W* y, int64_t n, KeyMap<W, true> key, W* spare, int* moves) {
  const bool any = is_leading_nan(y[0], key);
  if (first_thread() == 0) *moves = any;
  if (!any) return;
  int64_t first = 0, last = n;  // the first element that is no such NaN lies in (first, last]
  while (last - first > 1) {
    const int64_t middle = first + (last - first) / 2;
    (is_leading_nan(y[middle], key) ? first : last) = middle;
  }
  for (int64_t i = first_thread(); i < n; i += all_threads())
    spare[i < last ? n - last + i : i - last] = y[i];
}
template <class W>
__global__ void __launch_bounds__(kBlock)
    copy_if(const W* spare, int64_t n, const int* moves, W* y) {
  if (*moves == 0) return;
  for (int64_t i = first_thread(); i < n; i += all_threads()) y[i] = spare[i];
}

template <class T>
void sort_values(const Call& call, const void* from, void* to, int64_t n, bool descending,
                 DType dtype) {
  const T* const x = static_cast<const T*>(from);
  T* const y = static_cast<T*>(to);
  const auto sort = [&](void* memory, size_t& bytes) {
    LOCUS_CUDA(descending ? cub::DeviceRadixSort::SortKeysDescending(memory, bytes, x, y, n, 0,
                                                                     8 * sizeof(T), stream(call))
                          : cub::DeviceRadixSort::SortKeys(memory, bytes, x, y, n, 0, 8 * sizeof(T),
                                                           stream(call)));
  };
  size_t bytes = 0;
  sort(nullptr, bytes);
  constexpr size_t kHead = 256;  // for `moves`
  const size_t least = kHead + static_cast<size_t>(n) * sizeof(T);
  const Scratch memory(call, bytes > least ? bytes : least);
  sort(memory.data(), bytes);
  if constexpr (!std::is_integral_v<T>)
    by_key(dtype, descending, [&](auto key) {
      using W = decltype(key(0));
      if constexpr (std::is_same_v<decltype(key), KeyMap<W, true>> && sizeof(W) == sizeof(T)) {
        int* const moves = memory.as<int>();
        W* const spare = reinterpret_cast<W*>(memory.as<char>() + kHead);
        W* const words = static_cast<W*>(to);
        launch(call.stream, n, rotate_nans<W>, words, n, key, spare, moves);
        launch(call.stream, n, copy_if<W>, spare, n, moves, words);
      }
    });
}

// Elements of one byte are counted. bins[v]: how many have the value v. Neighbouring threads add to
// different counters, because all elements may be equal.
__global__ void __launch_bounds__(kBlock)
    count_bytes(const uint8_t* x, int64_t n, unsigned long long* bins) {
  constexpr unsigned kEach = 8;
  __shared__ unsigned counts[kBlock * kEach];
  for (unsigned i = threadIdx.x; i < kBlock * kEach; i += kBlock) counts[i] = 0;
  __syncthreads();
  for (int64_t i = first_thread(); i < n; i += all_threads())
    atomicAdd(&counts[x[i] * kEach + threadIdx.x % kEach], 1u);
  __syncthreads();
  unsigned long long sum = 0;
  for (unsigned k = 0; k < kEach; ++k) sum += counts[threadIdx.x * kEach + k];
  if (sum > 0) atomicAdd(bins + threadIdx.x, sum);
}
__global__ void __launch_bounds__(kBlock)
    write_bytes(const unsigned long long* bins, KeyMap<uint8_t, false> key, int64_t n, uint8_t* y) {
  static_assert(kBlock == 256);
  __shared__ int64_t ends[kBlock];  // of the elements up to each key
  ends[threadIdx.x] = static_cast<int64_t>(bins[key(static_cast<uint8_t>(threadIdx.x))]);
  __syncthreads();
  for (unsigned step = 1; step < kBlock; step *= 2) {
    const int64_t before = threadIdx.x >= step ? ends[threadIdx.x - step] : 0;
    __syncthreads();
    ends[threadIdx.x] += before;
    __syncthreads();
  }
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    int first = 0;  // the number of keys whose elements end at i or before
    for (int half = kBlock / 2; half > 0; half /= 2)
      if (ends[first + half - 1] <= i) first += half;
    y[i] = key.element(static_cast<uint8_t>(first));
  }
}
void sort_bytes(const Call& call, const SortedRows& r) {
  const Scratch memory(call, kBlock * sizeof(unsigned long long));
  auto* const bins = memory.as<unsigned long long>();
  LOCUS_CUDA(cudaMemsetAsync(bins, 0, kBlock * sizeof *bins, stream(call)));
  launch(call.stream, r.n, count_bytes, static_cast<const uint8_t*>(r.x), r.n, bins);
  const KeyMap<uint8_t, false> key{static_cast<uint8_t>(r.key.sign), 0,
                                   static_cast<uint8_t>(r.key.flip)};
  launch(call.stream, r.n, write_bytes, bins, key, r.n, static_cast<uint8_t*>(r.values));
}

void sort_each_row(const Call& call, const SortedRows& r, bool descending) {
  const DType d = r.key.dtype;
  if (r.key.bytes() == 1) {
    for (int64_t row = 0; row < r.rows; ++row) sort_bytes(call, r.part(row, 1));
    return;
  }
  const auto run = [&](auto type) {
    using T = typename decltype(type)::type;
    for (int64_t row = 0; row < r.rows; ++row) {
      const SortedRows p = r.part(row, 1);
      sort_values<T>(call, p.x, p.values, r.n, descending, d);
    }
  };
  dispatch(d, [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (sizeof(T) == 2)
      run(std::type_identity<__half>());  // bf16, too: the bits order alike
    else if constexpr (sizeof(T) > 2)
      run(type);
  });
}

// --- Rows along any axis ---

// (outer, k, inner) elements as (outer, inner, k).
View rows_last(const View& of, const Along& a, int64_t k) {
  View v;
  v.data = of.data;
  v.meta = {of.meta.dtype, 3, {a.outer, a.inner, k}};
  const int64_t strides[] = {k * a.inner, 1, a.inner};
  for (int i = 0; i < 3; ++i) v.stride[i] = strides[i];
  return v;
}
View row_major(const View& like, void* data) {
  View v = like;
  v.data = data;
  v.stride[2] = 1;
  v.stride[1] = v.meta.shape[2];
  v.stride[0] = v.meta.shape[1] * v.meta.shape[2];
  return v;
}

// Runs f on rows of the first operand that lie one behind the other. values and ids: the results,
// or null. An axis that is not the last one is staged in scratch memory.
void with_rows(const Call& call, int axis, int64_t k, const AnyKey& key, const View* values,
               const View* ids, const auto& f) {
  const View& x = call.in[0];
  const Along a(x.meta, axis);
  if (a.rows() * k == 0) return;
  SortedRows r{
      x.data, a.rows(), a.n, k, values ? values->data : nullptr, ids ? ids->as<int64_t>() : nullptr,
      key};
  if (a.inner == 1) return f(r);
  const auto size = static_cast<size_t>(key.bytes()), results = static_cast<size_t>(a.rows() * k);
  const Scratch from(call, static_cast<size_t>(a.rows() * a.n) * size),
      to(call, values ? results * size : 0), places(call, ids ? results * 8 : 0);
  const View rows = rows_last(x, a, a.n);
  Views::copy(rows, row_major(rows, from.data()), call.stream);
  r.x = from.data();
  if (values) r.values = to.data();
  if (ids) r.ids = places.as<int64_t>();
  f(r);
  const auto put = [&](const View* result, void* data) {
    if (!result) return;
    const View out = rows_last(*result, a, k);
    Views::copy(row_major(out, data), out, call.stream);
  };
  put(values, to.data());
  put(ids, places.data());
}

// Rows from this length on are sorted one by one, values alone.
constexpr int64_t kLongRow = 1 << 20;

template <class E>
void sort_rows_of(const Call& call, const SortedRows& r, bool descending) {
  if (r.n <= kShortRow<E>) return sort_short<E>(call, r);
  if (!r.ids && r.k == r.n && (r.rows == 1 || r.n >= kLongRow))
    return sort_each_row(call, r, descending);
  if (r.k > kShortRow<E> || r.k > r.n / 4)
    each_group(r, r.rows, [&](const SortedRows& group) { sort_group(call, group); });
  else
    each_group(r, kMostPicks, [&](const SortedRows& group) { select_first<E>(call, group); });
}
void sort_rows(const Call& call, int axis, int64_t k, bool descending, const View* values,
               const View* ids) {
  const AnyKey key(call.in[0].meta.dtype, descending);
  with_rows(call, axis, k, key, values, ids, [&](const SortedRows& r) {
    if (key.bytes() < 8)
      sort_rows_of<Entry>(call, r, descending);
    else
      sort_rows_of<WideEntry>(call, r, descending);
  });
}

void partition_rows(const Call& call, const View* values, const View* ids) {
  const PartitionAttrs& a = call.attributes<PartitionAttrs>();
  const AnyKey key(call.in[0].meta.dtype, false);
  with_rows(call, a.axis, call.in[0].meta.shape[a.axis], key, values, ids,
            [&](const SortedRows& rows) {
              SortedRows r = rows;
              r.partition = &a;
              if (key.bytes() < 8 && r.n <= kShortRow<Entry>) return sort_short<Entry>(call, r);
              if (r.n <= kShortRow<WideEntry>) return sort_short<WideEntry>(call, r);
              each_group(r, kMostPicks / a.n,
                         [&](const SortedRows& group) { partition_group(call, group); });
            });
}

// out[row, t] = sorted[row, kth[t]]
template <class W>
__global__ void __launch_bounds__(kBlock)
    take_places(const W* sorted, const __grid_constant__ SortedRows r,
                const __grid_constant__ PartitionAttrs a) {
  for (int64_t i = first_thread(); i < r.rows * a.n; i += all_threads())
    static_cast<W*>(r.values)[i] = sorted[i / a.n * r.n + a.kth[i % a.n]];
}
template <class W>
__global__ void __launch_bounds__(kBlock)
    take_picks(const Pick* picks, const __grid_constant__ SortedRows r) {
  for (int64_t i = first_thread(); i < r.rows * r.k; i += all_threads())
    static_cast<W*>(r.values)[i] = r.key.element(static_cast<W>(picks[i].key));
}
void select_rows(const Call& call) {
  const PartitionAttrs& a = call.attributes<PartitionAttrs>();
  const AnyKey key(call.in[0].meta.dtype, false);
  with_rows(call, a.axis, a.n, key, call.out, nullptr, [&](const SortedRows& r) {
    const bool narrow = key.bytes() < 8;
    if (r.n <= (narrow ? kShortRow<Entry> : kShortRow<WideEntry>)) {
      const Scratch sorted(call, static_cast<size_t>(r.rows * r.n * key.bytes()));
      SortedRows whole = r;
      whole.k = r.n;
      whole.values = sorted.data();
      if (narrow)
        sort_short<Entry>(call, whole);
      else
        sort_short<WideEntry>(call, whole);
      return by_word(key, [&](auto word) {
        using W = decltype(word);
        launch(call.stream, r.rows * a.n, take_places<W>, sorted.as<W>(), r, a);
      });
    }
    each_group(r, kMostPicks / a.n, [&](const SortedRows& group) {
      Wanted w{group.x, group.rows, group.n, group.key, a.n};
      for (int t = 0; t < a.n; ++t) w.position[t] = a.kth[t];
      const PickMemory memory(call, w);
      find_picks(call, w, false);
      by_word(key, [&](auto word) {
        launch(call.stream, w.picked(), take_picks<decltype(word)>, w.picks, group);
      });
    });
  });
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    scatter_elements(const T* from, const int64_t* ids, Along data, int64_t k, int axis, T* to,
                     Fault* fault) {
  const int64_t n = data.outer * k * data.inner;
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const int64_t id = ids[i];
    if (id < 0 || id >= data.n)
      report(fault, {FaultKind::index, id, data.n, axis});
    else
      to[(i / data.inner / k * data.n + id) * data.inner + i % data.inner] = from[i];
  }
}

struct Backend {
  static void sort(const Call& call) {
    const SortAttrs& a = call.attributes<SortAttrs>();
    sort_rows(call, a.axis, call.in[0].meta.shape[a.axis], a.descending, call.out, nullptr);
  }
  static void argsort(const Call& call) {
    const SortAttrs& a = call.attributes<SortAttrs>();
    sort_rows(call, a.axis, call.in[0].meta.shape[a.axis], a.descending, nullptr, call.out);
  }
  static void topk(const Call& call) {
    const TopkAttrs& a = call.attributes<TopkAttrs>();
    sort_rows(call, a.axis, a.k, a.largest, call.out, call.out + 1);
  }

  static void partition(const Call& call) { partition_rows(call, call.out, nullptr); }
  static void argpartition(const Call& call) { partition_rows(call, nullptr, call.out); }

  static void select(const Call& call) { select_rows(call); }

  static void scatter(const Call& call) {
    const int axis = call.attributes<ScatterAttrs>().axis;
    const Along along(call.out[0].meta, axis);
    const View& ids = call.in[1];
    Views::fill(call.out[0], 0, call.stream);
    by_size(size_of(call.out[0].meta.dtype), [&](auto word) {
      using T = decltype(word);
      launch(call.stream, ids.meta.size(), scatter_elements<T>, call.in[0].as<T>(),
             ids.as<int64_t>(), along, ids.meta.shape[axis], axis, call.out[0].as<T>(),
             fault(call));
    });
  }
};

}  // namespace

extern constinit const KernelList order = order_kernels<Backend>();

}  // namespace locus::cuda
