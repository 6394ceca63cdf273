// Elements of the compute type in memory, reduced on the host: one block, and the join of blocks.
// Included once per instruction set, and by code that is generated at run time. Free of the
// standard library.
#pragma once

#include <locus/ops/reduce/reduction.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

using namespace reduction;

constexpr int64_t kBlock = 4096;  // elements accumulated in the block's type

// n accumulators as arrays of words, so that loops over them vectorize.
template <class A, int64_t n>
class Lanes {
  using Word = If<__is_class(A), If<alignof(A) == 8, uint64_t, uint32_t>, A>;
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
using Index = If<sizeof(V) == 8, int64_t, int32_t>;
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

template <class R, class V>
using TotalAcc = typename R::template Acc<Widest<V>, int64_t>;

// Joins the result of a block that begins at element k.
template <class R, class V>
LOCUS_HD void join_one(const R& r, TotalAcc<R, V>& total, const BlockAcc<R, V>& part, int64_t k) {
  if constexpr (__is_class(BlockAcc<R, V>))
    total = r.combine(total, r.moved(part, k));
  else
    total = r.combine(total, static_cast<TotalAcc<R, V>>(part));
}

}  // namespace
}  // namespace locus::LOCUS_ISA_NAMESPACE
