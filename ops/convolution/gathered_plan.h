// How a gathered product (gathered.h) is cut: blocks of 256 threads, each a tile of rows x columns
// of c and a part of the depth.
#pragma once

#include <cstdint>

namespace locus::cuda {

struct GatheredTile {
  int rows, columns;
  int arithmetic;  // modelled clock cycles of a multiprocessor for 16 of depth
};
// Of f32; f64 has the last, 16 bits have the first and the last, on tensor cores.
inline constexpr GatheredTile kGatheredTiles[] = {
    {128, 128, 2400}, {64, 128, 1350}, {32, 128, 800}, {64, 64, 800}};
inline constexpr int kGatheredTileCount = 4;
inline constexpr int kGatheredDepth = 16;  // of a step

struct GatheredPlan {
  int tile = 3;  // of kGatheredTiles
  int splits = 1, k_split = 0;
  int64_t tiles = 1;  // of the largest product
};

inline GatheredPlan cut_gathered(int tile, int64_t m, int64_t n, int64_t k, int64_t splits) {
  const GatheredTile& t = kGatheredTiles[tile];
  const int64_t steps = k > kGatheredDepth ? (k + kGatheredDepth - 1) / kGatheredDepth : 1;
  if (splits > steps) splits = steps;
  const int64_t each = (steps + splits - 1) / splits;
  GatheredPlan p;
  p.tile = tile;
  p.k_split = static_cast<int>(each * kGatheredDepth);
  p.splits = static_cast<int>((steps + each - 1) / each);
  p.tiles = ((m + t.rows - 1) / t.rows) * ((n + t.columns - 1) / t.columns);
  return p;
}

// A step takes its latency where a multiprocessor has few blocks, its arithmetic where it has many.
inline int64_t gathered_cost(const GatheredPlan& p, int64_t copies, int multiprocessors) {
  constexpr int64_t kLatency = 1000, kStart = 1500;
  const GatheredTile& t = kGatheredTiles[p.tile];
  const int64_t blocks = p.tiles * p.splits * copies;
  const int64_t waves = (blocks + multiprocessors - 1) / multiprocessors;
  const int64_t arithmetic = waves * t.arithmetic;
  const int64_t latency = (waves + 1) / 2 * kLatency;
  const int64_t work = arithmetic > latency ? arithmetic : latency;
  const int64_t outputs = int64_t{t.rows} * t.columns / 4096;
  const int64_t ending = p.splits > 1 ? 1600 + 60 * outputs * p.splits : 0;
  return kStart + p.k_split / kGatheredDepth * work + ending;
}

// `copies`: groups and products side by side. `longest`: how much depth is added up in one go,
// unless there are more tiles than counters for those that share one.
inline GatheredPlan plan_gathered(int64_t m, int64_t n, int64_t k, int64_t copies, int64_t longest,
                                  unsigned tiles_there, int multiprocessors, int64_t counters) {
  GatheredPlan best;
  int64_t lowest = INT64_MAX;
  for (int tile = 0; tile < kGatheredTileCount; ++tile) {
    if ((tiles_there >> tile & 1) == 0) continue;
    GatheredPlan whole = cut_gathered(tile, m, n, k, 1);
    const int64_t blocks = whole.tiles * copies;
    if (k > longest && blocks <= counters)
      whole = cut_gathered(tile, m, n, k, (k + longest - 1) / longest);
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
