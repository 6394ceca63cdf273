#include <locus/ops/convolution/convolution_ways.h>

#include <gtest/gtest.h>

#include <locus/ops/matmul.h>

namespace locus::cuda {
namespace {

// A square one, padded so that its result is 1 / stride of the data.
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

TEST(ConvolutionWays, ExactOnesAreOfTheLibraryWhereManyChannelsMeetAsMany) {
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

}  // namespace
}  // namespace locus::cuda
