#include <locus/ops/convolution/convolution_ways.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <locus/ops/matmul.h>

#include "tests/support/contexts.h"

namespace locus::cuda {
namespace {

// A square layer, padded so that its result is 1 / stride of the data.
Convolution layer(int64_t images, int64_t in, int64_t side, int64_t out, int64_t kernel,
                  int64_t stride = 1) {
  Convolution g;
  g.images = images;
  g.in = in;
  g.out = out;
  for (int a = 0; a < 3; ++a) {
    g.data[a] = a > 0 ? side : 1;
    g.kernel[a] = a > 0 ? kernel : 1;
    g.stride[a] = a > 0 ? stride : 1;
    g.padding[a] = g.kernel[a] / 2;
    g.dilation[a] = 1;
    g.result[a] = convolved_length(g.data[a], g.kernel[a], g.stride[a], g.padding[a]);
  }
  return g;
}
using Wins = std::vector<bool>;
// By kind.
Wins wins(const Convolution& g, DType d, Precision precision = Precision::f32) {
  const Precision before = matmul_precision();
  set_matmul_precision(precision);
  Wins all;
  for (const DnnKind kind : {DnnKind::forward, DnnKind::data_gradient, DnnKind::weight_gradient})
    all.push_back(dnn_convolution_wins(dnn_convolution(g, kind, d)));
  set_matmul_precision(before);
  return all;
}

TEST(ConvolutionWays, LargeOnesOnTensorCoresAreOfTheLibrary) {
  Convolution g = layer(64, 64, 8, 64, 3);
  EXPECT_EQ(wins(g, f32, Precision::tf32), Wins(3, true));
  EXPECT_EQ(wins(g, f64, Precision::tf32), Wins(3, false));
  g.channels_last = true;
  EXPECT_EQ(wins(g, f16), Wins(3, true));
  EXPECT_EQ(wins(g, bf16), Wins(3, true));
}

TEST(ConvolutionWays, TheLibraryTakesExactOnesWithManyChannelsInAndOut) {
  EXPECT_EQ(wins(layer(64, 64, 8, 64, 3), f32), (Wins{true, false, true}));
  EXPECT_EQ(wins(layer(256, 20, 16, 50, 5), f32), Wins(3, false));
  EXPECT_EQ(wins(layer(256, 64, 8, 128, 3, 2), f32), Wins(3, false));
  EXPECT_EQ(wins(layer(256, 256, 2, 256, 3), f32), Wins(3, false));
  EXPECT_EQ(wins(layer(256, 256, 14, 64, 1), f32), Wins(3, false));
}

TEST(ConvolutionWays, SmallOnesAreOurs) {
  EXPECT_EQ(wins(layer(256, 64, 8, 128, 1, 2), bf16), (Wins{false, true, false}));
  EXPECT_EQ(wins(layer(4, 16, 8, 16, 3), bf16), Wins(3, false));
}

TEST(ConvolutionWays, ThoseOfFewResultsAnImageOrInGroupsAreOurs) {
  EXPECT_EQ(wins(layer(256, 256, 2, 256, 3), bf16), Wins(3, true));
  EXPECT_EQ(wins(layer(256, 512, 1, 512, 3), bf16), Wins(3, false));
  Convolution g = layer(256, 64, 8, 64, 3);
  g.groups = 2;
  EXPECT_EQ(wins(g, bf16), Wins(3, false));
}

TEST(ConvolutionWays, AreReadByTheirWholeNames) {
  const auto read = [](const std::string& name) { return convolution_way(name, 13, "the key"); };
  EXPECT_EQ(read("ours").tile, -1);
  EXPECT_EQ(read("ours 2").tile, 2);
  EXPECT_EQ(read("ours 12").tile, 12);
  EXPECT_EQ(read("ours 12").plan, "");
  EXPECT_EQ(read("cudnn 28 1=2").plan, "cudnn 28 1=2");
}

TEST(ConvolutionWays, OthersAreRefusedWithTheirKeys) {
  for (const char* name : {"", "our", "ours ", "ours  2", "ours 02", "ours +2", "ours -1",
                           "ours 2x", "ours 13", "ours 99999999999", "cudnn", "gathered 1"}) {
    const std::string text = test::message_of<FormatError>(
        [&] { convolution_way(name, 13, "convolution forward f32"); });
    EXPECT_THAT(text, testing::HasSubstr(text_of("'", name, "'")));
    EXPECT_THAT(text, testing::HasSubstr("convolution forward f32"));
  }
}

TEST(ConvolutionWays, NumbersAreOfAllOfTheConvolution) {
  const DnnConvolution c = dnn_convolution(layer(4, 8, 8, 8, 3), DnnKind::forward, f32);
  const auto other = [&](const auto& change) {
    DnnConvolution changed = c;
    change(changed);
    EXPECT_NE(way_numbers(changed, 0, true), way_numbers(c, 0, true));
  };
  other([](DnnConvolution& d) { d.kind = DnnKind::data_gradient; });
  other([](DnnConvolution& d) { d.dtype = bf16; });
  for (bool DnnConvolution::*flag : {&DnnConvolution::channels_last, &DnnConvolution::tf32,
                                     &DnnConvolution::bias, &DnnConvolution::relu})
    other([=](DnnConvolution& d) { d.*flag = true; });
  for (int64_t DnnConvolution::*n : {&DnnConvolution::images, &DnnConvolution::groups,
                                     &DnnConvolution::in, &DnnConvolution::out})
    other([=](DnnConvolution& d) { ++(d.*n); });
  for (int64_t(DnnConvolution::*n)[3] :
       {&DnnConvolution::data, &DnnConvolution::kernel, &DnnConvolution::result,
        &DnnConvolution::stride, &DnnConvolution::padding, &DnnConvolution::dilation})
    for (int a = 0; a < 3; ++a) other([=](DnnConvolution& d) { ++(d.*n)[a]; });
  EXPECT_NE(way_numbers(c, 1, true), way_numbers(c, 0, true));
  EXPECT_NE(way_numbers(c, 0, false), way_numbers(c, 0, true));
}

}  // namespace
}  // namespace locus::cuda
