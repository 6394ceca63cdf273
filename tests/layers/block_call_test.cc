// A block around forward(): hooks, several inputs, errors, sharing, freezing, casts.
#include "tests/support/contexts.h"

#include <locus/core/autograd.h>
#include <locus/core/io.h>
#include <locus/core/kernel.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>
#include <locus/nn/containers.h>
#include <locus/nn/hooks.h>
#include <locus/nn/init.h>
#include <locus/nn/layers.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/parameter.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include "tests/support/folder.h"

namespace locus {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

nn::Sequential mlp() {
  nn::Sequential net;
  net.add(nn::Dense(4, nn::relu), nn::Dense(2));
  return net;
}

struct SumAndDifference : nn::Block {
  Tensors forward(const Tensors& in) override {
    expect_inputs(in, 2);
    return {in[0] + in[1], in[0] - in[1]};
  }
};
struct Neither : nn::Block {};

TEST(BlockCall, TakesAndGivesSeveralTensors) {
  for (Context c : test::contexts()) {
    SumAndDifference block;
    const Tensor x = array({5.f}, c), y = array({3.f}, c);
    for (bool hybrid : {false, true}) {
      block.hybridize(hybrid);
      for (int i = 0; i < 2; ++i) {
        const Tensors out = block({x, y});
        EXPECT_EQ(test::values(out[0]), (std::vector<double>{8})) << c;
        EXPECT_EQ(test::values(out[1]), (std::vector<double>{2})) << c;
      }
    }
    EXPECT_EQ(nn::Dense(1).children().size(), 0u);
  }
}

TEST(BlockCall, RefusesWhatForwardCannotTake) {
  const Tensor x = ones({1, 3});
  EXPECT_THAT(test::message_of<Error>([&] { SumAndDifference()(x); }),
              HasSubstr("SumAndDifference: takes 2 inputs, got 1"));
  EXPECT_THAT(test::message_of<Error>([&] {
                mlp()({x, x});
              }),
              HasSubstr("Dense: takes 1 input, got 2"));
  EXPECT_THAT(test::message_of<Error>([&] { Neither()(x); }), HasSubstr("implements neither"));
  EXPECT_THAT(test::message_of<Error>([&] { Neither()({x}); }), HasSubstr("implements neither"));
}

TEST(BlockCall, RefusesInputsOnSeveralContexts) {
  const Tensor x = ones({2}), y = ones({2}, cpu(1));
  const std::string text = test::message_of<ContextMismatch>([&] { SumAndDifference()({x, y}); });
  EXPECT_THAT(text, HasSubstr("SumAndDifference: inputs live on different contexts"));
  EXPECT_THAT(text, HasSubstr("as_in_context(cpu(0))"));
}

TEST(BlockCall, AnErrorNamesTheLayerItCameFrom) {
  nn::Sequential net = mlp();
  net.initialize();
  net(ones({1, 3}));
  net.parameters();
  const std::string text = test::message_of<ShapeError>([&] { net(ones({1, 5})); });
  EXPECT_THAT(text, HasSubstr("(in layer '0' Dense(3 -> 4, relu))"));
}

TEST(BlockCall, HooksRunAroundForwardInOrderForAllCopies) {
  nn::Dense layer(1);
  nn::Sequential net;
  net.add(layer);
  net.initialize(init::One(), cpu());
  std::vector<std::string> seen;
  nn::HookHandle before = layer.register_forward_pre_hook([&](nn::Block& b, const Tensors& in) {
    seen.push_back(b.type_name() + to_string(in[0].shape()));
  });
  layer.register_forward_hook([&](nn::Block&, const Tensors& in, const Tensors& out) {
    seen.push_back(to_string(in[0].shape()) + to_string(out[0].shape()));
  });
  net(ones({2, 3}));
  EXPECT_THAT(seen, ElementsAre("Dense(2,3)", "(2,3)(2,1)"));
  before.detach();
  before.detach();
  net(ones({2, 3}));
  EXPECT_EQ(seen.size(), 3u);
}

TEST(BlockCall, AHookIsAFunction) {
  nn::Dense layer(2);
  EXPECT_THAT(test::message_of<ValueError>([&] { layer.register_forward_hook({}); }),
              HasSubstr("Dense: forward_hook is empty"));
  EXPECT_THROW(layer.register_forward_pre_hook(nullptr), ValueError);
}

TEST(BlockCall, AHandleMayOutliveItsBlock) {
  nn::HookHandle handle;
  {
    nn::Dense layer(1);
    handle = layer.register_forward_hook([](nn::Block&, const Tensors&, const Tensors&) {});
  }
  EXPECT_NO_THROW(handle.detach());
}

TEST(BlockCall, ASummaryOfSeveralInputsLeavesNoHooks) {
  SumAndDifference block;
  EXPECT_THAT(block.summary({ones({2}), ones({2})}), HasSubstr("SumAndDifference  (2,), (2,)"));
  EXPECT_THROW(block.summary({ones({2}), ones({3})}), ShapeError);
}

TEST(Block, RefusesANameTwice) {
  struct Twice : nn::Block {
    Twice() {
      add_parameter("weight", {1});
      add_child("weight", nn::Dense(1));
    }
  };
  EXPECT_THAT(test::message_of<ValueError>([] { Twice(); }), HasSubstr("named 'weight'"));
}

TEST(Block, ParametersAreSelectedByTheStartOfTheirNames) {
  const nn::Sequential net = mlp();
  std::vector<std::string> names;
  for (const auto& [name, p] : net.parameters(".*bias|0")) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("0.weight", "0.bias", "1.bias"));
  EXPECT_TRUE(net.parameters("weight").empty());
  EXPECT_THROW(net.parameters("("), ValueError);
}

TEST(Block, FrozenParametersStayAndThawAsTheyWereMade) {
  nn::Sequential net = mlp();
  net.initialize(init::One(), cpu());
  net(ones({1, 3}));
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 1}));
  net.freeze("0");
  const auto step = [&] {
    Tensor loss;
    {
      const autograd::Record record;
      loss = net(ones({1, 3}));
    }
    loss.backward();
    trainer.step(1);
  };
  step();
  EXPECT_THAT(test::values(net.parameter("0.weight").data()), Each(1));
  EXPECT_NE(test::values(net.parameter("1.weight").data())[0], 1);
  net.unfreeze();
  EXPECT_EQ(net.parameter("0.bias").grad_req(), GradReq::write);
  step();
  EXPECT_NE(test::values(net.parameter("0.weight").data())[0], 1);
}

TEST(Block, ThawedParametersGoOnWithTheirMomentum) {
  for (Context c : test::contexts()) {
    const auto train = [&](bool freeze) {
      nn::Sequential net;
      net.add(nn::Dense(1, {}, {.use_bias = false, .in_units = 1}),
              nn::Lambda([](const Tensor& x) { return x * 1; }));
      net.initialize(init::One(), c);
      nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 1, .momentum = .5}));
      const Tensor x = ones({1, 1}, c);
      x.attach_grad();
      for (int i = 0; i < 3; ++i) {
        if (freeze && i == 1) net.freeze();
        Tensor loss;
        if (i != 1) {
          const autograd::Record record;
          loss = net(x);
        }
        if (loss.defined()) loss.backward();
        if (i != 1 || freeze) trainer.step(1);
        net.unfreeze();
      }
      return test::values(net.parameter("0.weight").data());
    };
    EXPECT_EQ(train(true), train(false));
    EXPECT_EQ(train(true), std::vector<double>{-1.5});  // 1 - 1 - (.5 + 1)
  }
}

TEST(Block, ApplyVisitsChildrenFirst) {
  nn::Sequential net = mlp();
  std::vector<std::string> seen;
  net.apply([&](nn::Block& b) { seen.push_back(b.type_name()); });
  EXPECT_THAT(seen, ElementsAre("Dense", "Dense", "Sequential"));
}

TEST(Block, ApplyRefusesNoFunction) {
  nn::Sequential net = mlp();
  EXPECT_EQ(test::message_of<ValueError>([&] { net.apply(nullptr); }),
            "Sequential::apply: visit is null; expected a function");
}

TEST(Block, CastsItsParametersAndRefusesOtherInputs) {
  for (Context c : test::contexts()) {
    nn::Sequential net = mlp();
    net.initialize(c);
    net(ones({1, 3}, c));
    net.cast(bf16);
    EXPECT_EQ(net.parameter("0.weight").data().dtype(), bf16);
    EXPECT_EQ(net.parameter("0.weight").grad().dtype(), bf16);
    EXPECT_EQ(net(ones({1, 3}, {c, bf16})).dtype(), bf16);
    const std::string text = test::message_of<DTypeError>([&] { net(ones({1, 3}, c)); });
    EXPECT_THAT(text, HasSubstr("Dense: input"));
    EXPECT_THAT(text, HasSubstr("'0.weight' is bf16"));
    EXPECT_THROW(net.cast(i32), DTypeError);
  }
}

TEST(Block, CastsParametersThatHaveNoValuesYet) {
  nn::Sequential net = mlp();
  net.cast(f64);
  net.initialize();
  EXPECT_EQ(net(ones({1, 3}, {cpu(), f64})).dtype(), f64);
}

TEST(SharedParameters, AreOneInEveryHandle) {
  nn::Dense a(3), b(3);
  nn::Parameter before = b.parameter("weight");
  b.share_parameters(a);
  nn::Sequential net;
  net.add(a, b);
  net.initialize(init::One(), cpu());
  net(ones({1, 3}));
  EXPECT_TRUE(before.is(a.parameter("weight")));
  EXPECT_TRUE(before.data().is(a.parameter("weight").data()));
  Tensor loss;
  {
    const autograd::Record record;
    loss = net(ones({1, 3}));
  }
  loss.backward();
  // d/dw of the sum over both uses: 3 from below b, and a's output 3 in b.
  EXPECT_THAT(test::values(before.grad()), Each(6));
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 1}));
  trainer.step(1);
  EXPECT_THAT(test::values(before.data()), Each(-5));
}

TEST(SharedParameters, AreUpdatedOnceByATrainerThatTookThemBeforeSharing) {
  nn::Dense a(1, {}, {.use_bias = false, .in_units = 1}), b = nn::Dense(1, {}, {.use_bias = false});
  nn::Sequential net;
  net.add(a, b);
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 1}));
  b.share_parameters(a);
  net.initialize(init::One(), cpu());
  Tensor loss;
  {
    const autograd::Record record;
    loss = net(ones({1, 1}));
  }
  loss.backward();
  trainer.step(1);
  EXPECT_EQ(test::values(a.parameter("weight").data()), (std::vector<double>{-1}));  // 1 - 2 w
}

TEST(SharedParameters, OfUnknownWidthLoadOneValueOrNothing) {
  const test::Folder folder;
  const std::string path = folder / "tied.params";
  nn::Dense layer(2, {}, {.use_bias = false});
  nn::Sequential net;
  net.add(layer, nn::Dense(2, {}, {.use_bias = false}));
  net[1].share_parameters(layer);
  net.initialize(init::Zero(), cpu(1));
  save(path, NamedTensors{{"0.weight", ones({2, 2})}, {"1.weight", ones({2, 3})}});
  EXPECT_THAT(test::message_of<ShapeError>([&] { net.load_parameters(path); }),
              HasSubstr("'1.weight'"));
  EXPECT_FALSE(net.parameter("0.weight").initialized());
  save(path, NamedTensors{{"0.weight", ones({2, 2})}, {"1.weight", full({2, 2}, 2)}});
  net.load_parameters(path);
  EXPECT_EQ(net.parameter("0.weight").list_ctx(), std::vector<Context>{cpu(1)});
  EXPECT_EQ(test::values(net.parameter("0.weight").data()), std::vector<double>(4, 2));
}

TEST(SharedParameters, MayBeChained) {
  nn::Dense a(3), b(3), c(3);
  b.share_parameters(a);
  const nn::Parameter weight = b.parameter("weight");
  a.share_parameters(c);
  EXPECT_TRUE(weight.is(c.parameter("weight")));
  c.share_parameters(b);  // shared already
  EXPECT_NO_THROW(c.initialize());
  EXPECT_TRUE(weight.deferred());
}

TEST(SharedParameters, RefuseOtherShapesDTypesAndNames) {
  nn::Dense a(3, {}, {.in_units = 2}), b(4, {}, {.in_units = 2});
  nn::Dense c(3, {}, {.in_units = 2, .dtype = f64});
  EXPECT_THROW(a.share_parameters(b), ShapeError);
  EXPECT_THROW(a.share_parameters(c), DTypeError);
  EXPECT_THROW(a.share_parameters(mlp()), Error);
}

TEST(BlockCall, AForwardThatThrewIsForgotten) {
  const auto fail = [] {
    nn::Lambda block([](const Tensor&) -> Tensor { throw ValueError("no"); });
    block({ones({1})});
  };
  const auto succeed = [] {
    struct One : nn::Block {
      Tensors forward(const Tensors& in) override { return {in[0]}; }
    };
    One block;
    block(ones({1}));
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(fail(), ValueError);
    EXPECT_NO_THROW(succeed());
  }
}

TEST(SharedParameters, SharingAnewLeavesTheOneBeforeAlone) {
  nn::Dense a(1, {}, {.in_units = 1}), b(1, {}, {.in_units = 1}), c(1, {}, {.in_units = 1});
  b.initialize(init::Constant(2), cpu());
  c.initialize(init::Constant(3), cpu());
  a.share_parameters(b);
  a.share_parameters(c);
  EXPECT_EQ(test::values(b.parameter("weight").data()), (std::vector<double>{2}));
  EXPECT_TRUE(a.parameter("weight").is(c.parameter("weight")));
}

TEST(BlockCall, OneResultIsOneAlsoWhenItIsHybridized) {
  struct Two : nn::Block {
    Tensors forward(const Tensors& in) override { return {in[0], in[0] * 2}; }
  } block;
  block.hybridize();
  EXPECT_THAT(test::message_of<Error>([&] { block(ones({1})); }), HasSubstr("gives 2 results"));
}

TEST(Parameter, AContextThatIsNotThereChangesNothing) {
  nn::Dense layer(1, {}, {.in_units = 1});
  layer.initialize(init::One(), cpu());
  EXPECT_THROW(layer.reset_ctx(gpu(99)), Error);
  EXPECT_EQ(layer.parameter("weight").list_ctx(), std::vector<Context>{cpu()});
  EXPECT_THROW(layer.parameter("weight").cast(i32), DTypeError);
  EXPECT_EQ(layer.parameter("weight").dtype(), f32);
}

TEST(Trainer, WhatStepRefusesSumsNothing) {
  nn::Dense layer(1, {}, {.use_bias = false, .in_units = 1});
  layer.initialize(init::One(), {cpu(), cpu(1)});
  nn::Trainer trainer(layer.parameters(), optim::SGD({.learning_rate = 1}));
  for (Context c : {cpu(), cpu(1)}) {
    const autograd::Record record;
    layer(ones({1, 1}, c)).backward();
  }
  EXPECT_THROW(trainer.step(0), ValueError);
  trainer.step(1);
  EXPECT_EQ(test::values(layer.parameter("weight").data(cpu())), (std::vector<double>{-1}));
  EXPECT_EQ(test::values(layer.parameter("weight").data(cpu(1))), (std::vector<double>{-1}));
  {
    const autograd::Record record;
    layer(ones({1, 1})).backward();
  }
  trainer.step(1, true);  // one replica's gradient is stale: neither changes
  EXPECT_EQ(test::values(layer.parameter("weight").data(cpu())), (std::vector<double>{-1}));
  EXPECT_EQ(test::values(layer.parameter("weight").data(cpu(1))), (std::vector<double>{-1}));
}

}  // namespace
}  // namespace locus
