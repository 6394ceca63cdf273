// The elements at some positions of a sorted row, on the host. Included once per instruction set.
#pragma once

#include <locus/ops/order/select_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

// The number of keys in [begin, end) that are at most `key`, and the least key above it.
template <class W>
struct Above {
  int64_t not_above = 0;
  W least = static_cast<W>(~W{0});
};
template <class W, class Key>
__attribute__((noinline)) Above<W> above(const W* x, int64_t begin, int64_t end, const Key of,
                                         W key) {
  constexpr int64_t kRun = 128;  // counts that one byte holds
  Above<W> found;
  const auto add = [&](int64_t i, int64_t n) {
    W count = 0, least = static_cast<W>(~W{0});
    for (int64_t j = 0; j < n; ++j) {
      const W k = of(x[i + j]);
      const W below = static_cast<W>(-static_cast<W>(k <= key));  // all bits, or none
      count = static_cast<W>(count - below);
      const W candidate = static_cast<W>(k | below);
      least = candidate < least ? candidate : least;
    }
    found.not_above += static_cast<int64_t>(count);
    if (least < found.least) found.least = least;
  };
  for (; begin + kRun <= end; begin += kRun) add(begin, kRun);
  add(begin, end - begin);
  return found;
}
// The key at position `kth`, where `key` is the one at position kth - 1.
template <class W, class Key>
W next_key(const W* x, int64_t n, int64_t kth, W key, const Key& of, int64_t ranges) {
  Above<W> part[kMaxRanges];
  each_range(n, ranges, [&](int64_t r, int64_t begin, int64_t end) {
    part[r] = above(x, begin, end, of, key);
  });
  for (int64_t r = 1; r < ranges; ++r) {
    part[0].not_above += part[r].not_above;
    if (part[r].least < part[0].least) part[0].least = part[r].least;
  }
  return part[0].not_above > kth ? key : part[0].least;
}

// The elements at p's rising positions. Zeros have no sign. spare and tables: as for select_key().
template <class W, class Key>
void select_row(const W* x, int64_t n, const PartitionAttrs& p, const Key& key, int64_t ranges,
                W* spare, int64_t* tables, W* out) {
  if (n <= kRanked) {
    int32_t rank[kRanked];
    ranks_of(x, n, key, rank);
    for (int64_t i = 0; i < n; ++i)
      for (int j = 0; j < p.n; ++j)
        if (rank[i] == p.kth[j]) out[j] = x[i];
    return;
  }
  if constexpr (sizeof(W) == 1) {  // sorted by counting
    sort_row(x, spare, n, key, ranges, spare, tables);
    for (int j = 0; j < p.n; ++j) out[j] = spare[p.kth[j]];
    return;
  }
  W last = 0;
  for (int j = 0; j < p.n; ++j) {
    last = j > 0 && p.kth[j] == p.kth[j - 1] + 1
               ? next_key(x, n, p.kth[j], last, key, ranges)
               : select_key(x, n, p.kth[j], key, ranges, spare, tables);
    out[j] = key.element(last);
  }
}

}  // namespace
}  // namespace locus::LOCUS_ISA_NAMESPACE
