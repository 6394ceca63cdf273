// The first elements of one contiguous row, and partitions of a row, on the host. Included once per
// instruction set.
#pragma once

#include <locus/ops/order/radix_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

// The first k entries of elements [begin, end) in sorted order, k <= end - begin. Candidates are
// collected in `buffer`; elements that cannot be among the first k are skipped in blocks. buffer
// and spare: `capacity` entries, more than k.
template <class E, class W, class Key>
__attribute__((noinline)) void first_entries(const W* x, int64_t begin, int64_t end, int64_t k,
                                             const Key& key, E* buffer, E* spare, int64_t capacity,
                                             int64_t* tables) {
  constexpr int64_t kBlock = 32;
  int64_t size = 0, i = begin;
  const auto cut = [&] {  // sorts the candidates and keeps k
    const uint64_t first = buffer[0].key();
    uint64_t varying = 0;
    for (int64_t j = 1; j < size; ++j) varying |= buffer[j].key() ^ first;
    const RadixPlan plan(varying, size);
    E* const from = plan.passes % 2 ? spare : buffer;  // the last pass writes to `buffer`
    if (from == spare) __builtin_memcpy(spare, buffer, static_cast<size_t>(size) * sizeof(E));
    sort_entries(static_cast<const E*>(from), size, plan, 0, 1, buffer, spare, tables,
                 [=](int64_t at, const E& e) { buffer[at] = e; });
    if (size > k) size = k;
  };
  for (; i < end && size < capacity; ++i) buffer[size++] = E::of(key(x[i]), i);
  cut();
  while (i < end) {
    const W last = static_cast<W>(buffer[k - 1].key());
    const int64_t blocks = (end - i) / kBlock;
    for (int64_t b = 0; b < blocks && size + kBlock <= capacity; ++b, i += kBlock) {
      W any = 0;
      for (int64_t j = 0; j < kBlock; ++j) any |= static_cast<W>(key(x[i + j]) < last);
      if (!any) continue;
      for (int64_t j = i; j < i + kBlock; ++j)
        if (const W own = key(x[j]); own < last) buffer[size++] = E::of(own, j);
    }
    if (blocks == 0)
      for (; i < end; ++i)
        if (const W own = key(x[i]); own < last) buffer[size++] = E::of(own, i);
    cut();
  }
}

// Entries of scratch memory that first_of_row() needs for each range, twice.
LOCUS_HD int64_t candidates(int64_t k) { return 4 * k + 1024; }

// The first k elements of a row in sorted order.
template <class E, class W, class Key>
__attribute__((noinline)) void first_of_row(const W* x, W* y, int64_t* ids, int64_t n, int64_t k,
                                            const Key& key, int64_t ranges, E* memory,
                                            int64_t* tables) {
  const int64_t capacity = candidates(k);
  each_range(n, ranges, [&](int64_t r, int64_t begin, int64_t end) {
    E* const buffer = memory + 2 * r * capacity;
    first_entries(x, begin, end, k, key, buffer, buffer + capacity, capacity, tables + r * kTable);
  });
  // Ranges follow one another, so ties stay in order.
  while (ranges > 1) {
    const int64_t pairs = ranges / 2;
    for (int64_t r = 0; r < pairs; ++r) {
      E* const to = memory + 2 * r * capacity;
      const E *a = memory + 4 * r * capacity, *b = a + 2 * capacity;
      E* const merged = memory + 4 * r * capacity + capacity;
      for (int64_t j = 0; j < k; ++j) merged[j] = b->key() < a->key() ? *b++ : *a++;
      for (int64_t j = 0; j < k; ++j) to[j] = merged[j];
    }
    if (ranges % 2)
      __builtin_memcpy(memory + 2 * pairs * capacity, memory + 2 * (ranges - 1) * capacity,
                       static_cast<size_t>(k) * sizeof(E));
    ranges = pairs + ranges % 2;
  }
  for (int64_t j = 0; j < k; ++j) {
    ids[j] = memory[j].at();
    y[j] = x[ids[j]];
  }
}

// Moves what ranges of n elements kept at their beginnings together. Returns the number.
template <class W>
int64_t joined(W* x, int64_t n, int64_t ranges, const int64_t* kept) {
  int64_t m = kept[0];
  for (int64_t r = 1; r < ranges; ++r) {
    __builtin_memmove(x + m, x + n * r / ranges, static_cast<size_t>(kept[r]) * sizeof(W));
    m += kept[r];
  }
  return m;
}

// Keeps the keys whose digit, `bits` above `shift`, is that of the key at position `kth`: `to` gets
// them, and `kth` becomes the position among them. `to` may be `from` if there is one range.
template <class W, class Key>
__attribute__((noinline)) int64_t narrowed(const W* from, int64_t n, int64_t& kth, const Key& key,
                                           int shift, int bits, int64_t ranges, W* to,
                                           int64_t* tables) {
  const int64_t digits = int64_t{1} << bits;
  const auto digit_of = [shift, mask = static_cast<uint64_t>(digits - 1)](W k) {
    return static_cast<int64_t>(static_cast<uint64_t>(k) >> shift & mask);
  };
  each_range(n, ranges, [=](int64_t r, int64_t begin, int64_t end) {
    int64_t* const count = tables + r * kTable;
    for (int64_t d = 0; d < digits; ++d) count[d] = 0;
    each_digit(
        begin, end, [=](int64_t i) { return digit_of(key(from[i])); },
        [count](int64_t, uint32_t d) { ++count[d]; });
  });
  int64_t digit = 0;
  for (int64_t own;; ++digit, kth -= own) {
    own = 0;
    for (int64_t r = 0; r < ranges; ++r) own += tables[r * kTable + digit];
    if (kth < own) break;
  }
  int64_t kept[kMaxRanges] = {};
  each_range(n, ranges, [=, &kept](int64_t r, int64_t i, int64_t end) {
    const Key of = key;
    const auto get = digit_of;
    W* const own = to + i;  // nothing is written before it is read
    int64_t m = 0;
    for (; i < end; ++i) {
      const W k = of(from[i]);
      own[m] = k;
      m += get(k) == digit;
    }
    kept[r] = m;
  });
  return joined(to, n, ranges, kept);
}

// Keys of elements [begin, end) that lie in [low, high]. Adds the number of lower ones to `below`.
template <class W, class Key>
__attribute__((noinline)) int64_t keys_within(const W* x, int64_t begin, int64_t end, const Key key,
                                              W low, W high, W* to, int64_t& below) {
  constexpr int64_t kBlock = 128;  // counts that one byte holds
  const W width = static_cast<W>(high - low);
  int64_t m = 0, less = 0;
  W keys[kBlock];
  for (; begin < end; begin += kBlock) {
    const int64_t n = end - begin < kBlock ? end - begin : kBlock;
    W lower = 0;
    for (int64_t j = 0; j < n; ++j) {
      keys[j] = key(x[begin + j]);
      lower = static_cast<W>(lower + (keys[j] < low));
    }
    less += static_cast<int64_t>(lower);
    for (int64_t j = 0; j < n; ++j) {  // no branches
      to[m] = keys[j];
      m += static_cast<W>(keys[j] - low) <= width;
    }
  }
  below = less;
  return m;
}

template <class W>
struct SameKey {
  LOCUS_HD W operator()(W k) const { return k; }
};

// The key at position `kth` of the sorted keys, which are written over.
template <class W>
__attribute__((noinline)) W select_of_keys(W* keys, int64_t n, int64_t kth, int64_t* tables) {
  while (true) {
    uint64_t varying = 0;
    for (int64_t i = 1; i < n; ++i) varying |= static_cast<W>(keys[i] ^ keys[0]);
    if (varying == 0) return keys[0];
    const int top = 64 - __builtin_clzll(varying), most = n < kFewBits ? 8 : kDigitBits;
    const int shift = top > most ? top - most : 0;
    n = narrowed(keys, n, kth, SameKey<W>(), shift, top - shift, 1, keys, tables);
  }
}

// The key at position `kth` of the sorted row. spare: n values.
template <class W, class Key>
__attribute__((noinline)) W select_key(const W* x, int64_t n, int64_t kth, const Key& key,
                                       int64_t ranges, W* spare, int64_t* tables) {
  constexpr int64_t kSample = 8192, kMargin = 192;
  if (sizeof(W) > 1 && n >= 4 * kSample) {  // a sample tells where the key lies, nearly always
    const int64_t step = n / kSample;
    for (int64_t i = 0; i < kSample; ++i) spare[kSample + i] = key(x[i * step]);
    sort_row(spare + kSample, spare, kSample, KeyMap<W, false>(), 1, spare + 2 * kSample, tables);
    const int64_t near = static_cast<int64_t>(static_cast<double>(kth) / static_cast<double>(n) *
                                              static_cast<double>(kSample));
    int64_t first = near < kMargin ? 0 : near - kMargin, last = near + kMargin;
    const W low = first == 0 ? W{0} : spare[first];
    const W high = last >= kSample ? static_cast<W>(~W{0}) : spare[last];
    if (last >= kSample) last = kSample - 1;
    while (first > 0 && spare[first - 1] == low) --first;
    while (last + 1 < kSample && spare[last + 1] == high) ++last;
    if (last - first < kSample / 4 || low == high) {
      int64_t kept[kMaxRanges] = {}, below[kMaxRanges] = {}, less = 0;
      each_range(n, ranges, [&](int64_t r, int64_t begin, int64_t end) {
        kept[r] = keys_within(x, begin, end, key, low, high, spare + begin, below[r]);
      });
      for (int64_t r = 0; r < ranges; ++r) less += below[r];
      const int64_t m = joined(spare, n, ranges, kept);
      if (kth >= less && kth < less + m)
        return low == high ? low : select_of_keys(spare, m, kth - less, tables);
    }
  }
  const uint64_t varying = n > 1 ? survey(x, n, key, ranges).varying : 0;
  if (varying == 0) return key(x[0]);
  const int top = 64 - __builtin_clzll(varying), most = n < kFewBits ? 8 : kDigitBits;
  const int shift = top > most ? top - most : 0;
  const int64_t m = narrowed(x, n, kth, key, shift, top - shift, ranges, spare, tables);
  return select_of_keys(spare, m, kth, tables);
}

// Writes of(i) for the elements i of a row: those below the key come first, then those equal to it,
// then those above, each in x's order.
template <class W, class Key, class V, class Of>
void partition_at(const W* x, int64_t n, W pivot, const Key& key, int64_t ranges, V* to,
                  const Of& of) {
  int64_t below[kMaxRanges], equal[kMaxRanges];
  each_range(n, ranges, [=, &below, &equal](int64_t r, int64_t i, int64_t end) {
    constexpr int64_t kRun = 128;  // counts that one byte holds
    const Key key_of = key;
    int64_t less = 0, same = 0;
    while (i < end) {
      const int64_t stop = end - i < kRun ? end : i + kRun;
      W a = 0, b = 0;
      for (; i < stop; ++i) {
        const W k = key_of(x[i]);
        a = static_cast<W>(a + (k < pivot));
        b = static_cast<W>(b + (k == pivot));
      }
      less += static_cast<int64_t>(a);
      same += static_cast<int64_t>(b);
    }
    below[r] = less;
    equal[r] = same;
  });
  int64_t at_less[kMaxRanges], at_same[kMaxRanges], at_more[kMaxRanges], less = 0, same = 0;
  for (int64_t r = 0; r < ranges; ++r) {
    at_less[r] = less;
    less += below[r];
  }
  for (int64_t r = 0; r < ranges; ++r) {
    at_same[r] = less + same;
    same += equal[r];
  }
  for (int64_t r = 0; r < ranges; ++r)
    at_more[r] = n * r / ranges + less + same - at_less[r] - (at_same[r] - less);
  each_range(n, ranges, [=](int64_t r, int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 256;
    uint8_t side[kBlock];
    V less_of[kBlock], same_of[kBlock], more_of[kBlock];
    V *less_to = to + at_less[r], *same_to = to + at_same[r], *more_to = to + at_more[r];
    const auto append = [](V*& end_of, const V* values, int64_t count) {
      __builtin_memcpy(end_of, values, static_cast<size_t>(count) * sizeof(V));
      end_of += count;
    };
    for (; begin < end; begin += kBlock) {
      const int64_t size = end - begin < kBlock ? end - begin : kBlock;
      for (int64_t j = 0; j < size; ++j) {
        const W k = key(x[begin + j]);
        side[j] = static_cast<uint8_t>((k > pivot) + (k >= pivot));
      }
      int64_t a = 0, b = 0, c = 0;
      for (int64_t j = 0; j < size; ++j) {  // no branches
        less_of[a] = same_of[b] = more_of[c] = of(begin + j);
        a += side[j] == 0;
        b += side[j] == 1;
        c += side[j] == 2;
      }
      append(less_to, less_of, a);
      append(same_to, same_of, b);
      append(more_to, more_of, c);
    }
  });
}

// Partitions a row at several positions.
template <class W, class Key, class V, class Of>
void partition_row(const W* x, int64_t n, const PartitionAttrs& p, const Key& key, int64_t ranges,
                   W* spare, int64_t* tables, V* to, const Of& of) {
  W pivot[kMaxKth];
  int64_t few[2 * kMaxKth + 1];  // counts of a short row
  if (n <= kRanked) {
    int32_t rank[kRanked];
    ranks_of(x, n, key, rank);
    for (int j = 0; j < p.n; ++j)
      for (int64_t i = 0; i < n; ++i)
        if (rank[i] == p.kth[j]) pivot[j] = key(x[i]);
    tables = few;
  } else {
    for (int j = 0; j < p.n; ++j) pivot[j] = select_key(x, n, p.kth[j], key, ranges, spare, tables);
  }
  if (p.n == 1) return partition_at(x, n, pivot[0], key, ranges, to, of);
  radix_pass(
      n, 2 * p.n + 1, ranges, tables,
      [&](int64_t i) {
        const W k = key(x[i]);
        int64_t place = 0;
        for (int j = 0; j < p.n; ++j) place += (k > pivot[j]) + (k >= pivot[j]);
        return place;
      },
      [=](int64_t at, int64_t i) { to[at] = of(i); });
}

}  // namespace
}  // namespace locus::LOCUS_ISA_NAMESPACE
