// Errors name the block that they came from.
#include "tests/support/contexts.h"

#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>
#include <locus/nn/containers.h>
#include <locus/nn/layers.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>

namespace locus {
namespace {

using testing::HasSubstr;

nn::Sequential mlp() {
  nn::Sequential net;
  net.add(nn::Dense(4, nn::relu), nn::Dense(2));
  return net;
}

struct WrongSum : nn::Block {
  nn::Dense hidden{3};
  explicit WrongSum(bool own) : own_(own) { add_child("hidden", hidden); }
  Tensor forward(const Tensor& x) override {
    const Tensor y = hidden(own_ ? x : x(Slice(), Slice(0, 1)));
    return y + ones({7, 7, 7});
  }
  bool own_;
};

TEST(BlockErrors, NamesTheInnermostBlockOfAnError) {
  const auto text_of_call = [](bool own) {
    nn::Sequential net;
    WrongSum block(own);
    net.add(block);
    net.initialize();
    block.hidden(ones({2, 4}));
    return test::message_of<ShapeError>([&] { net(ones({2, 4})); });
  };
  const std::string own = text_of_call(true), inner = text_of_call(false);
  EXPECT_THAT(own, testing::AllOf(HasSubstr(" (in WrongSum) (at "),
                                  testing::Not(HasSubstr("(in Sequential"))));
  EXPECT_THAT(inner, testing::AllOf(HasSubstr(" (in layer '0.hidden' Dense(4 -> 3, linear)) (at "),
                                    testing::Not(HasSubstr("(in WrongSum"))));
}

TEST(BlockErrors, KeepsTheClassOfAUsersError) {
  struct Mine : Error {
    using Error::Error;
    int code = 7;
  };
  nn::Sequential net;
  net.add(nn::Lambda([](const Tensor&) -> Tensor { throw Mine("mine"); }));
  try {
    net(ones({1}));
    ADD_FAILURE() << "no exception";
  } catch (const Mine& e) {
    EXPECT_EQ(e.code, 7);
    EXPECT_STREQ(e.what(), "mine");
  }
}

// Does not register its layer.
template <class Layer>
struct Forgetful : nn::Block {
  Layer hidden;
  nn::Dense output{2};
  explicit Forgetful(const Layer& layer) : hidden(layer) { add_child("output", output); }
  Tensor forward(const Tensor& x) override { return output(hidden(x)); }
};

TEST(BlockErrors, NamesALayerThatWasNotAdded) {
  const auto text_for = [](const auto& layer) {
    Forgetful net(layer);
    net.initialize();
    return test::message_of<Error>([&] { net(ones({2, 3})); });
  };
  const char* const advice =
      "which is no child of it, so initialize() did not reach it: call add_child(";
  EXPECT_THAT(text_for(nn::Dense(3)),
              testing::AllOf(HasSubstr("calls this Dense"), HasSubstr(advice)));
  const std::string inner = text_for(mlp());
  EXPECT_THAT(inner, testing::AllOf(HasSubstr("calls this Sequential"), HasSubstr(advice)));
  EXPECT_THAT(inner, testing::Not(HasSubstr("calls this Dense")));
  nn::Sequential added = mlp();
  EXPECT_THAT(
      test::message_of<Error>([&] {
        added(ones({2, 3}));
      }),
      testing::AllOf(HasSubstr("has not been initialized"), testing::Not(HasSubstr(advice))));
}

}  // namespace
}  // namespace locus
