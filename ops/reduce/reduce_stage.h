// For the CPU kernels of reductions, included once per instruction set. Elements of any dtype and
// strides are converted into a row of the compute type and reduced there.
#pragma once

#include <cstddef>
#include <type_traits>

#include <locus/devices/cpu.h>
#include <locus/ops/elementwise/kernels.h>
#include <locus/ops/reduce/lanes.h>
#include <locus/ops/reduce/reduce_walk.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kMaxParts = 4096;         // partial results of blocks held at once
constexpr int64_t kParallelWork = 1 << 15;  // elements worth a thread

// Offsets of output o, counted over the first `axes` axes, in the input and in the result.
struct Offsets {
  int64_t in = 0, out = 0;
};
LOCUS_HD Offsets output_offsets(const ReduceWalk& p, int64_t o, int axes) {
  int64_t at[2] = {};
  p.keep.locate(o, at, axes);
  return {at[1], at[0]};
}

// Elements of any dtype, as values of the compute type V. All reductions share one function per
// dtype.
template <class V>
struct Source {
  const std::byte* data;
  int64_t size;  // bytes of an element
  bool direct;   // elements are stored as V
  void (*row)(const std::byte* x, int64_t stride, int64_t n, V* values);

  LOCUS_HD const std::byte* at(int64_t element) const { return data + element * size; }
  // Elements k .. k + n of the output at `base`: in place if contiguous and of type V, else in
  // `buffer`.
  __attribute__((noinline)) const V* stage(const std::byte* base, const ReduceWalk& p, int64_t k,
                                           int64_t n, V* buffer) const {
    if (p.reduce.rank == 1) {
      const std::byte* const x = base + k * p.down() * size;
      if (p.down() == 1 && direct) return reinterpret_cast<const V*>(x);
      row(x, p.down(), n, buffer);
      return buffer;
    }
    for_rows(p.reduce.path(0), k, n, [&](int64_t at, int64_t i, int64_t length, int64_t stride) {
      row(base + at * size, stride, length, buffer + i);
    });
    return buffer;
  }
};
template <class T, class V>
void convert_row(const std::byte* x, int64_t stride, int64_t n, V* values) {
  const T* const from = reinterpret_cast<const T*>(x);
  if (stride == 1) return convert_run(from, values, n);
#pragma GCC unroll 8
  for (int64_t i = 0; i < n; ++i) values[i] = convert<V>(from[i * stride]);
}
template <class T, class V>
Source<V> source_of(const View& v) {
  return {v.as<const std::byte>(), sizeof(T), std::is_same_v<T, V>, convert_row<T, V>};
}

// Stores results, computed as V, in their dtype.
template <class V>
struct Sink {
  std::byte* data;
  void (*store)(const V* values, std::byte* out, int64_t at, int64_t apart, int64_t n);
};
template <class Out, class V>
void store_results(const V* values, std::byte* out, int64_t at, int64_t apart, int64_t n) {
  Out* const to = reinterpret_cast<Out*>(out) + at;
  if (apart == 1) return convert_run(values, to, n);
  for (int64_t i = 0; i < n; ++i) to[i * apart] = convert<Out>(values[i]);
}

// Whether to reduce down the columns: neighbouring outputs are contiguous in memory, or have too
// few elements to vectorize each alone.
LOCUS_HD bool by_columns(const ReduceWalk& p) {
  return p.width() >= 8 && ((p.across() == 1 && p.down() != 1) || p.count < 16);
}

// Whether all threads share one output, because the outputs alone would leave some idle.
LOCUS_HD bool splits_outputs(int64_t outputs, int64_t count) {
  return outputs < 2 * num_threads() && count > 4 * kBlock;
}

LOCUS_HD int64_t grain(int64_t work_each) {
  return work_each >= kParallelWork ? 1 : kParallelWork / (work_each > 0 ? work_each : 1);
}

}  // namespace
}  // namespace locus::LOCUS_ISA_NAMESPACE
