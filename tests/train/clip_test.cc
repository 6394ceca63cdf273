#include <locus/nn/clip.h>

#include <algorithm>
#include <cmath>

#include <locus/core/autograd.h>
#include <locus/core/base/text.h>
#include <locus/core/compile.h>
#include <locus/core/generator.h>
#include <locus/devices/cpu.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>
#include <locus/nn/containers.h>
#include <locus/nn/data.h>
#include <locus/nn/init.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss_scaler.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/train_step.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/optim.h>
#include <locus/ops/random.h>

#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<double>;

double norm_of(const Tensors& arrays) {
  double sum = 0;
  for (const Tensor& t : arrays)
    for (double v : values(t)) sum += v * v;
  return std::sqrt(sum);
}

Tensors some(Context c, DType d) {
  Tensors all;
  for (int i = 0; i < 70; ++i) all.push_back(sample_values(c, d, {i % 7, 3 * i + 1}, -2, 2, i));
  all.push_back(sample_values(c, d, {100003}));
  return all;
}

TEST(ClipGlobalNorm, ScalesWhatIsLargerAndLeavesTheRest) {
  for (Context c : contexts())
    for (DType d : {f32, f64, f16, bf16}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const Tensors arrays = some(c, d);
      std::vector<Values> before;
      for (const Tensor& t : arrays) before.push_back(values(t));
      const double norm = norm_of(arrays);
      EXPECT_NEAR(clip_global_norm(arrays, 2 * norm).item<double>(), norm, 1e-12 * norm);
      for (size_t i = 0; i < arrays.size(); ++i) EXPECT_EQ(values(arrays[i]), before[i]);
      const Tensor found = clip_global_norm(arrays, norm / 4);
      EXPECT_EQ(found.context(), c);
      EXPECT_NEAR(found.item<double>(), norm, 1e-12 * norm);
      const double tolerance = d == f64 ? 1e-8 : d == f32 ? 1e-7 : d == f16 ? 1e-3 : 8e-3;
      for (size_t i = 0; i < arrays.size(); ++i) {
        const Values after = values(arrays[i]);
        for (size_t k = 0; k < after.size(); ++k)
          ASSERT_NEAR(after[k], before[i][k] / 4, tolerance);
      }
    }
}

TEST(ClipGlobalNorm, IsOfAllContextsAndDTypesTogether) {
  for (Context c : distinct_contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensors arrays{full({4}, 1, cpu()), full({3}, 2, {c, f64}), full({2}, 2, {c, f16}),
                         zeros({0})};
    EXPECT_NEAR(clip_global_norm(arrays, std::sqrt(24.) / 2).item<double>(), std::sqrt(24.), 1e-12);
    EXPECT_EQ(arrays[0].context(), cpu());
    EXPECT_NEAR(values(arrays[0])[3], .5, 1e-7);
    EXPECT_NEAR(values(arrays[1])[2], 1, 1e-7);
    EXPECT_NEAR(values(arrays[2])[1], 1, 1e-3);
  }
}

TEST(ClipGlobalNorm, DoesNotOverflowAndLeavesWhatIsNotFinite) {
  for (Context c : contexts()) {
    const Tensor huge = full({2}, 1e30, c);
    EXPECT_NEAR(clip_global_norm({huge}, 1).item<double>() / 1e30, std::sqrt(2.), 1e-6);
    EXPECT_NEAR(values(huge)[0], std::sqrt(.5), 1e-6);
    for (double bad : {INFINITY, NAN}) {
      const Tensor one = ones({3}, c), other = full({1}, bad, c);
      EXPECT_FALSE(std::isfinite(clip_global_norm({one, other}, 1).item<double>()));
      EXPECT_EQ(values(one), Values(3, 1));
    }
  }
}

TEST(ClipGlobalNorm, OfF64ReachesAsFarAsItsElements) {
  for (Context c : contexts())
    for (double v : {1e-200, 1e200}) {
      const Tensors arrays{full({4}, v, {c, f64}), full({5}, v, {c, f64}), full({7}, v, {c, f64})};
      EXPECT_NEAR(clip_global_norm(arrays, 1).item<double>() / v, 4, 1e-14);
      EXPECT_NEAR(values(arrays[2])[6] / std::min(v, .25), 1, 1e-12);
    }
}

TEST(ClipValue, LimitsEachElement) {
  for (Context c : contexts())
    for (DType d : {f32, f64, f16, bf16}) {
      const Tensor x = array({-3., -.5, 0., 2., double(INFINITY), double(NAN)}, {c, d});
      const Tensor y = full({3}, 2, {c, f64});
      clip_value({x, y}, 1);
      const Values v = values(x);
      EXPECT_EQ(Values(v.begin(), v.begin() + 5), (Values{-1, -.5, 0, 1, 1}));
      EXPECT_TRUE(std::isnan(v[5]));
      EXPECT_EQ(values(y), Values(3, 1));
    }
}

TEST(MultiAllFinite, FindsOneBadElement) {
  for (Context c : contexts())
    for (DType d : {f32, f64, f16, bf16}) {
      const Tensors arrays = some(c, d);
      EXPECT_EQ(values(multi_all_finite(arrays)), Values{1});
      for (size_t i : {size_t{0}, size_t{69}, size_t{70}}) {
        Tensors bad = arrays;
        bad[i] = arrays[i].copyto(c);
        if (bad[i].size() == 0) continue;
        Tensor flat = bad[i].reshape({-1});
        flat[flat.size() - 1] = i == 69 ? double(INFINITY) : double(NAN);
        EXPECT_EQ(values(multi_all_finite(bad)), Values{0}) << i;
      }
    }
}

TEST(MultiSumSq, IsTheSumOfEachForAnyNumberOfThreads) {
  for (Context c : contexts()) {
    const Tensors arrays = some(c, f32);
    const Values sums = values(multi_sum_sq(arrays));
    for (size_t i = 0; i < arrays.size(); ++i)
      EXPECT_NEAR(sums[i], std::pow(norm_of({arrays[i]}), 2), 1e-12 * (1 + sums[i]));
  }
  const Tensors arrays = some(cpu(), f32);
  const Values sums = values(multi_sum_sq(arrays));
  const int threads = num_threads();
  for (int n : {1, 3}) {
    set_num_threads(n);
    EXPECT_EQ(values(multi_sum_sq(arrays)), sums);
  }
  set_num_threads(threads);
}

TEST(Clip, SaysWhatDoesNotFit) {
  const Tensor x = ones({2, 3});
  EXPECT_THROW(clip_global_norm({}, 1), ValueError);
  EXPECT_THAT(message_of<ValueError>([&] { clip_global_norm({x}, -1); }), HasSubstr("max_norm -1"));
  EXPECT_THROW(clip_global_norm({x}, NAN), ValueError);
  EXPECT_THAT(message_of<ValueError>([&] { clip_value({x}, -2); }), HasSubstr("limit -2"));
  EXPECT_THAT(message_of<ShapeError>([&] { clip_value({x.T()}, 1); }), HasSubstr("contiguous"));
  EXPECT_THROW(clip_value({ones({2}, i32)}, 1), DTypeError);
  EXPECT_THROW(multi_sum_sq({x, ones({2}, f64)}), DTypeError);
  EXPECT_THAT(message_of<ShapeError>([&] { multi_clip_norm({x}, x.sum(), 1); }), HasSubstr("f64"));
  EXPECT_THROW(multi_clip_norm({ones({2}, cpu(1))}, ones({1}, f64), 1), ContextMismatch);
}

// Clips gradients in an eager and in a compiled step.
TEST(Clip, WorksInsideACompiledStep) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto train = [&](bool compiled) {
      random::seed(3);
      nn::Sequential net;
      net.add(nn::Dense(8, nn::relu), nn::Dense(2));
      net.initialize(init::Xavier(), c);
      nn::Trainer trainer(net.parameters(), optim::Adam({.learning_rate = .1}));
      const Tensor x = random::normal(0, 1, {6, 4}, c);
      Tensor norm = zeros({}, {c, f64});
      const auto body = [&](const Tensor& in) {
        Tensor l;
        {
          const autograd::Record record;
          l = pow(net(in), 2).sum();
        }
        l.backward();
        clip_global_norm(nn::gradients(net), .5).copyto(norm);
        clip_value(nn::gradients(net), .1);
        trainer.step(1);
        return l;
      };
      nn::TrainStep step(body, trainer);
      std::vector<Values> seen;
      for (int i = 0; i < 10; ++i) {
        seen.push_back(values(compiled ? step(x) : body(x)));
        seen.push_back(values(norm));
      }
      return seen;
    };
    EXPECT_EQ(train(true), train(false));
  }
}

TEST(Gradients, AreThoseOfParametersThatHaveOne) {
  nn::Sequential net;
  net.add(nn::Dense(2, {}, {.in_units = 3}), nn::Dense(1, {}, {.in_units = 2}));
  net.initialize(init::One(), {cpu(0), cpu(1)});
  net.parameter("0.bias").set_grad_req(GradReq::null);
  const Tensors on_one = nn::gradients(net, cpu(1));
  ASSERT_EQ(on_one.size(), 3u);
  for (const Tensor& g : on_one) EXPECT_EQ(g.context(), cpu(1));
  EXPECT_THAT(message_of<Error>([&] { nn::gradients(net); }), HasSubstr("'0.weight'"));
}

// Norms and final weights of three steps of 4 samples, split over the contexts.
struct Clipped {
  Values norms, weights;
};
enum class Way { step, halves, compiled, scaled };
Clipped train_clipped(const Contexts& places, Way way) {
  nn::Dense net(2, {}, {.in_units = 3});
  net.initialize(init::One(), places);
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .5, .momentum = .5}));
  amp::LossScaler scaler({.init_scale = 1024});
  const Tensor norm = zeros({}, {places.list()[0], f64});
  const auto body = [&](const Tensors& xs) {
    const bool scaled = way == Way::scaled;
    Tensors losses;
    {
      const autograd::Record record;
      for (const Tensor& x : xs) losses.push_back(pow(net(x), 2).sum());
      if (scaled)
        for (Tensor& l : losses) l = scaler.scale(l);
    }
    for (const Tensor& l : losses) l.backward();
    if (way == Way::halves) trainer.allreduce_grads();
    trainer.clip_global_norm(.25, 4, scaled ? scaler.loss_scale() : 1).copyto(norm);
    if (scaled) {
      scaler.step(trainer, 4);
      scaler.update();
    } else {
      way == Way::halves ? trainer.update(4) : trainer.step(4);
    }
    return Tensors{norm};
  };
  Compiled compiled(body);
  Clipped seen;
  for (int i = 0; i < 3; ++i) {
    const Tensors xs = split_and_load(sample_values(cpu(), f32, {4, 3}, -1, 1, i), places);
    way == Way::compiled ? compiled(xs) : body(xs);
    seen.norms.push_back(norm.item<double>());
  }
  seen.weights = values(net.parameter("weight").data(places.list()[0]));
  for (Context c : places)
    EXPECT_EQ(values(net.parameter("weight").data(c)), seen.weights) << to_string(c);
  return seen;
}

TEST(TrainerClipGlobalNorm, IsOfTheGradientsThatTheUpdateUses) {
  const Clipped expected = train_clipped(cpu(), Way::step);
  nn::Dense net(2, {}, {.in_units = 3});
  net.initialize(init::One(), cpu());
  {
    const autograd::Record record;
    pow(net(sample_values(cpu(), f32, {4, 3}, -1, 1, 0)), 2).sum().backward();
  }
  EXPECT_NEAR(expected.norms[0], norm_of(nn::gradients(net)) / 4, 1e-6);
  EXPECT_GT(expected.norms[0], .25);
  std::vector<Contexts> groups{cpu(), {cpu(2), cpu()}};
  if (num_gpus() > 0) groups.emplace_back(gpu(0));
  if (num_gpus() > 1) groups.push_back({gpu(0), gpu(1)});
  for (const Contexts& places : groups)
    for (Way way : {Way::step, Way::halves, Way::compiled, Way::scaled}) {
      SCOPED_TRACE(
          text_of(to_string(places.list()[0]), " ", places.size(), " ", static_cast<int>(way)));
      const Clipped seen = train_clipped(places, way);
      for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(seen.norms[i], expected.norms[i], 1e-5);
      for (size_t i = 0; i < seen.weights.size(); ++i)
        EXPECT_NEAR(seen.weights[i], expected.weights[i], 1e-5);
    }
}

TEST(TrainerClipGlobalNorm, SaysWhatDoesNotFit) {
  nn::Dense net(2, {}, {.in_units = 3});
  net.initialize();
  nn::Trainer trainer(net.parameters(), optim::SGD());
  EXPECT_THROW(trainer.clip_global_norm(1, 4), Error);  // no gradient yet
  {
    const autograd::Record record;
    net(ones({4, 3})).sum().backward();
  }
  EXPECT_THROW(trainer.clip_global_norm(-1, 4), ValueError);
  EXPECT_THROW(trainer.clip_global_norm(1, 0), ValueError);
  EXPECT_THROW(trainer.clip_global_norm(1, 4, NAN), ValueError);
}

// The error is in a second launch, after a valid one.
TEST(Clip, ChecksAllBeforeItWritesAny) {
  for (const Context c : distinct_contexts()) {
    const Tensor a = full({2}, 10), b = full({4}, 10, {c, f64});
    const auto refused = [&]<class E>(const Tensors& arrays, const char* text, E*) {
      const Tensor norm = full({1}, 10, {cpu(), f64});
      EXPECT_THAT(message_of<E>([&] { clip_global_norm(arrays, 1); }), HasSubstr(text));
      EXPECT_THAT(message_of<E>([&] { clip_to_norm(arrays, norm, 1); }), HasSubstr(text));
      EXPECT_THAT(message_of<E>([&] { clip_value(arrays, 1); }), HasSubstr(text));
      EXPECT_EQ(test::values(a), (std::vector<double>(2, 10)));
      EXPECT_EQ(test::values(b), (std::vector<double>(4, 10)));
    };
    ValueError* const shared = nullptr;
    ShapeError* const gaps = nullptr;
    DTypeError* const whole = nullptr;
    refused({a, b, b}, "arrays 1 and 2 share memory", shared);
    refused({a, b(Slice(1, 3)), full({2}, 1, {c, f64}), b}, "arrays 1 and 3 share memory", shared);
    refused({a, b, ones({2, 3}, {c, f64}).T()}, "array 2", gaps);
    refused({a, b, ones({2}, {c, i32})}, "array 2", whole);
    EXPECT_THROW(clip_to_norm({a, b}, ones({2}, {cpu(), f64}), 1), ShapeError);
    clip_value({a, b(Slice(0, 2)), b(Slice(2, 4))}, 1);
    EXPECT_EQ(test::values(b), (std::vector<double>(4, 1)));
  }
}

TEST(Gradients, ListASharedParameterOnce) {
  nn::Dense layer(2, {}, {.use_bias = false, .in_units = 2});
  nn::Sequential net;
  net.add(layer, layer);
  net.initialize();
  EXPECT_EQ(nn::gradients(net).size(), 1u);
}

TEST(Clip, RefusesToWriteWhatIsRecorded) {
  for (const Context c : contexts()) {
    const Tensor w = full({2}, 10, c), free = full({2}, 10, c);
    const Tensor norm = full({1}, 10, {c, f64});
    w.attach_grad();
    const autograd::Record record;
    const Tensor y = w * 2;
    for (const Tensor& t : {w, y}) {
      const auto refused = [&](const char* who, const auto& f) {
        EXPECT_THAT(message_of<Error>(f), AllOf(HasSubstr(std::string(who) + ": array 1: in-place"),
                                                HasSubstr("being recorded")));
      };
      refused("clip_global_norm", [&] { clip_global_norm({free, t}, 1); });
      refused("clip_to_norm", [&] { clip_to_norm({free, t}, norm, 1); });
      refused("clip_value", [&] { clip_value({free, t}, 1); });
    }
    EXPECT_EQ(values(free), Values(2, 10));
    clip_value({free}, 1);
    EXPECT_EQ(values(free), Values(2, 1));
    y.backward();
    EXPECT_EQ(values(w.grad()), Values(2, 2));
    clip_value({w.grad()}, 1);
    EXPECT_EQ(values(w.grad()), Values(2, 1));
  }
}

TEST(Clip, ErrorsNameTheFunctionThatWasCalled) {
  const Tensor none, whole = ones({2}, i32);
  const auto names = [&](const std::string& who, const auto& f) {
    EXPECT_THAT(message_of<EmptyTensor>([&] {
                  f({ones({2}), none});
                }),
                testing::StartsWith(who + ": array 1 is an empty Tensor"));
    EXPECT_THAT(message_of<DTypeError>([&] {
                  f({ones({2}), whole});
                }),
                testing::StartsWith(who + ": array 1, cpu(0) (2,) i32; expected a floating dtype"));
  };
  names("all_finite", [](const Tensors& arrays) { all_finite(arrays); });
  names("global_norm", [](const Tensors& arrays) { global_norm(arrays); });
}

}  // namespace
}  // namespace locus::test
