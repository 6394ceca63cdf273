// Stable sorts of one contiguous row on the host: LSD radix sort by the bits that vary, buckets of
// one digit first if the row is long, and ranks by comparison for short rows. Included once per
// instruction set.
//
// A stable sort has one result. So the number of ranges (threads) does not change it.
#pragma once

#include <locus/devices/cpu.h>
#include <locus/ops/order/order_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int kDigitBits = 11;                        // of a pass over a long row
constexpr int64_t kTable = int64_t{1} << kDigitBits;  // counts of a range
constexpr int64_t kRanked = 48;                       // longest row that is sorted by ranks
constexpr int64_t kFewBits = 2048;                    // shorter rows have digits of 8 bits
constexpr int64_t kBucketed = 1 << 16;                // shorter rows fit a cache
constexpr int64_t kMaxRanges = 16;                    // of a row, each for a thread

// Calls f(range, begin, end) for `ranges` parts of n elements, on as many threads.
template <class F>
LOCUS_HD void each_range(int64_t n, int64_t ranges, const F& f) {
  parallel_ranges(ranges, 1, [&](int64_t r, int64_t last) {
    for (; r < last; ++r) f(r, n * r / ranges, n * (r + 1) / ranges);
  });
}

// A key and a position. Sorted by key; position breaks no ties, because sorts are stable.
struct NarrowEntry {  // keys and positions of 32 bits
  uint64_t bits;

  static LOCUS_HD NarrowEntry of(uint64_t key, int64_t at) {
    return {key << 32 | static_cast<uint64_t>(at)};
  }
  LOCUS_HD uint64_t key() const { return bits >> 32; }
  LOCUS_HD int64_t at() const { return static_cast<int64_t>(bits & 0xffffffff); }
};
struct WideEntry {
  uint64_t k;
  int64_t position;

  static LOCUS_HD WideEntry of(uint64_t key, int64_t at) { return {key, at}; }
  LOCUS_HD uint64_t key() const { return k; }
  LOCUS_HD int64_t at() const { return position; }
};

// The digits of a sort: windows that cover all bits in which keys differ.
struct RadixPlan {
  int passes = 0;
  int shift[16] = {}, bits[16] = {};

  RadixPlan(uint64_t varying, int64_t n) {
    const int most = n < kFewBits ? 8 : kDigitBits;
    while (varying != 0) {
      const int low = __builtin_ctzll(varying), width = 64 - __builtin_clzll(varying) - low;
      const int left = (width + most - 1) / most, taken = (width + left - 1) / left;
      shift[passes] = low;
      bits[passes++] = taken;
      varying &= taken + low >= 64 ? 0 : ~uint64_t{0} << (low + taken);
    }
  }
};

struct Survey {
  uint64_t varying = 0;  // bits that are not the same in all keys
  bool sorted = true;
};
template <class W, class Key>
__attribute__((noinline)) Survey survey_part(const W* x, int64_t begin, int64_t end,
                                             const Key key) {
  const W first = key(x[0]);
  W varying = 0, falls = 0;
  for (int64_t i = begin; i < end; ++i) {
    const W k = key(x[i]), before = key(x[i - 1]);
    varying |= static_cast<W>(k ^ first);
    falls |= static_cast<W>(before > k);
  }
  return {varying, falls == 0};
}
template <class W, class Key>
Survey survey(const W* x, int64_t n, const Key& key, int64_t ranges) {
  Survey part[kMaxRanges];
  each_range(n - 1, ranges, [&](int64_t r, int64_t begin, int64_t end) {
    part[r] = survey_part(x, begin + 1, end + 1, key);
  });
  for (int64_t r = 1; r < ranges; ++r) {
    part[0].varying |= part[r].varying;
    part[0].sorted &= part[r].sorted;
  }
  return part[0];
}

// f(i, digit(i)) for i in [begin, end). Digits are computed a block ahead, in vector code.
template <class Digit, class F>
LOCUS_HD void each_digit(int64_t begin, int64_t end, const Digit digit, const F f) {
  constexpr int64_t kBlock = 256;
  uint32_t digits[kBlock];
  for (; begin < end; begin += kBlock) {
    const int64_t n = end - begin < kBlock ? end - begin : kBlock;
    for (int64_t j = 0; j < n; ++j) digits[j] = static_cast<uint32_t>(digit(begin + j));
    for (int64_t j = 0; j < n; ++j) f(begin + j, digits[j]);
  }
}

// One pass: element i goes behind all with a smaller digit and all before it with the same one.
// digit(i) is below `digits`; write(to, i) moves the element. tables: kTable numbers a range. The
// loops work on copies of the functions, which no store can change.
template <class Digit, class Write>
void radix_pass(int64_t n, int64_t digits, int64_t ranges, int64_t* tables, const Digit& digit,
                const Write& write) {
  each_range(n, ranges, [=](int64_t r, int64_t begin, int64_t end) {
    int64_t* const count = tables + r * kTable;
    for (int64_t d = 0; d < digits; ++d) count[d] = 0;
    each_digit(begin, end, digit, [count](int64_t, uint32_t d) { ++count[d]; });
  });
  int64_t before = 0;
  for (int64_t d = 0; d < digits; ++d)
    for (int64_t r = 0; r < ranges; ++r) {
      const int64_t own = tables[r * kTable + d];
      tables[r * kTable + d] = before;
      before += own;
    }
  each_range(n, ranges, [=](int64_t r, int64_t begin, int64_t end) {
    int64_t* const at = tables + r * kTable;
    each_digit(begin, end, digit, [at, write](int64_t i, uint32_t d) { write(at[d]++, i); });
  });
}

// rank[i]: the position of element i of a short row after a stable sort.
template <class W, class Key>
__attribute__((noinline)) void ranks_of(const W* x, int64_t n, const Key key, int32_t* rank) {
  using K = If<sizeof(W) == 8, int64_t, int32_t>;  // signed: vectors compare signed numbers
  constexpr K kLowest = static_cast<K>(K{1} << (8 * sizeof(K) - 1));
  alignas(64) K keys[kRanked], counts[kRanked];
  for (int64_t i = 0; i < n; ++i) {
    using U = If<sizeof(W) == 8, uint64_t, uint32_t>;
    keys[i] = static_cast<K>(static_cast<U>(key(x[i])) ^ static_cast<U>(kLowest));
    counts[i] = 0;
  }
  for (int64_t j = 0; j < n; ++j) {
    const K k = keys[j];
    for (int64_t i = 0; i < j; ++i) counts[i] += k < keys[i];
    for (int64_t i = j + 1; i < n; ++i) counts[i] += k <= keys[i];
  }
  for (int64_t i = 0; i < n; ++i) rank[i] = static_cast<int32_t>(counts[i]);
}

// Values of one byte are counted.
template <class Key>
void count_bytes(const uint8_t* x, uint8_t* y, int64_t n, const Key& key, int64_t ranges,
                 int64_t* tables) {
  each_range(n, ranges, [&](int64_t r, int64_t i, int64_t end) {
    int64_t* const count = tables + r * kTable;  // 4 counts a value: no two in a row wait
    for (int64_t d = 0; d < 1024; ++d) count[d] = 0;
    for (; i + 4 <= end; i += 4)
      for (int64_t k = 0; k < 4; ++k) ++count[k * 256 + x[i + k]];
    for (; i < end; ++i) ++count[x[i]];
  });
  for (int d = 0; d < 256; ++d) {
    const auto value = static_cast<uint8_t>(key(static_cast<uint8_t>(d)));  // its own inverse
    for (int64_t r = 0; r < ranges; ++r)
      for (int64_t k = 0; k < 4; ++k) {
        const int64_t own = tables[r * kTable + k * 256 + value];
        __builtin_memset(y, value, static_cast<size_t>(own));
        y += own;
      }
  }
}

template <class W, class Key>
void sort_row(const W* x, W* y, int64_t n, const Key& key, int64_t ranges, W* spare,
              int64_t* tables);

// y: x sorted by the digit of `bits` above `shift`, then bucket by bucket. All ranges share a large
// bucket.
template <class W, class Key>
__attribute__((noinline)) void sort_buckets(const W* x, W* y, int64_t n, const Key& key, int shift,
                                            int bits, int64_t ranges, W* spare, int64_t* tables) {
  const int64_t digits = int64_t{1} << bits;
  radix_pass(
      n, digits, ranges, tables,
      [=](int64_t i) { return static_cast<int64_t>(key(x[i]) >> shift) & (digits - 1); },
      [=](int64_t at, int64_t i) { spare[at] = x[i]; });
  int64_t begin[kTable + 1];
  begin[0] = 0;
  __builtin_memcpy(begin + 1, tables + (ranges - 1) * kTable,
                   static_cast<size_t>(digits) * sizeof *begin);
  const auto sort_bucket = [&](int64_t d, int64_t shares, int64_t* counts) {
    const int64_t at = begin[d], size = begin[d + 1] - at;
    if (size == 1) y[at] = spare[at];
    if (size > 1) sort_row(spare + at, y + at, size, key, shares, spare + at, counts);
  };
  const int64_t large = ranges > 1 ? n / 4 : n;
  for (int64_t d = 0; d < digits; ++d)
    if (begin[d + 1] - begin[d] > large) sort_bucket(d, ranges, tables);
  each_range(n, ranges, [&](int64_t r, int64_t first, int64_t end) {
    for (int64_t d = 0; d < digits; ++d)
      if (begin[d] >= first && begin[d] < end && begin[d + 1] - begin[d] <= large)
        sort_bucket(d, 1, tables + r * kTable);
  });
}

// y: x sorted. spare: n values, which may be x.
template <class W, class Key>
__attribute__((noinline)) void sort_row(const W* x, W* y, int64_t n, const Key& key, int64_t ranges,
                                        W* spare, int64_t* tables) {
  if (n <= kRanked) {
    int32_t rank[kRanked];
    ranks_of(x, n, key, rank);
    for (int64_t i = 0; i < n; ++i) y[rank[i]] = x[i];
    return;
  }
  if constexpr (sizeof(W) == 1) return count_bytes(x, y, n, key, ranges, tables);
  const Survey s = survey(x, n, key, ranges);
  if (s.sorted) {
    __builtin_memcpy(y, x, static_cast<size_t>(n) * sizeof(W));
    return;
  }
  const RadixPlan plan(s.varying, n);
  const int most = n < kFewBits ? 8 : kDigitBits;
  const bool bucketed = plan.passes > (n < kBucketed ? 3 : 1);
  const W* from = x;
  if (x == spare && (bucketed || plan.passes % 2 == 0)) {  // the first pass writes to `spare`
    __builtin_memcpy(y, x, static_cast<size_t>(n) * sizeof(W));
    from = y;
  }
  if (bucketed)
    return sort_buckets(from, y, n, key, 64 - __builtin_clzll(s.varying) - most, most, ranges,
                        spare, tables);
  for (int p = 0; p < plan.passes; ++p) {
    W* const to = (plan.passes - p) % 2 ? y : spare;
    const W mask = static_cast<W>((W{1} << plan.bits[p]) - 1);
    const int shift = plan.shift[p];
    radix_pass(
        n, int64_t{1} << plan.bits[p], ranges, tables,
        [=](int64_t i) { return static_cast<W>(key(from[i]) >> shift) & mask; },
        [=](int64_t at, int64_t i) { to[at] = from[i]; });
    from = to;
  }
}

// Passes `first` and later of a sort of entries. The last one calls write(to, entry) and reads b,
// unless it is also the first. a and b: n entries each.
template <class E, class Write>
__attribute__((noinline)) void sort_entries(const E* from, int64_t n, const RadixPlan& plan,
                                            int first, int64_t ranges, E* a, E* b, int64_t* tables,
                                            const Write& write) {
  for (int p = first; p < plan.passes; ++p) {
    const uint64_t mask = (uint64_t{1} << plan.bits[p]) - 1;
    const int shift = plan.shift[p];
    const auto digit = [=](int64_t i) { return from[i].key() >> shift & mask; };
    const int64_t digits = int64_t{1} << plan.bits[p];
    if (p + 1 == plan.passes)
      return radix_pass(n, digits, ranges, tables, digit,
                        [=](int64_t at, int64_t i) { write(at, from[i]); });
    E* const to = (plan.passes - p) % 2 ? a : b;
    radix_pass(n, digits, ranges, tables, digit, [=](int64_t at, int64_t i) { to[at] = from[i]; });
    from = to;
  }
}

// The positions of x's elements in sorted order. spare: n entries, or 2 n if E is wider than ids.
template <class E, class W, class Key>
__attribute__((noinline)) void argsort_row(const W* x, int64_t* ids, int64_t n, const Key& key,
                                           int64_t ranges, E* spare, int64_t* tables) {
  if (n <= kRanked) {
    int32_t rank[kRanked];
    ranks_of(x, n, key, rank);
    for (int64_t i = 0; i < n; ++i) ids[rank[i]] = i;
    return;
  }
  const Survey s = survey(x, n, key, ranges);
  if (s.sorted) {
    for (int64_t i = 0; i < n; ++i) ids[i] = i;
    return;
  }
  const RadixPlan plan(s.varying, n);
  // The last pass reads `b`, so that it may write over `a`.
  E* const a = sizeof(E) == sizeof *ids ? reinterpret_cast<E*>(ids) : spare + n;
  E* const b = spare;
  const uint64_t mask = (uint64_t{1} << plan.bits[0]) - 1;
  const int shift = plan.shift[0];
  const Key of = key;
  const auto digit = [=](int64_t i) { return static_cast<uint64_t>(of(x[i])) >> shift & mask; };
  const int64_t digits = int64_t{1} << plan.bits[0];
  if (plan.passes == 1)
    return radix_pass(n, digits, ranges, tables, digit,
                      [=](int64_t at, int64_t i) { ids[at] = i; });
  E* const to = plan.passes % 2 ? a : b;
  radix_pass(n, digits, ranges, tables, digit,
             [=](int64_t at, int64_t i) { to[at] = E::of(of(x[i]), i); });
  sort_entries(to, n, plan, 1, ranges, a, b, tables,
               [=](int64_t at, const E& e) { ids[at] = e.at(); });
}

}  // namespace
}  // namespace locus::LOCUS_ISA_NAMESPACE
