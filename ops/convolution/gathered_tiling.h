// How a gathered product (gathered.h) is cut. A block of 256 threads computes a tile of rows x
// columns of c, for a part of the depth.
#pragma once

#include <cstdint>
#include <iterator>
#include <span>

#include <locus/ops/kernel/types.h>

namespace locus::cuda {

// Longer sums are sums of parts, so the error does not grow with length.
inline constexpr int64_t kLongestSum = 4096;

// Clock cycles per step on an H200: for a block that shares its multiprocessor, and for one alone.
struct GatheredTile {
  int rows, columns;
  int depth;  // of a step
  int shared, alone;
};
inline constexpr GatheredTile kCoreTiles[] = {{128, 128, 16, 5500, 7000},
                                              {64, 128, 16, 3900, 5000},
                                              {32, 128, 16, 2900, 3800},
                                              {64, 64, 16, 2250, 3200},
                                              {32, 32, 32, 1900, 2500}};
inline constexpr GatheredTile kF64Tiles[] = {{64, 64, 16, 4500, 5500}};
inline constexpr GatheredTile kTensorTiles[] = {{128, 128, 32, 8000, 9900},
                                                {64, 64, 32, 3400, 4000}};  // 16 bits

struct GatheredTiling {
  GatheredTile tile = {};
  int splits = 1, k_split = 0;  // of the deepest product
  int64_t tiles = 1;            // of the largest product
  int64_t blocks = 1;           // with work
};

// A product's columns and depth.
struct GatheredSize {
  int64_t n = 0, k = 0;
};
inline int64_t gathered_tiles(const GatheredTile& t, int64_t m, int64_t n) {
  return ((m + t.rows - 1) / t.rows) * ((n + t.columns - 1) / t.columns);
}
// Parts of a depth, at least one.
LOCUS_HD int64_t gathered_splits(int64_t k, int64_t k_split) {
  return k > k_split ? (k - 1) / k_split + 1 : 1;
}

inline GatheredTiling cut_gathered(const GatheredTile& t, int64_t m,
                                   std::span<const GatheredSize> products, int64_t groups,
                                   int64_t splits) {
  GatheredTiling p;
  p.tile = t;
  int64_t n = 0, k = 0;
  for (const GatheredSize& s : products) {
    n = s.n > n ? s.n : n;
    k = s.k > k ? s.k : k;
  }
  const int64_t steps = k > t.depth ? (k + t.depth - 1) / t.depth : 1;
  if (splits > steps) splits = steps;
  const int64_t each = (steps + splits - 1) / splits;
  p.k_split = static_cast<int>(each * t.depth);
  p.splits = static_cast<int>((steps + each - 1) / each);
  p.tiles = gathered_tiles(t, m, n);
  p.blocks = 0;
  for (const GatheredSize& s : products)
    p.blocks += groups * gathered_tiles(t, m, s.n) * gathered_splits(s.k, p.k_split);
  return p;
}

// Clock cycles, fitted to these measurements.
inline int64_t gathered_cost(const GatheredTiling& p, int multiprocessors) {
  constexpr int64_t kStart = 9000, kJoin = 6000, kPart = 560;
  const int64_t waves = (p.blocks + multiprocessors - 1) / multiprocessors;
  const int64_t step = waves > 1 ? waves * p.tile.shared : p.tile.alone;
  const int64_t outputs = int64_t{p.tile.rows} * p.tile.columns;
  const int64_t ending = p.splits > 1 ? kJoin + kPart * p.splits * (outputs + 4095) / 4096 : 0;
  return kStart + p.k_split / p.tile.depth * step + ending;
}

// The limit of parts for short sums. Memory holds all parts; a grid has at most 65535.
inline constexpr int64_t kMostParts = 1024;

// Products of m rows, for all groups. A sum is at most `longest` deep, unless that needs too many
// parts, or counters for too many tiles.
inline GatheredTiling choose_gathered_tiling(std::span<const GatheredTile> tiles, int64_t m,
                                             std::span<const GatheredSize> products, int64_t groups,
                                             int64_t longest, int multiprocessors,
                                             int64_t counters) {
  GatheredTiling best;
  int64_t lowest = INT64_MAX, k = 0;
  for (const GatheredSize& s : products) k = s.k > k ? s.k : k;
  for (const GatheredTile& tile : tiles) {
    GatheredTiling whole = cut_gathered(tile, m, products, groups, 1);
    const bool countable = whole.tiles * groups * std::ssize(products) <= counters;
    int64_t work = 0;  // depth of all tiles
    for (const GatheredSize& s : products) work += groups * gathered_tiles(tile, m, s.n) * s.k;
    if (k > longest && countable) {
      const int64_t parts = (k + longest - 1) / longest;
      whole = cut_gathered(tile, m, products, groups, parts < kMostParts ? parts : kMostParts);
    }
    for (int fill = 0; fill < 3; ++fill) {
      GatheredTiling p = whole;
      if (fill > 0) {
        const int64_t splits = work > 0 ? k * fill * multiprocessors / work : 0;
        if (splits <= p.splits || !countable) continue;
        p = cut_gathered(tile, m, products, groups, splits);
      }
      const int64_t c = gathered_cost(p, multiprocessors);
      if (c < lowest) {
        lowest = c;
        best = p;
      }
    }
  }
  return best;
}

}  // namespace locus::cuda
