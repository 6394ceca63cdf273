#include <locus/nn/loss_scaler.h>

#include <cmath>
#include <optional>

#include <locus/core/autograd.h>
#include <locus/core/base/text.h>
#include <locus/core/generator.h>
#include <locus/core/io.h>
#include <locus/core/parallel.h>
#include <locus/devices/pool.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/checkpoint.h>
#include <locus/nn/containers.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/train_step.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include "tests/replay/captures.h"
#include "tests/support/contexts.h"
#include "tests/support/folder.h"

namespace locus::test {
namespace {

using testing::HasSubstr;
using Values = std::vector<double>;

// A weight whose gradient is `g` times the scale.
struct Model {
  nn::Parameter w{"weight", {2}};
  nn::Trainer trainer;
  amp::LossScaler scaler;
  Context c;

  Model(Context where, const amp::LossScalerOptions& o, const optim::AdamOptions& adam = {})
      : trainer((w.initialize(init::One(), where), nn::Parameters{{"weight", w}}),
                optim::Adam(adam)),
        scaler(o),
        c(where) {}
  bool step(double g) {
    Tensor l;
    {
      const autograd::Record record;
      l = scaler.scale((w.data() * g).sum());
    }
    l.backward();
    const bool updated = scaler.step(trainer, 2);
    scaler.update();
    return updated;
  }
};

TEST(LossScaler, UpdatesAsWithoutItWhateverTheScale) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Model scaled(c, {}), plain(c, {.init_scale = 1});
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(scaled.step(.5 + i));
      EXPECT_TRUE(plain.step(.5 + i));
      EXPECT_EQ(values(scaled.w.grad())[0], 65536 * (.5 + i));
    }
    EXPECT_EQ(values(scaled.w.data()), values(plain.w.data()));
    EXPECT_NE(values(plain.w.data()), Values(2, 1));
  }
}

TEST(LossScaler, DistinguishesTrainersAtOneAddress) {
  nn::Parameter w("weight", {2});
  w.initialize(init::One());
  const nn::Parameters parameters{{"weight", w}};
  std::optional<nn::Trainer> trainer;
  amp::LossScaler scaler;
  const auto backward = [&] {
    Tensor l;
    {
      const autograd::Record record;
      l = scaler.scale(w.data().sum());
    }
    l.backward();
  };
  for (int i = 0; i < 2; ++i) {  // the second reuses the first's address
    trainer.emplace(parameters, optim::SGD());
    backward();
    EXPECT_TRUE(scaler.step(*trainer, 1));
  }
  const uint64_t id = trainer->id();
  nn::Trainer moved = std::move(*trainer);
  EXPECT_EQ(moved.id(), id);
  EXPECT_THAT(message_of<Error>([&] { scaler.step(moved, 1); }),
              HasSubstr("twice with one trainer in a pass"));
}

TEST(LossScaler, SkipsAStepThatIsNotFiniteWithoutATrace) {
  for (Context c : contexts())
    for (double bad : {double(INFINITY), double(NAN)}) {
      SCOPED_TRACE(to_string(c));
      Model m(c, {.init_scale = 16}), other(c, {.init_scale = 4});
      EXPECT_TRUE(m.step(1));
      EXPECT_TRUE(other.step(1));
      EXPECT_FALSE(m.step(bad));
      EXPECT_FALSE(m.step(bad));
      EXPECT_EQ(m.scaler.loss_scale(), 4);
      EXPECT_EQ(m.scaler.skipped(), 2);
      EXPECT_EQ(m.trainer.num_update(), 1);
      EXPECT_THROW(m.trainer.step(1), Error);  // those gradients count as used
      EXPECT_TRUE(m.step(3));
      EXPECT_TRUE(other.step(3));
      EXPECT_EQ(values(m.w.data()), values(other.w.data()));
      const NamedTensors states = m.trainer.states(), expected = other.trainer.states();
      for (size_t i = 0; i < states.size(); ++i)
        EXPECT_EQ(values(states[i].second), values(expected[i].second)) << states[i].first;
    }
}

TEST(LossScaler, DoublesAfterAWindowAndHalvesAfterASkip) {
  Model m(cpu(), {.init_scale = 8, .scale_window = 3, .max_scale = 16, .min_scale = 4});
  std::vector<double> scales;
  for (const double g :
       {1., 1., 1., 1., 1., 1., double(NAN), 1., 1., double(NAN), double(NAN), 1.}) {
    m.step(g);
    scales.push_back(m.scaler.loss_scale());
  }
  EXPECT_EQ(scales, (std::vector<double>{8, 8, 16, 16, 16, 16, 8, 8, 8, 4, 4, 4}));
}

TEST(LossScaler, AnUpdateWithoutMemoryCanBeRetried) {
  LOCUS_NEEDS_POOL();
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Model m(c, {.init_scale = 8, .scale_window = 2});
    // The first halves the scale, the third doubles it.
    for (const auto& [gradient, then] : {std::pair{double(INFINITY), 4.}, {1., 4.}, {1., 8.}}) {
      const double before = m.scaler.loss_scale();
      Tensor l;
      {
        const autograd::Record record;
        l = m.scaler.scale((m.w.data() * gradient).sum());
      }
      l.backward();
      EXPECT_EQ(m.scaler.step(m.trainer, 2), std::isfinite(gradient));
      if (then != before) {
        const Shortage shortage(c);
        Tensors taken;
        EXPECT_THROW(for (;;) taken.push_back(empty({}, {c, f64})), OutOfMemory);
        EXPECT_THROW(m.scaler.update(), OutOfMemory);
        EXPECT_EQ(m.scaler.loss_scale(), before);
      }
      m.scaler.update();
      EXPECT_EQ(m.scaler.loss_scale(), then);
    }
  }
}

// Two trainers with gradients of one pass; `bad` tells which has an infinite one.
struct Two {
  nn::Parameter a{"a.weight", {2}}, b{"b.weight", {2}};
  nn::Trainer first, second;
  amp::LossScaler scaler{{.init_scale = 8, .scale_window = 2}};

  explicit Two(Context c) : first(make(a, c)), second(make(b, c)) {}
  static nn::Trainer make(const nn::Parameter& p, Context c) {
    p.initialize(init::Zero(), c);
    return nn::Trainer({{"p", p}}, optim::SGD({.learning_rate = 1}));
  }
  void backward(int bad = -1) {
    Tensor l;
    {
      const autograd::Record record;
      l = scaler.scale((a.data() * (bad == 0 ? INFINITY : 1)).sum() +
                       (b.data() * (bad == 1 ? INFINITY : 1)).sum());
    }
    l.backward();
  }
};

TEST(LossScaler, StepsOfAPassDivideByTheScaleThatTheLossWasMultipliedWith) {
  for (Context c : contexts())
    for (const int bad : {0, 1}) {
      SCOPED_TRACE(text_of(c, " ", bad));
      Two t(c);
      t.backward(bad);
      EXPECT_EQ(t.scaler.step(t.first, 1), bad != 0);
      EXPECT_EQ(t.scaler.loss_scale(), 8);
      EXPECT_EQ(t.scaler.step(t.second, 1), bad != 1);
      EXPECT_EQ(values((bad == 0 ? t.b : t.a).data()), Values(2, -1));
      EXPECT_EQ(values((bad == 0 ? t.a : t.b).data()), Values(2, 0));
      t.scaler.update();
      EXPECT_EQ(t.scaler.loss_scale(), 4) << "once a pass";
      t.scaler.update();
      EXPECT_EQ(t.scaler.loss_scale(), 4) << "no pass in between";
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(t.scaler.loss_scale(), 4);
        t.backward();
        EXPECT_TRUE(t.scaler.step(t.first, 1));
        EXPECT_TRUE(t.scaler.step(t.second, 1));
        t.scaler.update();
      }
      EXPECT_EQ(t.scaler.loss_scale(), 8) << "after two passes, not two steps";
      EXPECT_EQ(values((bad == 0 ? t.b : t.a).data()), Values(2, -3));
    }
}

TEST(LossScaler, APassHasOneStepOfEachTrainerAndEndsBeforeItsStateIsSaved) {
  Two t(cpu());
  t.backward();
  t.scaler.step(t.first, 1);
  EXPECT_THAT(message_of<Error>([&] { t.scaler.state(); }), HasSubstr("call update() first"));
  EXPECT_THAT(message_of<Error>([&] { t.scaler.step(t.first, 1); }),
              HasSubstr("call update() after the last step()"));
  EXPECT_EQ(values(t.a.data()), Values(2, -1));
  t.scaler.update(16);
  EXPECT_EQ(t.scaler.state().loss_scale, 16);
  t.backward();
  t.scaler.step(t.first, 1);
  EXPECT_EQ(values(t.a.data()), Values(2, -2));
}

TEST(LossScaler, FindsABadGradientOnAnyContext) {
  for (Context c : distinct_contexts()) {
    nn::Parameter a("a.weight", {1}), b("b.weight", {1}, {.dtype = f64});
    a.initialize(init::One(), cpu());
    b.initialize(init::One(), c);
    nn::Trainer trainer({{"a", a}, {"b", b}}, optim::SGD({.learning_rate = 1}));
    const auto backward = [](const nn::Parameter& p, double g) {
      Tensor y;
      {
        const autograd::Record record;
        y = p.data() * g;
      }
      y.backward();
    };
    backward(a, 1);
    backward(b, INFINITY);
    EXPECT_FALSE(trainer.update_if_finite(1));
    EXPECT_EQ(values(a.data()), Values{1});
    backward(a, 1);
    EXPECT_THROW(trainer.update_if_finite(1), Error);  // b's is not new
    EXPECT_TRUE(trainer.update_if_finite(1, 4, true));
    EXPECT_EQ(values(a.data()), Values{.75});
    EXPECT_EQ(values(b.data()), Values{1});
  }
}

// f16 weights with masters: the gradients of a small loss are not lost.
TEST(LossScaler, TrainsIn16BitsWhatWouldStandStill) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto train = [&](double scale, bool compiled) {
      nn::Dense net(1, {}, {.use_bias = false, .in_units = 2, .dtype = f16});
      net.initialize(init::One(), c);
      nn::Trainer trainer(net.parameters(),
                          optim::SGD({.learning_rate = 1e6, .multi_precision = true}));
      amp::LossScaler scaler({.init_scale = scale, .scale_window = 2, .max_scale = 4 * scale});
      const auto body = [&](const Tensor& x) {
        Tensor l;
        {
          const autograd::Record record;
          l = scaler.scale(net(x).astype(f32).sum() * 1e-8);
        }
        l.backward();
        return l;
      };
      nn::TrainStep step(body, trainer);
      const Tensor x = full({1, 2}, .5, {c, f16});
      for (int i = 0; i < 8; ++i) {
        compiled ? step(x) : body(x);
        EXPECT_TRUE(scaler.step(trainer, 1));
        scaler.update();
      }
      EXPECT_EQ(scaler.loss_scale(), 4 * scale);
      return values(net.parameter("weight").data());
    };
    EXPECT_EQ(train(1, false), Values(2, 1));
    EXPECT_NEAR(train(4096, false)[0], .96, 1e-3);
    EXPECT_EQ(train(4096, true), train(4096, false));
  }
}

// 16-bit weights, and a batch whose gradients overflow.
TEST(LossScaler, IsPartOfATrainStep) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto train = [&](bool compiled) {
      random::seed(3);
      nn::Sequential net;
      net.add(nn::Dense(8, nn::relu, {.in_units = 4}), nn::Dense(2, {}, {.in_units = 8}));
      net.initialize(init::Xavier(), c);
      net.cast(f16);
      nn::Trainer trainer(net.parameters(),
                          optim::Adam({.learning_rate = .1, .multi_precision = true}));
      amp::LossScaler scaler({.init_scale = 1024, .scale_window = 3});
      const nn::SoftmaxCrossEntropyLoss loss;
      nn::TrainStep step(net, loss, trainer, scaler);
      std::vector<Values> seen;
      for (int i = 0; i < 8; ++i) {
        const Tensor x = sample_values(c, f16, {6, 4}, -1, 1, i) * (i == 4 ? 60000 : 1);
        const Tensor y = array({0, 1, 1, 0, 1, 0}, c);
        if (compiled) {
          seen.push_back(values(step(x, y)));
        } else {
          Tensor l, scaled;
          {
            const autograd::Record record;
            l = loss(net(x), y);
            scaled = scaler.scale(l);
          }
          scaled.backward();
          scaler.step(trainer, 6);
          scaler.update();
          seen.push_back(values(l));
        }
        seen.push_back({scaler.loss_scale()});
      }
      EXPECT_EQ(scaler.skipped(), 1);
      EXPECT_EQ(trainer.num_update(), 7);
      seen.push_back(values(net.parameter("0.weight").data()));
      return seen;
    };
    const auto expected = train(false), found = train(true);
    for (size_t i = 0; i < expected.size(); ++i)
      for (size_t k = 0; k < expected[i].size(); ++k)
        EXPECT_TRUE(found[i][k] == expected[i][k] ||
                    (std::isnan(found[i][k]) && std::isnan(expected[i][k])))
            << i << " " << k;
  }
}

TEST(LossScaler, ResumesWhereItsCheckpointWas) {
  const amp::LossScalerOptions options{.init_scale = 8, .scale_window = 3};
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Folder own;
    const std::string folder = own.path;
    Model first(c, options), again(c, options);
    again.step(1);
    for (double g : {double(NAN), 1., 1.}) first.step(g);
    checkpoint::save(folder, {first.trainer, first.scaler});
    ASSERT_TRUE(checkpoint::load(folder, {again.trainer, again.scaler}));
    EXPECT_EQ(again.scaler.skipped(), 1);
    first.step(1);
    again.step(1);
    EXPECT_EQ(first.scaler.loss_scale(), 8);
    EXPECT_EQ(again.scaler.loss_scale(), 8);
    EXPECT_EQ(values(again.w.grad()), values(first.w.grad()));

    Model narrow(c, {.init_scale = 2, .scale_window = 2, .max_scale = 2});
    EXPECT_THROW(checkpoint::load(folder, {narrow.trainer, narrow.scaler}), ValueError);
    EXPECT_EQ(narrow.scaler.loss_scale(), 2);
    EXPECT_EQ(narrow.trainer.num_update(), 0);
  }
}

TEST(LossScaler, SaysWhatDoesNotFit) {
  const auto named = [](const char* option, const amp::LossScalerOptions& o) {
    EXPECT_THAT(message_of<ValueError>([&] { amp::LossScaler scaler(o); }), HasSubstr(option));
  };
  named("init_scale 0.5", {.init_scale = .5});
  named("scale_factor 1", {.scale_factor = 1});
  named("scale_window 0", {.scale_window = 0});
  named("max_scale", {.max_scale = INFINITY});
  named("min_scale", {.min_scale = 0});
  Model m(cpu(), {});
  for (double scale : {double(NAN), 0., .5, 2. * 16777216})
    EXPECT_THAT(message_of<ValueError>([&] { m.scaler.update(scale); }),
                HasSubstr("between min_scale 1 and max_scale"));
  EXPECT_THROW(m.scaler.set_state({.loss_scale = 2, .unskipped = 2000}), ValueError);
  EXPECT_EQ(m.scaler.loss_scale(), 65536);
  EXPECT_THROW(m.trainer.update_if_finite(1, 0), ValueError);
  nn::TrainStep step(
      [&](const Tensor& x) {
        m.step(1);
        return x + 1;
      },
      m.trainer);
  EXPECT_THROW(step(ones({1})), CaptureError);
}

TEST(LossScaler, ThreadsOfReplicasScaleAtOnce) {
  const Contexts where{cpu(0), cpu(1), cpu(2), cpu(3)};
  for (int round = 0; round < 200; ++round) {
    amp::LossScaler scaler({.init_scale = 8});
    std::vector<Values> scaled(where.size());
    const auto scale = [&](int i) {
      scaled[static_cast<size_t>(i)] = values(scaler.scale(ones({1}, current_context())));
    };
    parallel(where, scale);
    EXPECT_EQ(scaled, std::vector<Values>(where.size(), {8}));
    scaler.update(4);
    parallel(where, scale);
    EXPECT_EQ(scaled, std::vector<Values>(where.size(), {4}));
  }
}

}  // namespace
}  // namespace locus::test
