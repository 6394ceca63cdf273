// How a gathered product (gathered.h) is cut: blocks of 256 threads, each a tile of rows x columns
// of c and a part of the depth.
#pragma once

#include <cstdint>
#include <span>

namespace locus::cuda {

// Longer sums are sums of parts, so that the error does not grow with their length.
inline constexpr int64_t kLongestSum = 4096;

struct GatheredTile {
  int rows, columns;
  int depth;       // of a step
  int arithmetic;  // modelled clock cycles of a multiprocessor for a step
};
inline constexpr GatheredTile kCoreTiles[] = {{128, 128, 16, 2400},
                                              {64, 128, 16, 1350},
                                              {32, 128, 16, 800},
                                              {64, 64, 16, 800},
                                              {32, 32, 32, 700}};
inline constexpr GatheredTile kF64Tiles[] = {{64, 64, 16, 1600}};
inline constexpr GatheredTile kTensorTiles[] = {{128, 128, 32, 1000},
                                                {64, 64, 32, 400}};  // 16 bits

struct GatheredPlan {
  GatheredTile tile = {};
  int splits = 1, k_split = 0;
  int64_t tiles = 1;  // of the largest product
};

inline GatheredPlan cut_gathered(const GatheredTile& t, int64_t m, int64_t n, int64_t k,
                                 int64_t splits) {
  const int64_t steps = k > t.depth ? (k + t.depth - 1) / t.depth : 1;
  if (splits > steps) splits = steps;
  const int64_t each = (steps + splits - 1) / splits;
  GatheredPlan p;
  p.tile = t;
  p.k_split = static_cast<int>(each * t.depth);
  p.splits = static_cast<int>((steps + each - 1) / each);
  p.tiles = ((m + t.rows - 1) / t.rows) * ((n + t.columns - 1) / t.columns);
  return p;
}

// A step takes its latency where a multiprocessor has few blocks, its arithmetic where it has many.
inline int64_t gathered_cost(const GatheredPlan& p, int64_t copies, int multiprocessors) {
  constexpr int64_t kLatency = 1000, kStart = 1500;
  const int64_t blocks = p.tiles * p.splits * copies;
  const int64_t waves = (blocks + multiprocessors - 1) / multiprocessors;
  const int64_t arithmetic = waves * p.tile.arithmetic;
  const int64_t latency = (waves + 1) / 2 * kLatency;
  const int64_t work = arithmetic > latency ? arithmetic : latency;
  const int64_t outputs = int64_t{p.tile.rows} * p.tile.columns;
  const int64_t ending = p.splits > 1 ? 1600 + 60 * p.splits * (outputs + 4095) / 4096 : 0;
  return kStart + p.k_split / p.tile.depth * work + ending;
}

// At most, that short sums ask for: memory holds all parts, and a grid 65535 of them.
inline constexpr int64_t kMostParts = 1024;

// `copies`: groups and products side by side. `longest`: how much depth is added up in one go,
// unless that makes too many parts, or there are more tiles than counters for those that share one.
inline GatheredPlan plan_gathered(std::span<const GatheredTile> tiles, int64_t m, int64_t n,
                                  int64_t k, int64_t copies, int64_t longest, int multiprocessors,
                                  int64_t counters) {
  GatheredPlan best;
  int64_t lowest = INT64_MAX;
  for (const GatheredTile& tile : tiles) {
    GatheredPlan whole = cut_gathered(tile, m, n, k, 1);
    const int64_t blocks = whole.tiles * copies;
    if (k > longest && blocks <= counters) {
      const int64_t parts = (k + longest - 1) / longest;
      whole = cut_gathered(tile, m, n, k, parts < kMostParts ? parts : kMostParts);
    }
    for (int fill = 0; fill < 3; ++fill) {
      GatheredPlan p = whole;
      if (fill > 0) {
        const int64_t splits = blocks > 0 ? fill * int64_t{multiprocessors} / blocks : 0;
        if (splits <= p.splits || blocks > counters) continue;
        p = cut_gathered(tile, m, n, k, splits);
      }
      const int64_t c = gathered_cost(p, copies, multiprocessors);
      if (c < lowest) {
        lowest = c;
        best = p;
      }
    }
  }
  return best;
}

}  // namespace locus::cuda
