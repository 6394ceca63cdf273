#include <gtest/gtest.h>

#include <random>
#include <vector>

#include <locus/ops/convolution/patch_tiling.h>
#include "tests/convolution/convolved.h"

namespace locus::cuda {
namespace {

using Values = std::vector<double>;

constexpr int64_t kLongest = 4096, kCounters = 8192;
constexpr PatchDevice kH200 = {132, 227 << 10, 228 << 10}, kSmall = {10, 48 << 10, 64 << 10},
                      kTiny = {2, 12 << 10, 12 << 10};

Convolution convolution(int64_t images, int64_t in, int64_t out, int64_t rows, int64_t width,
                        int64_t kernel, int64_t padding) {
  Convolution g;
  g.images = images, g.in = in, g.out = out;
  for (int a = 0; a < 3; ++a) {
    g.kernel[a] = a == 0 ? 1 : kernel;
    g.stride[a] = g.dilation[a] = 1;
    g.padding[a] = a == 0 ? 0 : padding;
    g.data[a] = a == 0 ? 1 : a == 1 ? rows : width;
    g.result[a] = convolved_length(g.data[a], g.kernel[a], 1, g.padding[a]);
  }
  return g;
}

// Two axes, results in fours; half of the draws have data of the same size.
Convolution draw(std::mt19937& random) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Convolution g = convolution(pick(1, 9), pick(1, 6), pick(1, 24), 1, 1, 1, 0);
  g.groups = pick(1, 2);
  const bool same = pick(0, 1) == 1;
  for (int a = 1; a < 3; ++a) {
    g.kernel[a] = pick(0, 1) == 0 ? pick(1, 5) : pick(1, 2) * 2 + 1;
    g.stride[a] = same || pick(0, 1) == 0 ? 1 : pick(2, 6);
    g.dilation[a] = pick(0, 2) == 0 ? pick(2, 3) : 1;
    const int64_t span = kernel_span(g.kernel[a], g.dilation[a]);
    g.padding[a] = same ? span / 2 : pick(0, 4);
    const int64_t results = a == 1 ? pick(1, 14) : 4 * pick(1, 6);
    g.data[a] = std::max(span - 2 * g.padding[a], (results - 1) * g.stride[a] + span -
                                                      2 * g.padding[a] + pick(0, g.stride[a] - 1));
    g.data[a] = std::max<int64_t>(g.data[a], 1);
    g.result[a] = convolved_length(g.data[a], span, g.stride[a], g.padding[a]);
  }
  return g;
}

// The patch of places [first, end), filled and read like in kernels.
class Patch {
 public:
  Patch(const GatheredProduct& p, const Side& results, const Side& taps, const PatchTiles& tiling,
        int first, int end)
      : results_(results),
        overlap_(overlap_of(results, taps)),
        region_(region_of(overlap_, results, first, end)),
        pitch_(tiling.pitch) {
    EXPECT_LE(region_.rows * pitch_, tiling.patch);
    for (int i = 0; i < region_.rows * pitch_; ++i)
      source_.push_back(
          source_of(region_, overlap_, i, tiling.by_pitch, p.extent, results.b.stride[0]));
  }
  // The element of b that tap u reads at place n, in channel 0; -1: padding.
  int met(int n, int u) const {
    const int down = u / overlap_.taps[1], across = u % overlap_.taps[1];
    // Places come in adjacent fours.
    const int four = place_in(region_, overlap_, results_, n / 4 * 4, pitch_);
    return source_.at(static_cast<size_t>(four + n % 4 * overlap_.step[1] +
                                          down * overlap_.gap[0] * pitch_ +
                                          across * overlap_.gap[1]));
  }

 private:
  const Side& results_;
  PatchOverlap overlap_;
  Region region_;
  int pitch_;
  std::vector<int> source_;
};

double at(const Values& v, int64_t i) { return v.at(static_cast<size_t>(i)); }

void multiply(const GatheredProducts& all, const PatchTiling& tiling, const Values& a,
              const Values& b, Values& c) {
  const GatheredProduct& p = all.each[0];
  const PatchOverlap overlap = overlap_of(p.column, p.depth);
  const int taps = overlap.taps[0] * overlap.taps[1], columns = tiling.columns();
  for (int n0 = 0; n0 < p.column.count; n0 += columns) {
    const int end = std::min(n0 + columns, p.column.count);
    const Patch patch(p, p.column, p.depth, tiling, n0, end);
    for (int n = n0; n < end; ++n)
      for (int group = 0; group < all.groups; ++group) {
        const int64_t to = group * all.c_group + other_place(p.column, n);
        for (int row = 0; row < p.m; ++row) c.at(static_cast<size_t>(to + row * p.c_row)) = 0;
        for (int k = 0; k < p.depth.count; ++k) {
          const int met = patch.met(n, k % taps), channel = k / taps;
          if (met < 0) continue;
          const double v = at(b, group * all.b_group + met + channel * p.depth.b.stride[0]);
          const int64_t from = group * all.a_group + p.depth.other.base +
                               channel * p.depth.other.stride[0] +
                               tap_in_weight(overlap, p.depth, k % taps);
          for (int row = 0; row < p.m; ++row)
            c[static_cast<size_t>(to + row * p.c_row)] += at(a, from + row * p.a_row) * v;
        }
      }
  }
}

void multiply(const GatheredProducts& all, const WeightPatchTiling& tiling, const Values& a,
              const Values& b, Values& c) {
  const GatheredProduct& p = all.each[0];
  const PatchOverlap overlap = overlap_of(p.depth, p.column);
  const int taps = overlap.taps[0] * overlap.taps[1];
  for (int k0 = 0; k0 < p.depth.count; k0 += tiling.places) {
    const int end = std::min(k0 + tiling.places, p.depth.count);
    const Patch patch(p, p.depth, p.column, tiling, k0, end);
    for (int n = 0; n < p.column.count; ++n)
      for (int k = k0; k < end; ++k) {
        const int met = patch.met(k, n % taps), four = other_place(p.depth, k / 4 * 4);
        if (met < 0) continue;
        for (int group = 0; group < all.groups; ++group) {
          const double v = at(b, group * all.b_group + met + n / taps * p.column.b.stride[0]);
          const int64_t from = group * all.a_group + four + k % 4,
                        to = group * all.c_group + other_place(p.column, n);
          for (int row = 0; row < p.m; ++row)
            c.at(static_cast<size_t>(to + row * p.c_row)) += at(a, from + row * p.a_row) * v;
        }
      }
  }
}

TEST(Patch, IsReadWhereTheConvolutionAndItsGradientsAre) {
  std::mt19937 random(5);
  int forwards = 0, data = 0, weights = 0;
  for (int i = 0; i < 80; ++i) {
    const Convolution g = draw(random);
    const PatchDevice device = i % 3 == 0 ? kSmall : kH200;
    const auto forward =
        choose_patch_tiling(forward_products(g), kLongest, false, device, kCounters);
    const auto back = choose_patch_tiling(data_products(g, 0), kLongest, true, device, kCounters);
    const auto weight =
        choose_weight_patch_tiling(weight_products(g, false), kLongest, i % 2 == 0, device);
    if (!forward && !back && !weight) continue;
    const auto [x, w, dy, y, dx, dw] = test::Convolved(g, random);
    if (forward) {
      Values got(y.size(), 0.5);
      multiply(forward_products(g), *forward, w, x, got);
      ASSERT_EQ(got, y) << i;
      ++forwards;
    }
    if (back) {
      Values got(dx.size(), 0.5);
      multiply(data_products(g, 0), *back, w, dy, got);
      ASSERT_EQ(got, dx) << i;
      ++data;
    }
    if (weight) {
      Values got(dw.size());
      multiply(weight_products(g, false), *weight, dy, x, got);
      ASSERT_EQ(got, dw) << i;
      ++weights;
    }
  }
  EXPECT_GT(forwards, 10);
  EXPECT_GT(data, 5);
  EXPECT_GT(weights, 40);
}

// Every row of every run of places that begins at a multiple of their number.
TEST(Patch, HasRoomForAllItsRows) {
  std::mt19937 random(6);
  for (int i = 0; i < 1000; ++i) {
    const Convolution g = draw(random);
    const GatheredProduct p = forward_products(g).each[0];
    const PatchOverlap overlap = overlap_of(p.column, p.depth);
    for (const int places : {4, 20, 32, 96, 128, 256, 640})
      for (int n = 0; n < p.column.count; n += places)
        ASSERT_LE(region_of(overlap, p.column, n, std::min(n + places, p.column.count)).rows,
                  patch_rows(overlap, places, g.images))
            << i << ", " << places << " from " << n;
  }
}

void expect_tiles(const PatchTiles& tiling, const GatheredProduct& p, const PatchDevice& device) {
  EXPECT_LE(tiling.bytes, device.block_bytes);
  EXPECT_GE(tiling.bytes, 4 * (int64_t{tiling.table} + 2 * int64_t{tiling.stage}));
  EXPECT_EQ(tiling.table % 4, 0);
  EXPECT_EQ(tiling.stage % 4, 0);
  EXPECT_GE(tiling.tiles_m * tiling.rows(), p.m);
  EXPECT_GE(tiling.tiles_n * tiling.columns(), p.column.count);
  EXPECT_LT((tiling.tiles_n - 1) * tiling.columns(), p.column.count);
  EXPECT_LE(tiling.threads, 640);
}

TEST(PatchTiling, HoldsWhatAKernelKeepsInSharedMemory) {
  std::mt19937 random(7);
  int tilings = 0;
  for (int i = 0; i < 4000; ++i) {
    Convolution g = draw(random);
    g.in *= 1 + i % 20;
    g.out *= 1 + i % 9;
    g.images *= 1 + i % 30;
    const int masks = 1 + i % 2;
    for (const PatchDevice& device : {kH200, kSmall, kTiny}) {
      for (const GatheredProducts& all : {forward_products(g), data_products(g, 0)}) {
        const auto tiling = choose_patch_tiling(all, kLongest, masks == 2, device, kCounters);
        if (!tiling) continue;
        ++tilings;
        const GatheredProduct& p = all.each[0];
        const PatchOverlap overlap = overlap_of(p.column, p.depth);
        const int taps = overlap.taps[0] * overlap.taps[1], channels = p.depth.count / taps,
                  weights = tiling->channels * taps;
        expect_tiles(*tiling, p, device);
        EXPECT_GE(tiling->table, tiling->patch + 2 * weights * tiling->rows());
        EXPECT_GE(tiling->stage, tiling->channels * masks * tiling->patch + weights * tiling->line);
        EXPECT_GE(tiling->splits * tiling->each, channels);
        EXPECT_LT((tiling->splits - 1) * tiling->each, channels);
        EXPECT_LE(tiling->each * taps, std::max<int64_t>(kLongest, weights));
        EXPECT_LE(tiling->threads, 320);
        // A thread reads a row in fours.
        EXPECT_GE(tiling->pitch, overlap.width - 4 + (tiling->across + 6) / 4 * 4);
      }
      const GatheredProducts all = weight_products(g, false);
      const auto tiling = choose_weight_patch_tiling(all, kLongest, masks == 2, device);
      if (!tiling) continue;
      ++tilings;
      const GatheredProduct& p = all.each[0];
      const PatchOverlap overlap = overlap_of(p.depth, p.column);
      const int taps = overlap.taps[0] * overlap.taps[1];
      const int stages = (p.depth.count + tiling->places - 1) / tiling->places;
      expect_tiles(*tiling, p, device);
      for (int n = 0; n < p.column.count; n += tiling->columns())
        EXPECT_LE((std::min(n + tiling->columns(), p.column.count) - 1) / taps - n / taps + 1,
                  tiling->channels);
      EXPECT_GE(tiling->table, 2 * tiling->patch + 5 * (tiling->places / 4) + tiling->rows());
      EXPECT_GE(tiling->stage,
                tiling->channels * tiling->patch + masks * tiling->places * tiling->rows());
      EXPECT_GE(tiling->bytes, 4 * tiling->warps_k * tiling->rows() * tiling->columns());
      EXPECT_GE(tiling->splits * tiling->each, stages);
      EXPECT_LT((tiling->splits - 1) * tiling->each, stages);
      EXPECT_LE(tiling->each * tiling->places / tiling->warps_k, kLongest);
    }
  }
  EXPECT_GT(tilings, 4000);
}

TEST(PatchTiling, GetsSmallerOnASmallerDevice) {
  const Convolution g = convolution(64, 64, 64, 32, 32, 3, 1);
  const auto large = choose_patch_tiling(forward_products(g), kLongest, false, kH200, kCounters),
             small = choose_patch_tiling(forward_products(g), kLongest, false, kSmall, kCounters);
  ASSERT_TRUE(large && small);
  EXPECT_LE(small->bytes, kSmall.block_bytes);
  EXPECT_FALSE(choose_patch_tiling(forward_products(g), kLongest, false, kTiny, kCounters));
  EXPECT_TRUE(choose_weight_patch_tiling(weight_products(g, false), kLongest, false, kH200));
  EXPECT_FALSE(choose_weight_patch_tiling(weight_products(g, false), kLongest, false, kTiny));
}

TEST(PatchTiling, CutsLongSumsAlsoWhereTilesFillTheDevice) {
  const Convolution g = convolution(256, 512, 512, 56, 56, 3, 1);
  const auto weight = choose_weight_patch_tiling(weight_products(g, false), kLongest, false, kH200);
  ASSERT_TRUE(weight);
  EXPECT_LE(weight->each * weight->places / weight->warps_k, kLongest);
  const Convolution huge = convolution(1 << 19, 1, 8, 32, 32, 3, 1);
  const auto most = choose_weight_patch_tiling(weight_products(huge, false), 32, false, kH200);
  ASSERT_TRUE(most);
  EXPECT_LE(most->splits, kMostParts);
}

TEST(PatchTiling, LeavesToOthersWhat32BitsDoNotCount) {
  // Rows of a patch whose bytes need 33 bits.
  Convolution far = convolution(1, 1, 8, (1 << 27) + 4, 8, 3, 1);
  far.dilation[1] = 1 << 26;
  far.padding[1] = 0;
  far.result[1] = 4;
  ASSERT_TRUE(gatherable(far, 1));
  EXPECT_FALSE(choose_patch_tiling(forward_products(far), kLongest, false, kH200, kCounters));
  EXPECT_FALSE(choose_weight_patch_tiling(weight_products(far, false), kLongest, false, kH200));
  // The last tile's columns and the last stage's places end beyond 2^31.
  const Convolution many = convolution((1 << 27) - 1, 1, 1, 4, 4, 3, 1);
  ASSERT_TRUE(gatherable(many, many.images));
  EXPECT_FALSE(choose_patch_tiling(forward_products(many), kLongest, false, kH200, kCounters));
  EXPECT_FALSE(choose_patch_tiling(data_products(many, 0), kLongest, false, kH200, kCounters));
  EXPECT_FALSE(choose_weight_patch_tiling(weight_products(many, false), kLongest, false, kH200));
  const Convolution fewer = convolution((1 << 27) - 64, 1, 1, 4, 4, 3, 1);
  EXPECT_TRUE(choose_patch_tiling(forward_products(fewer), kLongest, false, kH200, kCounters));
}

}  // namespace
}  // namespace locus::cuda
