#include <locus/nn/containers.h>

#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>
#include <locus/nn/layers.h>
#include <locus/nn/parameter.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include "tests/support/contexts.h"

namespace locus {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

nn::Lambda times(double factor) {
  return nn::Lambda([=](const Tensor& x) { return x * factor; });
}
struct SumAndDifference : nn::Block {
  Tensors forward(const Tensors& in) override { return {in[0] + in[1], in[0] - in[1]}; }
};
struct Product : nn::Block {
  Tensors forward(const Tensors& in) override { return {in[0] * in[1]}; }
};

TEST(Sequential, HandsSeveralResultsOn) {
  nn::Sequential net;
  net.add(SumAndDifference(), Product(), times(2));
  const Tensor x = array({5.f}), y = array({3.f});
  EXPECT_EQ(test::values(net({x, y})[0]), (std::vector<double>{32}));
}

TEST(Sequential, IsMadeOfLayers) {
  nn::Sequential net{times(2), nn::Activate(nn::relu), times(5)};
  EXPECT_EQ(net.size(), 3);
  EXPECT_EQ(test::values(net(array({-1.f, 3.f}))), (std::vector<double>{0, 30}));
  EXPECT_EQ(nn::Sequential{times(2)}.size(), 1);
  EXPECT_EQ(nn::Sequential{}.size(), 0);
}

TEST(Sequential, SharesTheLayersThatItIsMadeOf) {
  nn::Dense hidden(3), output(2);
  nn::Sequential net{hidden, output, nn::Sequential()};
  EXPECT_TRUE(net.parameter("0.weight").is(hidden.parameter("weight")));
  EXPECT_TRUE(net.parameter("1.weight").is(output.parameter("weight")));
}

// The copy constructor of a subclass copies its base as well.
TEST(Sequential, OfOneSequentialIsACopy) {
  struct Net : nn::Sequential {
    Net() : Sequential(nn::Dense(3), nn::Dense(2)) {}
  } net;
  const Net copy(net);
  EXPECT_EQ(copy.size(), 2);
  const nn::Sequential& base = net;
  EXPECT_EQ(nn::Sequential{base}.size(), 2);
  EXPECT_TRUE(nn::Sequential{base}.parameter("1.weight").is(net.parameter("1.weight")));
}

TEST(Sequential, ASliceSharesItsLayers) {
  nn::Sequential net;
  net.add(nn::Dense(3), nn::Dense(2), nn::Dense(1));
  nn::Sequential last = net.slice(-2, 3);
  EXPECT_EQ(last.size(), 2);
  EXPECT_TRUE(last.parameter("0.weight").is(net.parameter("1.weight")));
  EXPECT_THROW(net.slice(1, 4), IndexError);
  EXPECT_THROW(net.slice(2, 1), IndexError);
}

TEST(Concurrent, JoinsTheResultsOfItsBranches) {
  nn::Concurrent branches(1);
  EXPECT_THROW(branches(ones({1, 2})), Error);
  branches.add(times(2), times(3));
  EXPECT_EQ(test::values(branches(array({{1.f, 2.f}}))), (std::vector<double>{2, 4, 3, 6}));
}

TEST(Residual, AddsTheShortcut) {
  const Tensor x = array({{1.f, -2.f}});
  EXPECT_EQ(test::values(nn::Residual(times(2))(x)), (std::vector<double>{3, -6}));
  EXPECT_EQ(test::values(nn::Residual(times(2), times(-1), nn::relu)(x)),
            (std::vector<double>{1, 0}));
}

TEST(Residual, RefusesABodyOfAnotherShape) {
  const std::string text = test::message_of<ShapeError>([] {
    nn::Residual(nn::Lambda([](const Tensor& x) { return x.reshape({4}); }))(ones({2, 2}));
  });
  EXPECT_THAT(text, HasSubstr("the body gives cpu(0) (4,) f32, the shortcut cpu(0) (2,2) f32"));
}

TEST(Residual, NamesItsChildren) {
  nn::Residual block(nn::Dense(2), nn::Dense(2, {}, {.use_bias = false}));
  std::vector<std::string> names;
  for (const auto& [name, p] : block.parameters()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("body.weight", "body.bias", "shortcut.weight"));
}

}  // namespace
}  // namespace locus
