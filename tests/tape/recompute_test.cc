// Parts of a network that backward() runs again.
#include <locus/core/recompute.h>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/device.h>
#include <locus/core/generator.h>
#include <locus/core/kernel.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>
#include <locus/nn/containers.h>
#include <locus/nn/init.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/norm_layers.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/parameter.h>
#include <locus/nn/train_step.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/norm.h>
#include <locus/ops/random.h>
#include <locus/ops/trigonometry.h>
#include "tests/support/contexts.h"

namespace locus {
namespace {

using testing::HasSubstr;

struct Net : nn::Block {
  explicit Net(bool recompute) {
    nn::Sequential body;
    body.add(nn::Dense(16, nn::relu), nn::BatchNorm(), nn::Dropout(0.5), nn::Dense(8, nn::tanh));
    if (recompute)
      add_child("body", nn::Recompute(nn::Recompute(body)));
    else
      add_child("body", body);
    add_child("head", nn::Dense(3));
  }
  Tensor forward(const Tensor& x) override {
    return (*children()[1].second)((*children()[0].second)(x));
  }
};

enum class How : uint8_t { eager, hybridized, compiled };

// Losses of some steps, and the parameters after them.
std::vector<double> train(bool recompute, Context c, How how, std::optional<DType> mixed) {
  random::seed(5);
  Net net(recompute);
  net.initialize(init::Xavier(), c);
  const Tensor x = random::uniform(-1, 1, {6, 4}, c), y = array({0, 1, 2, 0, 1, 2}, c);
  net(x);
  if (how == How::hybridized) net.hybridize();
  nn::Trainer trainer(net.parameters(), optim::Adam());
  const nn::SoftmaxCrossEntropyLoss loss_fn;
  const auto step = [&](const Tensor& data, const Tensor& label) {
    Tensor l;
    {
      const autograd::Record record;
      const amp::Scope scope(mixed);
      l = loss_fn(net(data), label);
    }
    l.backward();
    trainer.step(6);
    return l;
  };
  nn::TrainStep compiled(step, trainer);
  std::vector<double> all;
  for (int i = 0; i < 5; ++i)
    for (double v : test::values(how == How::compiled ? compiled(x, y) : step(x, y)))
      all.push_back(v);
  for (const auto& [name, p] : net.parameters())
    for (double v : test::values(p.data())) all.push_back(v);
  return all;
}

TEST(Recompute, GivesTheSameBits) {
  for (Context c : test::contexts())
    for (const std::optional<DType> mixed : {std::optional<DType>(), std::optional(bf16)}) {
      const auto plain = train(false, c, How::eager, mixed);
      for (const How how : {How::eager, How::hybridized, How::compiled})
        EXPECT_EQ(train(true, c, how, mixed), plain)
            << c << ", way " << static_cast<int>(how) << (mixed ? ", mixed" : "");
    }
}

TEST(Recompute, IsRecordedOnceWhenItIsCompiled) {
  int calls = 0;
  nn::Sequential net;
  net.add(nn::Recompute(nn::Lambda([&](const Tensor& x) {
            ++calls;
            return x * x;
          })),
          nn::Dense(1));
  net.initialize();
  const Tensor x = ones({2, 3}), y = zeros({2, 1});
  net(x);
  calls = 0;
  nn::Trainer trainer(net.parameters(), optim::SGD());
  nn::TrainStep step(net, nn::L2Loss(), trainer);
  for (int i = 0; i < 4; ++i) step(x, y);
  EXPECT_LE(calls, 4);
}

TEST(Recompute, KeepsTheInputsAlone) {
  for (Context c : test::contexts()) {
    const int64_t n = 1 << 16;
    Tensor x = ones({n}, c);
    x.attach_grad();
    const auto deep = [](const Tensors& in) {
      Tensor y = in[0];
      for (int i = 0; i < 20; ++i) y = tanh(y);
      return Tensors{y};
    };
    const auto held = [&](const auto& f) {
      const auto before = memory_pool(c).stats().in_use;
      const autograd::Record record;
      const Tensors y = f(Tensors{x});
      wait_all();
      memory_pool(c).release_cached();  // frees what is idle
      return memory_pool(c).stats().in_use - before;
    };
    const auto plain = held(deep);
    const auto less = held([&](const Tensors& in) { return autograd::recompute(deep, in, {}); });
    EXPECT_GE(plain, 19u * n * 4) << c;
    EXPECT_LE(less, 3u * n * 4) << c;
  }
}

TEST(Recompute, ReachesInputsAndVariablesThatAreUsedTwice) {
  Tensor x = array({2.f}), w = array({3.f});
  x.attach_grad();
  w.attach_grad();
  Tensor y;
  {
    const autograd::Record record;
    const Tensor part = autograd::recompute(
        [&](const Tensors& in) { return Tensors{in[0] * w * w}; }, {x}, {w, w})[0];
    y = part * w + x;  // x w^3 + x
  }
  y.backward();
  EXPECT_EQ(test::values(w.grad()), (std::vector<double>{54}));
  EXPECT_EQ(test::values(x.grad()), (std::vector<double>{28}));
}

TEST(Recompute, HasNoSecondGradient) {
  Tensor x = array({2.f});
  x.attach_grad();
  Tensor y;
  {
    const autograd::Record record;
    y = autograd::recompute([](const Tensors& in) { return Tensors{in[0] * in[0]}; }, {x}, {})[0];
  }
  EXPECT_THAT(test::message_of<Error>([&] { autograd::grad(y, {x}, {.create_graph = true}); }),
              HasSubstr("without recompute()"));
}

TEST(Recompute, RefusesToDrawMoreThanAtFirst) {
  Tensor x = array({2.f});
  x.attach_grad();
  int runs = 0;
  Tensor y;
  {
    const autograd::Record record;
    y = autograd::recompute(
        [&](const Tensors& in) {
          Tensor out = in[0];
          for (int i = 0; i <= runs; ++i) out = out * random::uniform(0, 1, {1});
          ++runs;
          return Tensors{out};
        },
        {x}, {})[0];
  }
  EXPECT_THAT(test::message_of<Error>([&] { y.backward(); }), HasSubstr("after 1 draws"));
}

TEST(Recompute, RunsAgainInTheScopeOfTheFirstRun) {
  for (Context c : test::contexts()) {
    const auto gradient = [&](bool again) {
      random::seed(3);
      nn::Dense layer(4, nn::tanh);
      layer.initialize(init::Xavier(), c);
      const Tensor x = random::uniform(-1, 1, {5, 3}, c);
      layer(x);
      nn::Recompute block(layer);
      Tensor y;
      {
        const autograd::Record record;
        const amp::Scope mixed(bf16);
        y = again ? block(x) : layer(x);
      }
      y.backward();
      return test::values(layer.parameter("weight").grad());
    };
    EXPECT_EQ(gradient(true), gradient(false)) << c;
  }
}

TEST(Recompute, UpdatesRunningStatisticsOnceAlsoByTheOp) {
  for (Context c : test::contexts()) {
    const Tensor x = random::uniform(-1, 1, {6, 2}, c), gamma = ones({2}, c), beta = zeros({2}, c);
    const Tensor mean = zeros({2}, c), var = ones({2}, c);
    x.attach_grad();
    Tensor y;
    {
      const autograd::Record record;
      y = autograd::recompute(
          [&](const Tensors& in) { return Tensors{batch_norm(in[0], gamma, beta, mean, var)}; },
          {x}, {})[0];
    }
    const std::vector<double> once = test::values(mean);
    y.backward();
    EXPECT_EQ(test::values(mean), once) << c;
  }
}

TEST(Recompute, TakesInputsThatAreNotThereAndBodiesThatAreHybridized) {
  struct Optional : nn::Block {
    Tensors forward(const Tensors& in) override {
      return {in[1].defined() ? in[0] + in[1] : in[0] * in[0]};
    }
  };
  Tensor x = array({3.f});
  x.attach_grad();
  nn::Dense layer(1);
  layer.initialize(init::One(), cpu());
  layer(ones({1, 1}));
  layer.hybridize();
  nn::Recompute optional{Optional()}, hybrid(layer);
  Tensor y;
  {
    const autograd::Record record;
    y = hybrid(optional({x, Tensor()})[0].reshape({1, 1}));
  }
  y.backward();
  EXPECT_EQ(test::values(x.grad()), (std::vector<double>{6}));
  EXPECT_EQ(test::values(layer.parameter("weight").grad()), (std::vector<double>{9}));
}

TEST(Recompute, SpansContexts) {
  const Tensor x = ones({1, 2});
  nn::Sequential body;
  body.add(nn::Dense(2), nn::To(cpu(1)), nn::Dense(1));
  body[0].initialize(init::One(), cpu());
  body[2].initialize(init::One(), cpu(1));
  body(x);
  nn::Recompute block(body);
  Tensor y;
  {
    const autograd::Record record;
    y = block(x);
  }
  y.backward();
  EXPECT_EQ(test::values(body.parameter("2.weight").grad()), (std::vector<double>{2, 2}));
  EXPECT_EQ(test::values(body.parameter("0.bias").grad()), (std::vector<double>{1, 1}));
}

TEST(Recompute, RefusesAnotherNumberOfResults) {
  Tensor x = array({2.f});
  x.attach_grad();
  size_t results = 1;
  Tensor y;
  {
    const autograd::Record record;
    y = autograd::recompute([&](const Tensors& in) { return Tensors(results++, in[0] * 2); }, {x},
                            {})[0];
  }
  EXPECT_THAT(test::message_of<Error>([&] { y.backward(); }), HasSubstr("gave 1 results at first"));
}

TEST(Recompute, RefusesResultsOfAnotherShapeOrDType) {
  const Tensor x = array({2.f, 3.f});
  x.attach_grad();
  const auto refused = [&](const std::function<Tensor(const Tensor&)>& later, const char* text) {
    Tensor y;
    {
      const autograd::Record record;
      y = autograd::recompute(
          [&](const Tensors& in) {
            return Tensors{autograd::is_recomputing() ? later(in[0]) : in[0] * 2};
          },
          {x}, {})[0];
    }
    EXPECT_THAT(test::message_of<Error>([&] { y.backward(); }),
                HasSubstr(std::string("recompute: the function gave cpu(0) (2,) f32 as result 0 at "
                                      "first and ") +
                          text + " now"));
  };
  refused([](const Tensor& t) { return t.sum(); }, "cpu(0) () f32");
  refused([](const Tensor& t) { return t.astype(f64); }, "cpu(0) (2,) f64");
  refused([](const Tensor&) { return Tensor(); }, "(empty)");
}

TEST(Recompute, RefusesAnEmptyVariable) {
  const autograd::Record record;
  const auto f = [](const Tensors& in) { return in; };
  EXPECT_THAT(test::message_of<EmptyTensor>([&] {
                autograd::recompute(f, {ones({2})}, {ones({2}), {}});
              }),
              testing::StartsWith("recompute: variable 1 is an empty Tensor"));
}

TEST(Recompute, RefusesNoFunction) {
  EXPECT_THROW(autograd::recompute(nullptr, {ones({2})}, {}), ValueError);
  const autograd::Record record;
  EXPECT_THROW(autograd::recompute(nullptr, {ones({2})}, {}), ValueError);
}

}  // namespace
}  // namespace locus
