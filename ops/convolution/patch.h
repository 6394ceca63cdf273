// How f32 convolutions are computed from patches. A block copies the data under its results'
// kernels to shared memory once, and reads it there for every tap. For products (gathered.h) with
// channels before two spatial axes. Numbers only, so that tests run anywhere.
#pragma once

#include <locus/ops/convolution/gathered.h>

namespace locus::cuda {

// Overlap of `results` (a Side of images and places) and `taps` (a Side of channels and taps),
// along the last two axes.
struct PatchOverlap {
  int rows, width;      // places of an image
  int taps[2];          // along the two axes
  int step[2], gap[2];  // between places, and between taps; gap > 0
  int low[2], span[2];  // place 0's first element; extent of a place's taps
  bool forwards[2];     // whether later taps are at later elements
  int full;             // rows of elements under an image's places
};
LOCUS_HD PatchOverlap overlap_of(const Side& results, const Side& taps) {
  PatchOverlap m;
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

// Rows of the patch of `places` consecutive places. The first is a multiple of their number.
inline int64_t patch_rows(const PatchOverlap& m, int64_t places, int64_t images) {
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
  // Fewer bands of as many rows take less, or the same if a step exceeds the taps' extent.
  const int64_t all = (rows - bands) * m.step[0] + bands * std::max(m.span[0], m.step[0]);
  return std::min({all, bands * m.full, images * m.full});
}
inline int64_t patch_width(const PatchOverlap& m) {
  return int64_t{m.width - 1} * m.step[1] + m.span[1];
}
// A row's length in memory, a multiple of 4 that puts most of 32 consecutive places in different
// banks.
inline int64_t patch_pitch(const PatchOverlap& m) {
  const int64_t width = patch_width(m);
  if (m.step[1] != 1 || m.width >= 32 || 32 % m.width != 0 || m.width < 4)
    return (width + 3) / 4 * 4;
  const int64_t units = (width + m.width - 1) / m.width;
  return (units | 1) * m.width;
}
// Whether a thread reads an element once for all taps across. These taps and places are then
// contiguous, and a kernel is compiled for their number.
inline bool taps_beside(const PatchOverlap& m) {
  return m.step[1] == 1 && m.gap[1] == 1 && (m.taps[1] == 3 || m.taps[1] == 5);
}

// Element n of a Side: a place of an image, or a tap of a channel.
struct PatchPlace {
  int slow, row, across;  // slow: the image or the channel
};
LOCUS_HD PatchPlace place_of(const Side& s, int n) {
  const int line = n / s.length[2], slow = line / s.length[1];
  return {slow, line - slow * static_cast<int>(s.length[1].value),
          n - line * static_cast<int>(s.length[2].value)};
}
// The offset of element n in the Side's other memory.
LOCUS_HD int other_place(const Side& s, int n) {
  const PatchPlace at = place_of(s, n);
  return s.other.base + at.slow * s.other.stride[0] + at.row * s.other.stride[2] +
         at.across * s.other.stride[3];
}

// Places [first, end) of consecutive images, as bands of rows of a patch. The first band begins at
// `row`. Whole images and a part of the last one follow.
struct Region {
  int image, row;
  int first_rows, rows;  // of the patch: in the first band; in all
};
LOCUS_HD Region region_of(const PatchOverlap& m, const Side& results, int first, int end) {
  const PatchPlace top = place_of(results, first), bottom = place_of(results, end - 1);
  Region r;
  r.image = top.slow;
  r.row = top.row;
  const int last_row = bottom.slow == top.slow ? bottom.row : m.rows - 1;
  r.first_rows = (last_row - top.row) * m.step[0] + m.span[0];
  r.rows = r.first_rows;
  if (bottom.slow > top.slow)
    r.rows += (bottom.slow - top.slow - 1) * m.full + bottom.row * m.step[0] + m.span[0];
  return r;
}
// The offset in the patch of place n's first tap.
LOCUS_HD int place_in(const Region& r, const PatchOverlap& m, const Side& results, int n,
                      int pitch) {
  const PatchPlace at = place_of(results, n);
  const int band = at.slow - r.image;
  const int from = band == 0 ? (at.row - r.row) * m.step[0]
                             : r.first_rows + (band - 1) * m.full + at.row * m.step[0];
  return from * pitch + at.across * m.step[1];
}
// The source of patch element i, in b of channel 0, or -1 for padding.
LOCUS_HD int source_of(const Region& r, const PatchOverlap& m, int i, Divisor pitch,
                       const int32_t (&extent)[3], int image_stride) {
  const int row = i / pitch, across = i - row * static_cast<int>(pitch.value);
  int band = 0, down = row + r.row * m.step[0];
  if (row >= r.first_rows) {
    const int rest = row - r.first_rows;
    band = rest / m.full + 1;
    down = rest - (band - 1) * m.full;
  }
  const int h = m.low[0] + down, w = m.low[1] + across;
  if (static_cast<unsigned>(h) >= static_cast<unsigned>(extent[1]) ||
      static_cast<unsigned>(w) >= static_cast<unsigned>(extent[2]))
    return -1;
  return (r.image + band) * image_stride + h * extent[2] + w;
}

// The weight offset of tap u, in the order of the patch.
LOCUS_HD int tap_in_weight(const PatchOverlap& m, const Side& taps, int u) {
  const int down = u / m.taps[1], across = u - down * m.taps[1];
  return (m.forwards[0] ? down : m.taps[0] - 1 - down) * taps.other.stride[2] +
         (m.forwards[1] ? across : m.taps[1] - 1 - across) * taps.other.stride[3];
}

}  // namespace locus::cuda
