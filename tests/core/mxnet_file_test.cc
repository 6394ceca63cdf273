// tests/data/lenet_mxnet191.params: MXNet 1.9.1's save_parameters() of a small LeNet (2 and 3
// channels, 8 units) with Xavier weights.
#include <locus/core/kernel.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>
#include <locus/nn/containers.h>
#include <locus/nn/conv_layers.h>
#include <locus/nn/layers.h>
#include <locus/nn/parameter.h>
#include <locus/nn/pool_layers.h>
#include <locus/ops/create.h>

#include "tests/support/contexts.h"

namespace locus {
namespace {

const char* const kFile = LOCUS_TEST_DATA "/lenet_mxnet191.params";

TEST(MXNetFile, ALeNetGivesMXNetsNumbers) {
  std::vector<float> pixels(2 * 28 * 28);
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.37));
  const std::vector<double> expected = {
      -0.00574405538, 0.0270558242,  0.0860083625, -0.0884623975, -0.111470506,
      -0.0198282003,  -0.0459848046, -0.15305984,  0.130563751,   0.135808975,
      0.0181821678,   0.0493532158,  0.0333731808, -0.0402916931, 0.0321092233,
      0.0563411005,   0.0552312844,  0.0173665807, -0.0415644646, 0.00410298817};
  for (Context c : test::contexts()) {
    nn::Sequential net;
    net.add(nn::Conv2D(2, 5, {.activation = nn::relu}), nn::MaxPool2D(2, {.strides = 2}),
            nn::Conv2D(3, 5, {.activation = nn::relu}), nn::MaxPool2D(2, {.strides = 2}),
            nn::Flatten(), nn::Dense(8, nn::relu), nn::Dense(10));
    net.load_parameters(kFile, c);
    const Tensor y = net(array(pixels, {2, 1, 28, 28}, c));
    const std::vector<double> got = test::values(y);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << c;
  }
}

TEST(MXNetFile, IsRefusedByAnotherNetworkBeforeItIsTouched) {
  nn::Sequential net;
  net.add(nn::Conv2D(2, 5), nn::MaxPool2D(2), nn::Conv2D(4, 5), nn::MaxPool2D(2), nn::Flatten(),
          nn::Dense(8), nn::Dense(10));
  net.initialize();
  EXPECT_THROW(net.load_parameters(kFile), ShapeError);
  EXPECT_FALSE(net.parameter("0.weight").initialized());
}

}  // namespace
}  // namespace locus
