#include "tests/support/contexts.h"

#include <locus/core/kernel.h>
#include <locus/nn/block.h>
#include <locus/nn/pool_layers.h>
#include <locus/ops/create.h>
#include <locus/ops/pooling.h>

namespace locus {
namespace {

using test::values;
using testing::HasSubstr;

TEST(PoolLayers, PoolEveryRankAndLayout) {
  const auto shape = [](nn::Block&& layer, const Shape& x) { return layer(ones(x)).shape(); };
  EXPECT_EQ(shape(nn::MaxPool1D(), {2, 3, 9}), (Shape{2, 3, 4}));
  EXPECT_EQ(shape(nn::MaxPool2D(3, {.strides = 2, .ceil_mode = true}), {2, 3, 8, 9}),
            (Shape{2, 3, 4, 4}));
  EXPECT_EQ(shape(nn::MaxPool3D(2, {.layout = "NDHWC"}), {2, 4, 5, 6, 3}), (Shape{2, 2, 2, 3, 3}));
  EXPECT_EQ(shape(nn::AvgPool1D(3, {.padding = 1}), {2, 3, 9}), (Shape{2, 3, 3}));
  EXPECT_EQ(shape(nn::AvgPool2D({2, 3}), {2, 3, 8, 9}), (Shape{2, 3, 4, 3}));
  EXPECT_EQ(shape(nn::AvgPool3D(), {2, 3, 4, 5, 6}), (Shape{2, 3, 2, 2, 3}));
  EXPECT_EQ(shape(nn::GlobalMaxPool1D(), {2, 3, 9}), (Shape{2, 3, 1}));
  EXPECT_EQ(shape(nn::GlobalMaxPool2D("NHWC"), {2, 8, 9, 3}), (Shape{2, 1, 1, 3}));
  EXPECT_EQ(shape(nn::GlobalMaxPool3D(), {2, 3, 4, 5, 6}), (Shape{2, 3, 1, 1, 1}));
  EXPECT_EQ(shape(nn::GlobalAvgPool1D("NWC"), {2, 9, 3}), (Shape{2, 1, 3}));
  EXPECT_EQ(shape(nn::GlobalAvgPool2D(), {2, 3, 8, 9}), (Shape{2, 3, 1, 1}));
  EXPECT_EQ(shape(nn::GlobalAvgPool3D(), {2, 3, 4, 5, 6}), (Shape{2, 3, 1, 1, 1}));
  EXPECT_EQ(shape(nn::AdaptiveAvgPool2D({3, 2}), {2, 3, 8, 9}), (Shape{2, 3, 3, 2}));
}

TEST(PoolLayers, ComputeWhatTheirOpsDo) {
  for (Context c : test::contexts()) {
    const Tensor x = sample_values(c, f32, {2, 3, 7, 6});
    EXPECT_EQ(values(nn::MaxPool2D(3, {.strides = {2, 1}, .padding = 1})(x)),
              values(max_pool(x, 3, {.strides = {2, 1}, .padding = 1})));
    EXPECT_EQ(values(nn::AvgPool2D(3, {.padding = 1, .count_include_pad = false})(x)),
              values(avg_pool(x, 3, {.padding = 1, .count_include_pad = false})));
    EXPECT_EQ(values(nn::AdaptiveAvgPool2D(2)(x)), values(adaptive_avg_pool(x, 2)));
  }
}

TEST(PoolLayers, ReadAsGluonPrintsThem) {
  EXPECT_EQ(nn::MaxPool1D().repr(),
            "MaxPool1D(size=(2,), stride=(2,), padding=(0,), ceil_mode=False, global_pool=False, "
            "pool_type=max, layout=NCW)");
  EXPECT_EQ(nn::MaxPool2D({2, 3}, {.padding = 1, .ceil_mode = true}).repr(),
            "MaxPool2D(size=(2, 3), stride=(2, 3), padding=(1, 1), ceil_mode=True, "
            "global_pool=False, pool_type=max, layout=NCHW)");
  EXPECT_EQ(nn::AvgPool2D(3, {.strides = {1, 2}, .layout = "NHWC"}).repr(),
            "AvgPool2D(size=(3, 3), stride=(1, 2), padding=(0, 0), ceil_mode=False, "
            "global_pool=False, pool_type=avg, layout=NHWC)");
  EXPECT_EQ(nn::GlobalAvgPool3D().repr(),
            "GlobalAvgPool3D(size=(1, 1, 1), stride=(1, 1, 1), padding=(0, 0, 0), ceil_mode=True, "
            "global_pool=True, pool_type=avg, layout=NCDHW)");
  EXPECT_EQ(nn::AdaptiveAvgPool2D({3, 2}).repr(), "AdaptiveAvgPool2D(size=(3, 2), layout=NCHW)");
}

TEST(PoolLayers, ErrorsNameTheLayer) {
  const auto text = [](const auto& f) { return test::message_of<Error>(f); };
  nn::MaxPool2D layer;
  EXPECT_THAT(
      text([&] {
        layer(ones({2, 8}));
      }),
      HasSubstr("MaxPool2D: input cpu(0) (2,8) f32; expected 4 axes, NCHW (in MaxPool2D(size"));
  EXPECT_THAT(text([&] {
                layer(ones({2, 3, 1, 8}));
              }),
              HasSubstr("max_pool: data cpu(0) (2,3,1,8) f32: expected axis 2"));
  EXPECT_THAT(text([&] { nn::AvgPool1D(2, {.padding = 2}); }), HasSubstr("AvgPool1D: size 2"));
  EXPECT_THAT(text([&] { nn::GlobalMaxPool2D("HWC"); }), HasSubstr("GlobalMaxPool2D: layout"));
}

}  // namespace
}  // namespace locus
