#include <gtest/gtest.h>

#include <random>
#include <vector>

#include <locus/ops/convolution/gathered.h>
#include <locus/ops/convolution/gathered_tiling.h>
#include "tests/convolution/convolved.h"

namespace locus::cuda {
namespace {

using Values = std::vector<double>;

// The offset that a column or depth adds, as the header defines it.
struct Steps {
  int64_t b, other, at[3];
};
Steps steps(const Side& s, int64_t i) {
  int64_t digit[4];
  for (int d = 3; d > 0; --d) {
    digit[d] = i % s.length[d - 1].value;
    i = s.length[d - 1].divide(static_cast<uint32_t>(i));
  }
  digit[0] = i;
  Steps r{s.b.base, s.other.base, {}};
  for (int d = 0; d < 4; ++d) {
    r.b += digit[d] * s.b.stride[d];
    r.other += digit[d] * s.other.stride[d];
  }
  for (int a = 0; a < 3; ++a) r.at[a] = s.base[a] + s.step[a] * digit[s.first + a];
  return r;
}

// Computes c; elements outside all products stay unchanged.
void multiply(const GatheredProducts& all, const Values& a, const Values& b, Values& c) {
  for (int64_t group = 0; group < all.groups; ++group)
    for (int i = 0; i < all.n; ++i) {
      const GatheredProduct& p = all.each[i];
      for (int64_t row = 0; row < p.m; ++row)
        for (int64_t column = 0; column < p.column.count; ++column) {
          const Steps to = steps(p.column, column);
          double sum = 0;
          for (int64_t depth = 0; depth < p.depth.count; ++depth) {
            const Steps from = steps(p.depth, depth);
            bool inside = true;
            for (int x = 0; x < 3; ++x) {
              const int64_t at = to.at[x] + from.at[x];
              inside = inside && at >= 0 && at < p.extent[x];
            }
            EXPECT_TRUE(inside || !p.inside);
            if (inside)
              sum += a.at(static_cast<size_t>(group * all.a_group + row * p.a_row + from.other)) *
                     b.at(static_cast<size_t>(group * all.b_group + to.b + from.b));
          }
          c.at(static_cast<size_t>(group * all.c_group + row * p.c_row + to.other)) = sum;
        }
    }
}

Convolution draw(std::mt19937& random) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Convolution g;
  const bool many = pick(0, 9) == 0;  // small images, enough of them for separate products
  g.images = many ? 32 : pick(1, 3);
  g.groups = pick(1, 2);
  g.in = many ? 32 : pick(1, 3);
  g.out = pick(1, 3);
  g.channels_last = pick(0, 1) == 1;
  for (int a = 0; a < 3; ++a) {
    const bool there = a > 0 || pick(0, 2) == 0;
    g.kernel[a] = there ? pick(1, 4) : 1;
    g.stride[a] = there ? pick(1, 4) : 1;
    g.dilation[a] = there ? pick(1, 3) : 1;
    g.padding[a] = there ? pick(0, 4) : 0;
    const int64_t span = kernel_span(g.kernel[a], g.dilation[a]);
    g.data[a] = std::max<int64_t>(1, span - 2 * g.padding[a]) + (there ? pick(0, many ? 1 : 4) : 0);
    g.result[a] = convolved_length(g.data[a], span, g.stride[a], g.padding[a]);
  }
  return g;
}

TEST(Gathered, ProductsAreTheConvolutionAndItsGradients) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const Convolution g = draw(random);
    const auto [x, w, dy, y, dx, dw] = test::Convolved(g, random);
    ASSERT_TRUE(gatherable(g, g.images));
    Values got(y.size(), 0.5);
    multiply(forward_products(g), w, x, got);
    ASSERT_EQ(got, y) << i;
    got.assign(dx.size(), 0.5);
    for (int64_t phase = 0; phase < data_phases(g); phase += kMostProducts)
      multiply(data_products(g, phase), w, dy, got);
    ASSERT_EQ(got, dx) << i;
    for (const bool cuts : {false, true}) {
      const GatheredProducts weight = weight_products(g, cuts);
      got.assign(dw.size(), weight.whole ? 0.5 : 0);
      multiply(weight, dy, x, got);
      ASSERT_EQ(got, dw) << i;
    }
  }
}

TEST(Gathered, TapsThatReadOnlyPaddingAreLeftOut) {
  Convolution g;
  g.images = 5, g.in = 4, g.out = 6;
  for (int a = 0; a < 3; ++a) {
    g.data[a] = g.result[a] = g.stride[a] = g.dilation[a] = 1;
    g.kernel[a] = a == 0 ? 1 : 3;
    g.padding[a] = a == 0 ? 0 : 1;
  }
  EXPECT_EQ(forward_products(g).each[0].depth.count, 4);
  EXPECT_EQ(data_products(g, 0).each[0].depth.count, 6);
  EXPECT_EQ(weight_products(g, false).each[0].column.count, 4);
  EXPECT_FALSE(weight_products(g, false).whole);
}

// A small image whose places have few taps each, and different ones.
Convolution small_image() {
  Convolution g;
  g.images = g.in = g.out = 32;
  for (int a = 0; a < 3; ++a) {
    g.data[a] = g.result[a] = a == 0 ? 1 : 2;
    g.stride[a] = g.dilation[a] = 1;
    g.kernel[a] = a == 0 ? 1 : 3;
    g.padding[a] = a == 0 ? 0 : 1;
  }
  return g;
}

TEST(Gathered, EachPlaceOfASmallImageIsAProductOfItsTapsInside) {
  const Convolution g = small_image();
  for (const GatheredProducts& all : {forward_products(g), data_products(g, 0)}) {
    ASSERT_EQ(all.n, 4);
    for (int i = 0; i < all.n; ++i) {
      EXPECT_EQ(all.each[i].column.count, 32);
      EXPECT_EQ(all.each[i].depth.count, 32 * 4);
      EXPECT_TRUE(all.each[i].inside);
    }
  }
  const GatheredProducts weight = weight_products(g, true);
  ASSERT_EQ(weight.n, 9);
  EXPECT_EQ(weight.each[0].depth.count, 32);
  EXPECT_EQ(weight.each[1].depth.count, 32 * 2);
  EXPECT_EQ(weight.each[4].depth.count, 32 * 4);
  EXPECT_EQ(weight_products(g, false).n, 1);
  Convolution few = g;
  few.images = 4;
  EXPECT_EQ(forward_products(few).n, 1);
}

TEST(Gathered, PlacesThatNeedMoreThan32BitsAreKnown) {
  Convolution g;
  g.images = 1, g.in = 1024, g.out = 1;
  for (int a = 0; a < 3; ++a) {
    g.data[a] = g.result[a] = a == 0 ? 1 : 1024;
    g.kernel[a] = g.stride[a] = g.dilation[a] = 1;
    g.padding[a] = 0;
  }
  EXPECT_TRUE(gatherable(g, 1));
  EXPECT_FALSE(gatherable(g, 2));
}

TEST(GatheredTiling, CutsAllOfTheDepthAndKeepsPartsShort) {
  for (int64_t k : {0, 1, 15, 16, 17, 4096, 4097, 100000})
    for (int64_t n : {1, 100, 100000}) {
      const GatheredSize size{n, k};
      const GatheredTiling p =
          choose_gathered_tiling(kCoreTiles, 64, {&size, 1}, 1, 4096, 132, 8192);
      EXPECT_GE(int64_t{p.splits} * p.k_split, k);
      EXPECT_LT(int64_t{p.splits - 1} * p.k_split, std::max<int64_t>(k, 1));
      EXPECT_LE(p.k_split, 4096);
      EXPECT_LE(p.tiles, p.splits > 1 ? 8192 : 1 << 30);
    }
}

TEST(GatheredTiling, CutsAHugeDepthIntoAFewParts) {
  for (int64_t k : {int64_t{1} << 22, (int64_t{1} << 22) + 1, int64_t{1} << 30}) {
    const GatheredSize size{1, k};
    const GatheredTiling p = choose_gathered_tiling(kCoreTiles, 1, {&size, 1}, 1, 4096, 132, 8192);
    EXPECT_GE(int64_t{p.splits} * p.k_split, k);
    EXPECT_LE(p.splits, kMostParts);
    EXPECT_GT(p.splits, kMostParts / 2);
  }
}

}  // namespace
}  // namespace locus::cuda
