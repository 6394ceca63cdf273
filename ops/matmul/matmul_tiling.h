// How a GPU computes a product: with the tiles of matmul_tile.h, which start fast and suit small
// products, or with cuBLAS. Numbers only, so that tests run anywhere.
#pragma once

#include <cstdint>

namespace locus::cuda {

// Our kernels compute f32 products up to this many multiply-adds. On an H200 they take 0.4-0.6 of
// cuBLAS's time for a few million, 0.9-1.0 for 256x256x784 and 1.0-1.2 for 384x384x384.
inline constexpr double kOwnLimit = 52e6;
// The limit with bias and activation in the product's kernel, against a separate kernel after
// cuBLAS.
inline constexpr double kOwnDenseLimit = 100e6;
// The limit with 4 to 16 rows or columns: 0.8-1.0 of cuBLAS's time for 16x1024x16384.
inline constexpr double kOwnNarrowLimit = 260e6;

inline bool own_product(int64_t m, int64_t n, int64_t k, int64_t batch, double limit = kOwnLimit) {
  const int64_t side = m < n ? m : n;
  if (side < 4) {
    limit = kOwnLimit / 16;  // a tile would be mostly empty, and cuBLAS has kernels for these
  } else if (side <= 16) {
    limit = kOwnNarrowLimit;
  }
  const double work = static_cast<double>(m) * static_cast<double>(n) *
                      static_cast<double>(k > 0 ? k : 1) * static_cast<double>(batch);
  return work <= limit && batch <= 65535 && m < (1 << 30) && n < (1 << 30) && k < (1 << 30);
}

// tile x tile outputs per block of 256 threads. k is cut in `splits` parts of `k_split`, a multiple
// of a step's depth 2048 / tile.
struct Tiling {
  int tile = 32;
  int splits = 1;
  int k_split = 0;
  int tiles_m = 1, tiles_n = 1;

  int tiles() const { return tiles_m * tiles_n; }
  int blocks() const { return tiles() * splits; }
  int counters() const { return splits > 1 ? tiles() : 0; }
  // Floats of scratch memory: partial sums of the outputs and of the rows of a.
  int64_t scratch() const {
    return splits > 1 ? int64_t{blocks()} * (int64_t{tile} * tile + tile) : 0;
  }
};

inline Tiling cut(int64_t m, int64_t n, int64_t k, int tile, int64_t splits) {
  const int depth = 2048 / tile;
  const int64_t steps = k > 0 ? (k + depth - 1) / depth : 1;
  if (splits > steps) splits = steps;
  const int64_t each = (steps + splits - 1) / splits;
  Tiling p;
  p.tile = tile;
  p.k_split = static_cast<int>(each * depth);
  p.splits = static_cast<int>((steps + each - 1) / each);
  p.tiles_m = static_cast<int>((m + tile - 1) / tile);
  p.tiles_n = static_cast<int>((n + tile - 1) / tile);
  return p;
}

// Modelled clock cycles. If a multiprocessor has one block, a step costs its latency; with many
// blocks, its arithmetic. Splits end with a pass over the partial sums.
inline int64_t cost(const Tiling& p, int64_t batch, int multiprocessors) {
  const int64_t latency = p.tile == 64 ? 1400 : 800;
  const int64_t arithmetic = p.tile == 64 ? 1300 : p.tile == 32 ? 650 : 400;
  const int64_t steps = p.k_split / (2048 / p.tile);
  const int64_t blocks = batch * p.blocks();
  const int64_t waves = (blocks + multiprocessors - 1) / multiprocessors;
  const int64_t work = waves * arithmetic > latency ? waves * arithmetic : latency;
  const int64_t ending = p.splits > 1 ? 1600 + 60 * p.splits : 0;
  return 700 + steps * work + ending;
}

inline Tiling choose_tiling(int64_t m, int64_t n, int64_t k, int64_t batch, int multiprocessors) {
  Tiling best;
  int64_t lowest = INT64_MAX;
  for (int tile = 64; tile >= 16; tile /= 2) {
    const int64_t tiles = ((m + tile - 1) / tile) * ((n + tile - 1) / tile) * batch;
    int64_t splits = 1;
    for (int fill = 0; fill < 3; ++fill) {
      if (fill > 0) splits = fill * int64_t{multiprocessors} / tiles;
      // A batch is parallel enough, and shares no counters.
      if (fill > 0 && (splits <= 1 || batch > 1)) continue;
      const Tiling p = cut(m, n, k, tile, splits);
      const int64_t c = cost(p, batch, multiprocessors);
      if (c < lowest) {
        lowest = c;
        best = p;
      }
    }
  }
  return best;
}

// A run is this many steps. in_runs() cuts a product into parts of at most one run.
inline constexpr int kRun = 32;
inline Tiling in_runs(const Tiling& p, int64_t m, int64_t n, int64_t k) {
  const int64_t longest = kRun * 2048 / p.tile;
  return p.k_split <= longest ? p : cut(m, n, k, p.tile, (k + longest - 1) / longest);
}

// The same product with another tile, cut to fill the multiprocessors once.
inline Tiling recut(int64_t m, int64_t n, int64_t k, int tile, int multiprocessors) {
  const Tiling whole = cut(m, n, k, tile, 1);
  const int64_t splits = multiprocessors / whole.tiles();
  return splits > 1 ? cut(m, n, k, tile, splits) : whole;
}

}  // namespace locus::cuda
