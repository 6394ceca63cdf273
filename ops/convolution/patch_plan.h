// How convolutions in f32 are computed out of patches: blocks that copy the part of the data that
// their results meet into shared memory once, and read it there for every tap. For products
// (gathered.h) whose channels come before two spatial axes. Numbers only.
#pragma once

#include <locus/ops/convolution/gathered.h>

namespace locus::cuda {

// Where `results` (a Side of images and places) and `taps` (a Side of channels and taps) meet,
// along the last two axes.
struct Meeting {
  int rows, width;      // places of an image
  int taps[2];          // along the two axes
  int step[2], gap[2];  // from one place, and from one tap, to the next; gap > 0
  int low[2], span[2];  // the first element that place 0 meets; what a place's taps reach over
  bool forwards[2];     // whether a later tap meets a later element
  int full;             // rows of elements that an image's places reach over
};
LOCUS_HD Meeting meeting(const Side& results, const Side& taps) {
  Meeting m;
  m.rows = static_cast<int>(results.length[1].value);
  m.width = static_cast<int>(results.length[2].value);
  for (int i = 0; i < 2; ++i) {
    const int gap = taps.step[i + 1];
    m.taps[i] = static_cast<int>(taps.length[i + 1].value);
    m.step[i] = results.step[i + 1];
    m.forwards[i] = gap >= 0;
    m.gap[i] = gap < 0 ? -gap : gap;
    m.span[i] = m.gap[i] * (m.taps[i] - 1) + 1;
    m.low[i] = results.base[i + 1] + taps.base[i + 1] - (gap < 0 ? m.span[i] - 1 : 0);
  }
  m.full = (m.rows - 1) * m.step[0] + m.span[0];
  return m;
}

// Rows of the patch of so many places that follow each other, the first a multiple of their number.
inline int64_t patch_rows(const Meeting& m, int64_t places, int64_t images) {
  const int64_t image = int64_t{m.rows} * m.width;
  int64_t bands = 1, rows = std::min<int64_t>(m.rows, (places - 1) / m.width + 2);
  if (places % image == 0) {
    bands = places / image;
    rows = bands * m.rows;
  } else if (image % places == 0) {
    if (places % m.width == 0) rows = places / m.width;
  } else {
    bands = (places - 2) / image + 2;
    rows = std::min((places - 1) / m.width + 2, bands * m.rows);
  }
  // Fewer bands of as many rows take less, or as much where a step is more than the taps reach.
  const int64_t all = (rows - bands) * m.step[0] + bands * std::max(m.span[0], m.step[0]);
  return std::min({all, bands * m.full, images * m.full});
}
inline int64_t patch_width(const Meeting& m) {
  return int64_t{m.width - 1} * m.step[1] + m.span[1];
}
// A row's length in memory, a multiple of 4 and so that 32 places that follow each other are mostly
// in different banks.
inline int64_t patch_pitch(const Meeting& m) {
  const int64_t width = patch_width(m);
  if (m.step[1] != 1 || m.width >= 32 || 32 % m.width != 0 || m.width < 4)
    return (width + 3) / 4 * 4;
  const int64_t units = (width + m.width - 1) / m.width;
  return (units | 1) * m.width;
}
// Whether a thread reads an element once for all its taps across: they, and its places, lie side by
// side, and there are as many as a kernel was compiled for.
inline bool taps_beside(const Meeting& m) {
  return m.step[1] == 1 && m.gap[1] == 1 && (m.taps[1] == 3 || m.taps[1] == 5);
}

struct PatchPlan {
  bool there = false;  // whether patches are a way to compute this product
  int threads = 0;     // of a block
  int warps_m = 1, warps_n = 1, warps_k = 1;
  int tile_m = 8, tile_n = 4;  // of a thread
  int channels = 1;            // in shared memory at once
  int places = 0;              // of the weight gradient, in shared memory at once
  int pitch = 0, patch = 0;    // from a row of the patch, and from a channel, to the next
  int line = 0;                // from one depth of the weight to the next
  int across = 0;              // taps
  Divisor by_pitch, fast;      // fast: how many of the other operand lie side by side in a stage
  int splits = 1, each = 0;    // parts of the depth; channels or stages in one
  int tiles_m = 1, tiles_n = 1;
  int table = 0, stage = 0;  // words of shared memory before the first stage, and of a stage
  int64_t bytes = 0;         // of shared memory

  int rows() const { return warps_m * tile_m; }
  int columns() const { return warps_n * tile_n * 32; }
};
constexpr int patch_line(int tile_m) { return (tile_m + 3) / 4 * 4; }

namespace patches {

inline constexpr int64_t kMostBytes = 200 << 10;

// Channels before two spatial axes, enough places in an image, and those in fours.
inline bool fit(const Side& results, const Side& taps, const int32_t (&extent)[3]) {
  const auto length = [](const Side& s, int axis) { return int64_t{s.length[axis].value}; };
  return results.first == 1 && taps.first == 1 && results.count > 0 && taps.count > 0 &&
         extent[0] == 1 && length(results, 0) == 1 && length(taps, 0) == 1 &&
         length(results, 1) * length(results, 2) >= 16 && length(results, 2) % 4 == 0 &&
         length(taps, 1) * length(taps, 2) <= 64 && extent[2] < 4096;
}
// Rows of c: 8 or 10 a thread, by which wastes less; how many of them to a tile.
inline void cut_rows(PatchPlan& p, int64_t m) {
  constexpr int64_t kMostWarps = 8;
  int64_t least = INT64_MAX;
  for (const int each : {8, 10}) {
    const int64_t warps = (m + each - 1) / each, tiles = (warps + kMostWarps - 1) / kMostWarps,
                  w = (warps + tiles - 1) / tiles, all = tiles * w * each;
    if (all >= least) continue;
    least = all;
    p.tile_m = each;
    p.warps_m = static_cast<int>(w);
    p.tiles_m = static_cast<int>(tiles);
  }
}
// Clock cycles for blocks of so many warps and instructions of a warp, `resident` at once. A
// multiprocessor issues the more of the four that it can in a cycle the more warps it has: two with
// 8. Measured on an H200, as the other numbers of the plans.
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

// Of a forward product or a data gradient. `longest`: how much depth is added up in one go.
inline PatchPlan plan_patches(const GatheredProducts& all, int64_t longest, bool mask,
                              int multiprocessors, int64_t counters) {
  PatchPlan best;
  const GatheredProduct& q = all.each[0];
  if (all.n > 1 || !patches::fit(q.column, q.depth, q.extent)) return best;
  const Meeting m = meeting(q.column, q.depth);
  if (!taps_beside(m)) return best;
  const int64_t taps = int64_t{m.taps[0]} * m.taps[1], channels = q.depth.count / taps,
                images = q.column.count / (int64_t{m.rows} * m.width), masks = mask ? 2 : 1;
  int64_t lowest = INT64_MAX;
  for (const int warps_n : {1, 2, 3, 4, 5}) {
    PatchPlan p;
    patches::cut_rows(p, q.m);
    p.warps_n = warps_n;
    const int64_t warps = p.warps_m * warps_n;
    if (warps > 10) continue;
    p.threads = static_cast<int>(warps * 32);
    p.across = m.taps[1];
    p.line = p.warps_m * patch_line(p.tile_m);
    p.pitch = static_cast<int>(patch_pitch(m));
    p.patch = static_cast<int>(patch_rows(m, p.columns(), images) * p.pitch);
    const auto stage = [&](int64_t n) { return n * (p.patch * masks + taps * p.line); };
    int64_t together = std::min<int64_t>(channels, (31 + taps) / taps);
    while (together > 1 && stage(together) > 10 << 10) --together;
    const int64_t weights = together * taps * p.rows();
    p.channels = static_cast<int>(together);
    p.stage = static_cast<int>(stage(together));
    p.table = static_cast<int>((p.patch + 2 * weights + 3) / 4 * 4);
    p.bytes = 4 * (p.table + 2 * stage(together));
    if (p.bytes > patches::kMostBytes) continue;
    p.tiles_n = static_cast<int>((q.column.count + p.columns() - 1) / p.columns());
    const int64_t tiles = int64_t{p.tiles_m} * p.tiles_n * all.groups;
    const int64_t stages = (channels + together - 1) / together;
    const int64_t least = std::min(stages, (channels * taps + longest - 1) / longest);
    const int64_t fill = 2 * int64_t{multiprocessors} / tiles;
    for (const int64_t wanted : {least, fill / 2, fill}) {
      if (wanted < least || wanted > stages || (wanted > 1 && tiles > counters)) continue;
      const int64_t each = (stages + wanted - 1) / wanted, splits = (stages + each - 1) / each;
      const int64_t depth = each * together * taps, products = p.tile_m * p.tile_n;
      const int64_t copies = weights * 7 + together * p.patch * 7 * masks,
                    begins = weights * 30 + p.patch * 50 + p.threads * (200 + products * 4);
      const int64_t block = depth * (products + 6) * warps + (each * copies + begins) / 32;
      const int64_t resident = std::min(20 / warps, (220 << 10) / p.bytes);
      const int64_t cost =
          each * 800 + 8000 +
          patches::clocks(tiles * splits, resident, warps, block, multiprocessors) +
          (splits > 1 ? splits * products * 80 : 0);
      if (cost >= lowest) continue;
      lowest = cost;
      p.splits = static_cast<int>(splits);
      p.each = static_cast<int>(each * together);
      p.there = true;
      best = p;
    }
  }
  if (!best.there) return best;
  best.by_pitch = Divisor(best.pitch);
  best.fast = Divisor(all.a_along_depth ? taps * best.channels : best.rows());
  return best;
}

// Of a weight gradient; its parts are joined by a launch of their own.
inline PatchPlan plan_weight_patches(const GatheredProducts& all, bool mask, int multiprocessors) {
  PatchPlan best;
  const GatheredProduct& q = all.each[0];
  if (!all.whole || !patches::fit(q.depth, q.column, q.extent)) return best;
  const Meeting m = meeting(q.depth, q.column);
  const int64_t taps = int64_t{m.taps[0]} * m.taps[1], in = q.column.count / taps;
  if (taps == 1) return best;
  const int64_t images = q.depth.count / (int64_t{m.rows} * m.width), masks = mask ? 2 : 1;
  int64_t lowest = INT64_MAX;
  const bool narrow = q.column.count <= 64;
  for (const int warps_n : {1, 2, 4})
    for (const int places : {32, 64, 128, 256}) {
      PatchPlan p;
      patches::cut_rows(p, q.m);
      p.tile_n = narrow ? 1 : 4;
      if (narrow && p.tile_m == 10 && p.warps_m % 2 == 0) {
        p.tile_m = 20;
        p.warps_m /= 2;
      }
      p.warps_n = warps_n;
      if (p.columns() - p.tile_n * 32 >= q.column.count || p.warps_m * warps_n > 20) continue;
      p.warps_k = narrow ? std::max(1, 8 / (p.warps_m * warps_n)) : 1;
      const int64_t warps = p.warps_m * warps_n * p.warps_k;
      p.threads = static_cast<int>(warps * 32);
      p.places = places;
      p.channels = static_cast<int>(std::min<int64_t>(in, (p.columns() - 2) / taps + 2));
      p.pitch = static_cast<int>(patch_width(m) | 1);
      const int64_t size = patch_rows(m, places, images) * p.pitch;
      // The next channel's taps lie beside this one's.
      p.patch = static_cast<int>(size + (m.taps[1] + 32 - size % 32) % 32);
      const int64_t patch = (int64_t{p.channels} * p.patch + 3) / 4 * 4;
      p.stage = static_cast<int>(patch + masks * places * p.rows());
      p.table = (2 * p.patch + 5 * places + p.rows() + 3) / 4 * 4;
      p.bytes = 4 * std::max<int64_t>(p.table + 2 * int64_t{p.stage},
                                      int64_t{p.warps_k} * p.rows() * p.columns());
      if (p.bytes > patches::kMostBytes) continue;
      p.tiles_n = static_cast<int>((q.column.count + p.columns() - 1) / p.columns());
      const int64_t tiles = int64_t{p.tiles_m} * p.tiles_n * all.groups;
      const int64_t stages = (q.depth.count + places - 1) / places;
      const int64_t resident =
          std::max<int64_t>(1, std::min((220 << 10) / p.bytes, (narrow ? 24 : 20) / warps));
      const int64_t fill = std::max<int64_t>(1, resident * multiprocessors / tiles);
      for (const int64_t wanted : {fill, fill / 2}) {
        if (wanted < 1) continue;
        const int64_t each = (stages + wanted - 1) / wanted, splits = (stages + each - 1) / each;
        const int64_t products = p.tile_m * p.tile_n, depth = each * places / p.warps_k;
        // Loads from shared memory, of which every second one waits for its bank.
        const int64_t loads = (p.tile_m + 3) / 4 + 3 * p.tile_n;
        const int64_t copies =
            places * p.rows() * masks * 6 + size * (60 + 8 * p.channels) + p.threads * 250;
        const int64_t block = depth * (products + p.tile_n + 5 + loads / 2) * warps +
                              (each * copies + p.threads * products * 10) / 32;
        const int64_t weights = q.m * int64_t{q.column.count} * all.groups;
        const int64_t cost =
            each * 800 + 3000 +
            patches::clocks(tiles * splits, resident, warps, block, multiprocessors) +
            (splits > 1 ? 6000 + splits * weights / 800 : 0);
        if (cost >= lowest) continue;
        lowest = cost;
        p.splits = static_cast<int>(splits);
        p.each = static_cast<int>(each);
        p.there = true;
        best = p;
      }
    }
  if (!best.there) return best;
  best.by_pitch = Divisor(best.pitch);
  best.fast = Divisor(best.places / 4);
  return best;
}

}  // namespace locus::cuda
