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
  if (!is_floating(dtype)) return;
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

void sort_each_row(const Call& call, const SortedRows& r, bool descending) {
  const DType d = r.key.dtype;
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
    else if constexpr (std::is_same_v<T, bool>)
      run(std::type_identity<uint8_t>());
    else
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
    move_ids(const T* from, const int64_t* ids, Along data, int64_t k, bool gathers, int axis,
             T* to, Fault* fault) {
  const int64_t n = data.outer * k * data.inner;
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const int64_t id = ids[i];
    if (id < 0 || id >= data.n) {
      report(fault, {FaultKind::index, id, data.n, axis});
      if (gathers) to[i] = T{};
      continue;
    }
    const int64_t at = (i / data.inner / k * data.n + id) * data.inner + i % data.inner;
    if (gathers)
      to[i] = from[at];
    else
      to[at] = from[i];
  }
}
void move_by_ids(const Call& call, const View& data, int axis, bool gathers) {
  const Along along(data.meta, axis);
  const View& ids = call.in[1];
  by_size(size_of(data.meta.dtype), [&](auto word) {
    using T = decltype(word);
    launch(call.stream, ids.meta.size(), move_ids<T>, call.in[0].as<T>(), ids.as<int64_t>(), along,
           ids.meta.shape[axis], gathers, axis, call.out[0].as<T>(), fault(call));
  });
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

  static void gather(const Call& call) {
    move_by_ids(call, call.in[0], call.attributes<GatherAttrs>().axis, true);
  }
  static void scatter(const Call& call) {
    Views::fill(call.out[0], 0, call.stream);
    move_by_ids(call, call.out[0], call.attributes<ScatterAttrs>().axis, false);
  }
};

}  // namespace

extern constinit const KernelList order = order_kernels<Backend>();

}  // namespace locus::cuda
