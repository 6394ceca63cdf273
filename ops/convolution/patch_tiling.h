// How a patch product (patch.h) is cut. A block computes a tile of rows x columns of c for a part
// of the depth, in stages. Shared memory holds two stages. No tiling means that the product does
// not fit the device.
#pragma once

#include <optional>

#include <locus/ops/convolution/gathered_tiling.h>
#include <locus/ops/convolution/patch.h>

namespace locus::cuda {

// Device limits. Bytes of shared memory: per block, and per multiprocessor.
struct PatchDevice {
  int multiprocessors = 0;
  int64_t block_bytes = 0, bytes = 0;
};

struct PatchTiles {
  int threads = 0;  // per block
  int warps_m = 1, warps_n = 1;
  int tile_m = 8, tile_n = 4;  // per thread
  int channels = 1;            // in shared memory at once
  int pitch = 0, patch = 0;    // distance between the patch's rows, and between its channels
  int splits = 1, each = 0;    // parts of the depth; channels or stages per part
  int tiles_m = 1, tiles_n = 1;
  int table = 0, stage = 0;  // words of shared memory before the first stage, and per stage
  int64_t bytes = 0;         // shared memory
  Divisor by_pitch;

  int rows() const { return warps_m * tile_m; }
  int columns() const { return warps_n * tile_n * 32; }
};
// A forward product or a data gradient.
struct PatchTiling : PatchTiles {
  int across = 0;  // taps
  int line = 0;    // distance between depths of the weight
  Divisor fast;    // contiguous weights of a stage
};
// A weight gradient. A second launch adds its parts.
struct WeightPatchTiling : PatchTiles {
  int warps_k = 1;
  int places = 0;  // in shared memory at once
  Divisor quads;   // of places
};
constexpr int patch_line(int tile_m) { return (tile_m + 3) / 4 * 4; }

namespace patches {

// The limit per block. Kernels use a little more shared memory.
inline int64_t most_bytes(const PatchDevice& device) {
  constexpr int64_t kMost = 200 << 10, kBeside = 1 << 10;
  return std::min(kMost, device.block_bytes - kBeside);
}
// Blocks per multiprocessor that fit its shared memory. The device reserves some.
inline int64_t resident(const PatchDevice& device, int64_t bytes) {
  constexpr int64_t kKept = 8 << 10;
  return std::max<int64_t>(1, (device.bytes - kKept) / bytes);
}
// Whether 32-bit indices count so many whole tiles or stages.
inline bool countable(int64_t tiles, int64_t each) { return tiles * each <= INT32_MAX; }

// Channels before two spatial axes, and enough places per image, in groups of four.
inline bool fit(const Side& results, const Side& taps, const int32_t (&extent)[3]) {
  const auto length = [](const Side& s, int axis) { return int64_t{s.length[axis].value}; };
  return results.first == 1 && taps.first == 1 && results.count > 0 && taps.count > 0 &&
         extent[0] == 1 && length(results, 0) == 1 && length(taps, 0) == 1 &&
         length(results, 1) * length(results, 2) >= 16 && length(results, 2) % 4 == 0 &&
         length(taps, 1) * length(taps, 2) <= 64 && extent[2] < 4096;
}
// Rows of c: 8 or 10 per thread, whichever wastes less, and tiles.
inline void cut_rows(PatchTiles& tiling, int64_t m) {
  constexpr int64_t kMostWarps = 8;
  int64_t least = INT64_MAX;
  for (const int each : {8, 10}) {
    const int64_t warps = (m + each - 1) / each, tiles = (warps + kMostWarps - 1) / kMostWarps,
                  w = (warps + tiles - 1) / tiles, all = tiles * w * each;
    if (all >= least) continue;
    least = all;
    tiling.tile_m = each;
    tiling.warps_m = static_cast<int>(w);
    tiling.tiles_m = static_cast<int>(tiles);
  }
}
// The parts of `stages` such that none adds more than `longest` at once, at most kMostParts.
inline int64_t least_parts(int64_t stages, int64_t stage, int64_t longest) {
  const int64_t most = std::max<int64_t>(1, longest / stage);
  return std::min((stages + most - 1) / most, kMostParts);
}
// Clock cycles for blocks of so many warps and instructions per warp, `resident` at once. With more
// warps a multiprocessor issues more of its four instructions per cycle: two with 8 warps. Measured
// on an H200, as are the tilings' other numbers.
inline int64_t clocks(int64_t blocks, int64_t resident, int64_t warps, int64_t instructions,
                      int multiprocessors) {
  const int64_t each = (blocks + multiprocessors - 1) / multiprocessors, rounds = each / resident,
                rest = each % resident;
  const auto round = [&](int64_t n) {
    return n * instructions * (n * warps + 8) / (4 * n * warps);
  };
  return rounds * round(resident) + (rest > 0 ? round(rest) : 0);
}

}  // namespace patches

// A sum is at most `longest` deep, unless that needs too many parts.
inline std::optional<PatchTiling> choose_patch_tiling(const GatheredProducts& all, int64_t longest,
                                                      bool mask, const PatchDevice& device,
                                                      int64_t counters) {
  std::optional<PatchTiling> best;
  const GatheredProduct& p = all.each[0];
  if (all.n > 1 || !patches::fit(p.column, p.depth, p.extent)) return best;
  const PatchOverlap overlap = overlap_of(p.column, p.depth);
  if (!taps_beside(overlap)) return best;
  const int64_t taps = int64_t{overlap.taps[0]} * overlap.taps[1], channels = p.depth.count / taps,
                images = p.column.count / (int64_t{overlap.rows} * overlap.width),
                masks = mask ? 2 : 1;
  int64_t lowest = INT64_MAX;
  for (const int warps_n : {1, 2, 3, 4, 5}) {
    PatchTiling tiling;
    patches::cut_rows(tiling, p.m);
    tiling.warps_n = warps_n;
    const int64_t warps = tiling.warps_m * warps_n;
    if (warps > 10) continue;
    tiling.threads = static_cast<int>(warps * 32);
    tiling.across = overlap.taps[1];
    tiling.line = tiling.warps_m * patch_line(tiling.tile_m);
    const int64_t pitch = patch_pitch(overlap),
                  patch = patch_rows(overlap, tiling.columns(), images) * pitch;
    const auto stage = [&](int64_t n) { return n * (patch * masks + taps * tiling.line); };
    int64_t together = std::min<int64_t>(channels, (31 + taps) / taps);
    while (together > 1 && stage(together) > 10 << 10) --together;
    const int64_t weights = together * taps * tiling.rows();
    const int64_t table = (patch + 2 * weights + 3) / 4 * 4;
    const int64_t tiles_n = (int64_t{p.column.count} + tiling.columns() - 1) / tiling.columns();
    tiling.bytes = 4 * (table + 2 * stage(together));
    if (tiling.bytes > patches::most_bytes(device) ||
        !patches::countable(tiles_n, tiling.columns()))
      continue;
    tiling.channels = static_cast<int>(together);
    tiling.pitch = static_cast<int>(pitch);
    tiling.patch = static_cast<int>(patch);
    tiling.stage = static_cast<int>(stage(together));
    tiling.table = static_cast<int>(table);
    tiling.tiles_n = static_cast<int>(tiles_n);
    const int64_t tiles = tiling.tiles_m * tiles_n * all.groups;
    const int64_t stages = (channels + together - 1) / together;
    const int64_t least = patches::least_parts(stages, together * taps, longest);
    const int64_t fill = 2 * int64_t{device.multiprocessors} / tiles;
    for (const int64_t wanted : {least, fill / 2, fill}) {
      if (wanted < least || wanted > stages || (wanted > 1 && tiles > counters)) continue;
      const int64_t each = (stages + wanted - 1) / wanted, splits = (stages + each - 1) / each;
      const int64_t depth = each * together * taps, products = tiling.tile_m * tiling.tile_n;
      const int64_t copies = weights * 7 + together * patch * 7 * masks,
                    begins = weights * 30 + patch * 50 + tiling.threads * (200 + products * 4);
      const int64_t block = depth * (products + 6) * warps + (each * copies + begins) / 32;
      const int64_t resident = std::min(20 / warps, patches::resident(device, tiling.bytes));
      const int64_t cost =
          each * 800 + 8000 +
          patches::clocks(tiles * splits, resident, warps, block, device.multiprocessors) +
          (splits > 1 ? splits * products * 80 : 0);
      if (cost >= lowest) continue;
      lowest = cost;
      tiling.splits = static_cast<int>(splits);
      tiling.each = static_cast<int>(each * together);
      best = tiling;
    }
  }
  if (!best) return best;
  best->by_pitch = Divisor(best->pitch);
  best->fast = Divisor(all.a_along_depth ? taps * best->channels : best->rows());
  return best;
}

inline std::optional<WeightPatchTiling> choose_weight_patch_tiling(const GatheredProducts& all,
                                                                   int64_t longest, bool mask,
                                                                   const PatchDevice& device) {
  std::optional<WeightPatchTiling> best;
  const GatheredProduct& p = all.each[0];
  if (!all.whole || !patches::fit(p.depth, p.column, p.extent)) return best;
  const PatchOverlap overlap = overlap_of(p.depth, p.column);
  const int64_t taps = int64_t{overlap.taps[0]} * overlap.taps[1], in = p.column.count / taps;
  if (taps == 1) return best;
  const int64_t images = p.depth.count / (int64_t{overlap.rows} * overlap.width),
                masks = mask ? 2 : 1;
  int64_t lowest = INT64_MAX;
  const bool narrow = p.column.count <= 64;
  for (const int warps_n : {1, 2, 4})
    for (const int places : {32, 64, 128, 256}) {
      WeightPatchTiling tiling;
      patches::cut_rows(tiling, p.m);
      tiling.tile_n = narrow ? 1 : 4;
      if (narrow && tiling.tile_m == 10 && tiling.warps_m % 2 == 0) {
        tiling.tile_m = 20;
        tiling.warps_m /= 2;
      }
      tiling.warps_n = warps_n;
      if (tiling.columns() - tiling.tile_n * 32 >= p.column.count || tiling.warps_m * warps_n > 20)
        continue;
      tiling.warps_k = narrow ? std::max(1, 8 / (tiling.warps_m * warps_n)) : 1;
      const int64_t warps = tiling.warps_m * warps_n * tiling.warps_k;
      tiling.threads = static_cast<int>(warps * 32);
      tiling.places = places;
      tiling.channels = static_cast<int>(std::min<int64_t>(in, (tiling.columns() - 2) / taps + 2));
      const int64_t pitch = patch_width(overlap) | 1,
                    size = patch_rows(overlap, places, images) * pitch;
      // The next channel's taps use the banks after this one's.
      const int64_t patch = size + (overlap.taps[1] + 32 - size % 32) % 32;
      const int64_t stage = (tiling.channels * patch + 3) / 4 * 4 + masks * places * tiling.rows();
      const int64_t table = (2 * patch + 5 * (places / 4) + tiling.rows() + 3) / 4 * 4;
      const int64_t stages = (int64_t{p.depth.count} + places - 1) / places,
                    tiles_n = (int64_t{p.column.count} + tiling.columns() - 1) / tiling.columns();
      tiling.bytes = 4 * std::max<int64_t>(table + 2 * stage, int64_t{tiling.warps_k} *
                                                                  tiling.rows() * tiling.columns());
      if (tiling.bytes > patches::most_bytes(device) || !patches::countable(stages, places) ||
          !patches::countable(tiles_n, tiling.columns()))
        continue;
      tiling.pitch = static_cast<int>(pitch);
      tiling.patch = static_cast<int>(patch);
      tiling.stage = static_cast<int>(stage);
      tiling.table = static_cast<int>(table);
      tiling.tiles_n = static_cast<int>(tiles_n);
      const int64_t tiles = tiling.tiles_m * tiles_n * all.groups;
      const int64_t resident = std::min(patches::resident(device, tiling.bytes),
                                        std::max<int64_t>(1, (narrow ? 24 : 20) / warps));
      const int64_t fill = std::max<int64_t>(1, resident * device.multiprocessors / tiles);
      const int64_t least = patches::least_parts(stages, places / tiling.warps_k, longest);
      for (const int64_t wanted : {std::max(fill, least), std::max(fill / 2, least)}) {
        const int64_t each = (stages + wanted - 1) / wanted, splits = (stages + each - 1) / each;
        const int64_t products = tiling.tile_m * tiling.tile_n,
                      depth = each * places / tiling.warps_k;
        // Loads from shared memory. Every second one waits for its bank.
        const int64_t loads = (tiling.tile_m + 3) / 4 + 3 * tiling.tile_n;
        const int64_t copies = places * tiling.rows() * masks * 6 +
                               size * (60 + 8 * tiling.channels) + tiling.threads * 250;
        const int64_t block = depth * (products + tiling.tile_n + 5 + loads / 2) * warps +
                              (each * copies + tiling.threads * products * 10) / 32;
        const int64_t weights = p.m * int64_t{p.column.count} * all.groups;
        const int64_t cost =
            each * 800 + 3000 +
            patches::clocks(tiles * splits, resident, warps, block, device.multiprocessors) +
            (splits > 1 ? 6000 + splits * weights / 800 : 0);
        if (cost >= lowest) continue;
        lowest = cost;
        tiling.splits = static_cast<int>(splits);
        tiling.each = static_cast<int>(each);
        best = tiling;
      }
    }
  if (!best) return best;
  best->by_pitch = Divisor(best->pitch);
  best->quads = Divisor(best->places / 4);
  return best;
}

}  // namespace locus::cuda
