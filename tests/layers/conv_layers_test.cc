#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

#include <locus/core/autograd.h>
#include <locus/core/generator.h>
#include <locus/core/kernel.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>
#include <locus/nn/containers.h>
#include <locus/nn/conv_layers.h>
#include <locus/nn/init.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/parameter.h>
#include <locus/nn/pool_layers.h>
#include <locus/nn/trainer.h>
#include <locus/ops/activation.h>
#include <locus/ops/convolution.h>
#include <locus/ops/create.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/spatial_axes.h>

namespace locus {
namespace {

using test::values;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Values = std::vector<double>;

TEST(ConvLayers, LearnTheirInChannelsAndComputeTheConvolution) {
  for (Context c : test::contexts()) {
    nn::Conv2D layer(4, {3, 2}, {.strides = {1, 2}, .padding = 1, .activation = nn::relu});
    layer.initialize(init::Uniform(), c);
    EXPECT_EQ(layer.parameter("weight").shape(), (Shape{4, 0, 3, 2}));
    const Tensor x = sample_values(c, f32, {2, 3, 5, 6});
    const Tensor y = layer(x);
    const Tensor w = layer.parameter("weight").data();
    EXPECT_EQ(w.shape(), (Shape{4, 3, 3, 2}));
    EXPECT_EQ(y.context(), c);
    const Tensor expected =
        relu(convolution(x, w, layer.parameter("bias").data(), {.strides = {1, 2}, .padding = 1}));
    // The two may use different algorithms (core/tuning.h).
    test::expect_near(values(y), values(expected), 1e-6, "activation within and after");
  }
}

TEST(ConvLayers, TakeEveryRankAndLayout) {
  const auto shape = [](nn::Block&& layer, const Shape& x) {
    layer.initialize();
    return layer(ones(x)).shape();
  };
  EXPECT_EQ(shape(nn::Conv1D(4, 3), {2, 3, 9}), (Shape{2, 4, 7}));
  EXPECT_EQ(shape(nn::Conv1D(4, 3, {.layout = "NWC"}), {2, 9, 3}), (Shape{2, 7, 4}));
  EXPECT_EQ(shape(nn::Conv2D(4, 3, {.groups = 2, .layout = "NHWC"}), {2, 9, 8, 6}),
            (Shape{2, 7, 6, 4}));
  EXPECT_EQ(shape(nn::Conv3D(4, {1, 2, 3}, {.dilation = 2}), {2, 3, 5, 5, 5}),
            (Shape{2, 4, 5, 3, 1}));
  EXPECT_EQ(shape(nn::Conv1DTranspose(4, 3), {2, 3, 9}), (Shape{2, 4, 11}));
  EXPECT_EQ(shape(nn::Conv2DTranspose(6, 2, {.strides = 2, .output_padding = 1, .groups = 3}),
                  {2, 3, 4, 5}),
            (Shape{2, 6, 9, 11}));
  EXPECT_EQ(shape(nn::Conv3DTranspose(2, 2, {.layout = "NDHWC"}), {1, 2, 2, 2, 3}),
            (Shape{1, 3, 3, 3, 2}));
}

TEST(ConvLayers, TransposesAddBiasAndActivation) {
  nn::Conv2DTranspose layer(2, 1, {.activation = nn::relu, .bias_initializer = init::Constant(-2)});
  layer.initialize(init::One(), cpu());
  EXPECT_EQ(values(layer(array({1.f, 2.f, 5.f}).reshape({1, 1, 1, 3}))),
            (Values{0, 0, 3, 0, 0, 3}));
  EXPECT_EQ(layer.parameter("weight").shape(), (Shape{1, 2, 1, 1}));
}

TEST(ConvLayers, ReadAsGluonPrintsThem) {
  EXPECT_EQ(nn::Conv1D(4, 3).repr(), "Conv1D(None -> 4, kernel_size=(3,), stride=(1,))");
  EXPECT_EQ(nn::Conv2D(20, 5, {.activation = nn::relu}).repr(),
            "Conv2D(None -> 20, kernel_size=(5, 5), stride=(1, 1), Activation(relu))");
  EXPECT_EQ(nn::Conv2D(20, {5, 3},
                       {.strides = 2,
                        .padding = {1, 0},
                        .dilation = 2,
                        .groups = 2,
                        .use_bias = false,
                        .in_channels = 4})
                .repr(),
            "Conv2D(2 -> 20, kernel_size=(5, 3), stride=(2, 2), padding=(1, 0), dilation=(2, 2), "
            "groups=2, bias=False)");
  EXPECT_EQ(nn::Conv3D(2, 3, {.padding = 1}).repr(),
            "Conv3D(None -> 2, kernel_size=(3, 3, 3), stride=(1, 1, 1), padding=(1, 1, 1))");
  EXPECT_EQ(nn::Conv2DTranspose(3, 2, {.strides = 2, .in_channels = 5}).repr(),
            "Conv2DTranspose(5 -> 3, kernel_size=(2, 2), stride=(2, 2))");
  EXPECT_EQ(nn::Conv2D(8, 3, {.layout = "NHWC", .in_channels = 3}).repr(),
            "Conv2D(3 -> 8, kernel_size=(3, 3), stride=(1, 1))");
}

TEST(ConvLayers, ErrorsNameTheLayer) {
  const auto text = [](const auto& f) { return test::message_of<Error>(f); };
  nn::Conv2D layer(4, 3, {.in_channels = 3});
  layer.initialize();
  EXPECT_THAT(
      text([&] {
        layer(ones({2, 3, 8}));
      }),
      HasSubstr("Conv2D: input cpu(0) (2,3,8) f32; expected 4 axes, NCHW (in Conv2D(3 -> 4, "
                "kernel_size=(3, 3), stride=(1, 1)))"));
  EXPECT_THAT(text([&] {
                layer(ones({2, 8, 8, 3}));
              }),
              HasSubstr("expected 3 channels on axis 1 (NCHW), got 8"));
  EXPECT_THAT(text([&] {
                layer(ones({2, 3, 2, 8}));
              }),
              AllOf(StartsWith("convolution: data"),
                    HasSubstr("(in Conv2D(3 -> 4, kernel_size=(3, 3), stride=(1, 1)))")));
  EXPECT_THAT(text([&] { nn::Conv1D(0, 3); }), HasSubstr("Conv1D: channels 0"));
  EXPECT_THAT(text([&] { nn::Conv2D(4, 3, {.groups = 3}); }), HasSubstr("multiples of groups"));
  EXPECT_THAT(text([&] { nn::Conv2DTranspose(4, 3, {.output_padding = 1}); }),
              HasSubstr("Conv2DTranspose: kernel 3"));
  EXPECT_THAT(text([&] {
                nn::Conv2D(4, {1, 2, 3});
              }),
              HasSubstr("Conv2D: kernel: expected a number or 2 of them"));
  nn::Conv2D fresh(4, 3);
  fresh.initialize();
  EXPECT_THAT(text([&] {
                fresh(ones({2, 0, 8, 8}));
              }),
              HasSubstr("Conv2D: input cpu(0) (2,0,8,8) f32 has no channels; expected at least one "
                        "on axis 1 (NCHW)"));
  EXPECT_THAT(text([&] {
                layer(ones({2, 3, 8, 8}).astype(u8));
              }),
              HasSubstr("got data of u8; cast it: data.astype(f32)"));
  nn::Conv2D grouped(4, 1, {.groups = 2});
  grouped.initialize();
  EXPECT_THAT(text([&] {
                grouped(ones({1, 3, 2, 2}));
              }),
              HasSubstr("a multiple of groups 2, got 3"));
}

TEST(ConvLayers, TrainLeNet) {
  for (Context c : test::contexts()) {
    random::seed(3);
    nn::Sequential net;
    net.add(nn::Conv2D(6, 5, {.activation = nn::relu}), nn::MaxPool2D(2, {.strides = 2}),
            nn::Conv2D(8, {3, 3}, {.activation = nn::relu}), nn::MaxPool2D(2, {.strides = 2}),
            nn::Flatten(), nn::Dense(20, nn::relu), nn::Dense(3));
    net.initialize(init::Xavier(), c);
    nn::SoftmaxCrossEntropyLoss loss_fn;
    const Tensor x = random::uniform(0, 1, {12, 1, 20, 20}, c),
                 label = random::randint(0, 3, {12}, c);
    net(x);
    nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 0.3}));
    float first = 0, last = 0;
    for (int i = 0; i < 100; ++i) {
      Tensor loss;
      {
        autograd::Record record;
        loss = loss_fn(net(x), label);
      }
      loss.backward();
      trainer.step(12);
      last = mean(loss).item<float>();
      if (i == 0) first = last;
    }
    EXPECT_LT(last, first / 2);
  }
}

}  // namespace
}  // namespace locus
