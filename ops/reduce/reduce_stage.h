// For the CPU kernels of reductions, included once per instruction set. Elements of any dtype and
// strides are converted into a row of the compute type and reduced there.
#pragma once

#include <locus/devices/cpu.h>
#include <locus/ops/reduce/reduction.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

using namespace reduction;

constexpr int64_t kBlock = 4096;            // elements accumulated in the block's type
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
template <class T>
Source<Promoted<T>> source_of(const View& v) {
  using V = Promoted<T>;
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

// n accumulators as arrays of words, so that loops over them vectorize.
template <class A, int64_t n>
class Lanes {
  using Word = If<std::is_class_v<A>, If<alignof(A) == 8, uint64_t, uint32_t>, A>;
  static constexpr int kWords = sizeof(A) / sizeof(Word);
  struct Words {
    Word word[kWords];
  };
  alignas(64) Word word_[kWords][n];

 public:
  LOCUS_HD A get(int64_t i) const {
    Words w;
    for (int k = 0; k < kWords; ++k) w.word[k] = word_[k][i];
    return __builtin_bit_cast(A, w);
  }
  LOCUS_HD void set(int64_t i, const A& a) {
    const Words w = __builtin_bit_cast(Words, a);
    for (int k = 0; k < kWords; ++k) word_[k][i] = w.word[k];
  }
};

// An index within a block, as wide as an element, for vector code.
template <class V>
using Index = std::conditional_t<sizeof(V) == 8, int64_t, int32_t>;
template <class R, class V>
using BlockAcc = typename R::template Acc<V, Index<V>>;

// Whether every element is `first`. Their spread is exactly 0: no square underflowed.
template <class V>
inline bool all_equal(const V* x, Index<V> n, V first) {
  Index<V> others = 0;
  for (Index<V> i = 0; i < n; ++i) others += x[i] != first;
  return others == 0;
}

// The order of additions depends only on n: kLanes accumulators, then a tree.
template <int kLanes, class R, class V>
inline BlockAcc<R, V> reduce_lanes(const R& r, const V* __restrict x, Index<V> n, V first) {
  using I = Index<V>;
  using A = BlockAcc<R, V>;
  Lanes<A, kLanes> lane;
  for (int i = 0; i < kLanes; ++i) lane.set(i, r.init(A()));
  I b = 0;
  I count = 1;
  for (; b + kLanes <= n; b += kLanes, ++count)
    for (I i = 0; i < kLanes; ++i)
      lane.set(i, added(r, lane.get(i), x[b + i], Position<V, I>{b + i, count, first}));
  for (I i = 0; b + i < n; ++i)
    lane.set(i, added(r, lane.get(i), x[b + i], Position<V, I>{b + i, count, first}));
  for (int w = kLanes / 2; w > 0; w /= 2)
    for (int i = 0; i < w; ++i) lane.set(i, r.combine(lane.get(i), lane.get(i + w)));
  return lane.get(0);
}

template <class R, class V>
[[maybe_unused]] __attribute__((noinline)) BlockAcc<R, V> reduce_block(const V* x, int64_t length,
                                                                       const R& r = R(),
                                                                       V first = V()) {
  using I = Index<V>;
  const I n = static_cast<I>(length);
  if constexpr (tries_simple<R, V, I>()) {
    const auto simple = r.simple();
    const auto acc = reduce_block(x, length, simple, first);
    bool kept = simple.kept(acc);
    if constexpr (R::kCentered) kept = kept || all_equal(x, n, first);
    if (kept) return r.from(acc, BlockAcc<R, V>());
  }
  if (n >= 128) return reduce_lanes<64>(r, x, n, first);
  if (n >= 16) return reduce_lanes<8>(r, x, n, first);
  BlockAcc<R, V> a = r.init(BlockAcc<R, V>());
  for (I i = 0; i < n; ++i) a = added(r, a, x[i], Position<V, I>{i, i + 1, first});
  return a;
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
