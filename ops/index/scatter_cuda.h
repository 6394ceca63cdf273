// Writes and sums at the places that index tensors name, on a GPU: index_put and index_add. A
// stable sort brings equal places together, in the order of the indices. The last value stays, or
// one thread adds all values in order, in f64 or with wrapping integers. Included by *.cu only.
#pragma once

#include <cuda_runtime.h>
#include <cub/device/device_radix_sort.cuh>

#include <locus/core/scratch.h>
#include <locus/devices/cuda/check.h>
#include <locus/ops/index/index_fault.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {

// What sums of T are computed in.
template <class T>
using Sum = If<kFloating<T> || k16Bit<T>, double, uint64_t>;
template <class T>
__device__ __forceinline__ Sum<T> widened(T v) {
  if constexpr (kSame<Sum<T>, double>)
    return convert<double>(v);
  else
    return static_cast<uint64_t>(v);
}

// The offset in the target of each index row; `none` if out of range. value: the row's number.
static __global__ void __launch_bounds__(kBlock)
    find_places(TakeWalk p, int64_t n, uint64_t none, uint64_t* key, uint32_t* value,
                Fault* fault) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const TakeRow row = take_row(p, i);
    if (row.bad_axis >= 0) report(fault, bad_index(p, row));
    key[i] = row.bad_axis >= 0 ? none : static_cast<uint64_t>(row.data);
    value[i] = static_cast<uint32_t>(i);
  }
}

// The thread at the first of equal places adds their values; with kAdd false, the thread at the
// last one writes its value. T is then the unsigned type of the elements' size.
template <class T, bool kAdd>
__global__ void __launch_bounds__(kBlock)
    combine_places(TakeWalk p, int64_t n, int64_t others, uint64_t none, const uint64_t* key,
                   const uint32_t* value, const void* values, void* data) {
  const T* const from = static_cast<const T*>(values);
  const int64_t total = n * others;
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const int64_t mine = i / others, other = i % others;
    const uint64_t place = key[mine];
    const int64_t beside = kAdd ? mine - 1 : mine + 1;
    if (place == none || (beside >= 0 && beside < n && key[beside] == place)) continue;
    const int64_t before = other / p.inner.size * n;
    int64_t at[2] = {};
    p.inner.locate(other % p.inner.size, at, p.inner.rank);
    TakeRow row = take_row(p, before + static_cast<int64_t>(value[mine]));
    T* const to = static_cast<T*>(data) + row.data + at[0];
    if constexpr (kAdd) {
      Sum<T> sum = widened(*to);
      for (int64_t k = mine; k < n && key[k] == place; ++k) {
        if (k > mine) row = take_row(p, before + static_cast<int64_t>(value[k]));
        sum += widened(from[row.result + at[1]]);
      }
      *to = convert<T>(sum);
    } else {
      *to = from[row.result + at[1]];
    }
  }
}

inline int64_t padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Writes or adds the values at their places in the target by `combine`, a combine_places(). Leaves
// out those of indices out of range, which it reports. There are fewer than 2^32 index rows.
inline void scatter(const Call& call, const View& target, const View& values, const View* ids,
                    const TakeAttrs& a, decltype(&combine_places<float, true>) combine) {
  const TakeWalk p = make_take_walk(target, values, ids, a);
  if (p.rows * p.inner.size == 0) return;
  const int64_t n = p.index_rows(), others = p.rows / n * p.inner.size;
  const uint64_t none = static_cast<uint64_t>(target.meta.size());
  int bits = 1;
  while (bits < 64 && none >> bits) ++bits;
  const auto sort = [&](void* memory, size_t& bytes, const uint64_t* key, uint64_t* sorted_key,
                        const uint32_t* value, uint32_t* sorted_value) {
    LOCUS_CUDA(cub::DeviceRadixSort::SortPairs(memory, bytes, key, sorted_key, value, sorted_value,
                                               n, 0, bits, stream(call)));
  };
  size_t temporary = 0;
  sort(nullptr, temporary, nullptr, nullptr, nullptr, nullptr);
  const int64_t key_bytes = padded(n * 8), value_bytes = padded(n * 4);
  const Scratch scratch(call, static_cast<size_t>(2 * key_bytes + 2 * value_bytes) + temporary);
  char* memory = scratch.as<char>();
  uint64_t* const key = reinterpret_cast<uint64_t*>(memory);
  uint64_t* const sorted_key = reinterpret_cast<uint64_t*>(memory += key_bytes);
  uint32_t* const value = reinterpret_cast<uint32_t*>(memory += key_bytes);
  uint32_t* const sorted_value = reinterpret_cast<uint32_t*>(memory += value_bytes);
  memory += value_bytes;
  launch(call.stream, n, find_places, p, n, none, key, value, fault(call));
  sort(memory, temporary, key, sorted_key, value, sorted_value);
  launch(call.stream, n * others, combine, p, n, others, none, sorted_key, sorted_value,
         values.data, target.data);
}

}  // namespace locus::cuda
