// Where a Trainer with zero keeps data, in memory, files and recordings.
#include <locus/nn/trainer.h>

#include <locus/nn/checkpoint.h>
#include <locus/nn/train_step.h>
#include "tests/support/folder.h"
#include "tests/train/sharded.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<double>;

// Eight equal parameters on all contexts of the group.
struct Layers {
  static constexpr size_t kBytes = size_t{8} * 65536 * sizeof(float);

  explicit Layers(const Group& g) {
    for (int i = 0; i < 8; ++i) {
      parameters.emplace_back(text_of("p", i),
                              nn::Parameter(text_of("p", i), {65536}, {.init = init::Zero()}));
      parameters.back().second.initialize(init::Zero(), g.contexts());
    }
  }
  void backward() const {
    for (const auto& [name, p] : parameters) test::backward(p);
  }
  nn::Parameters parameters;
};

std::vector<size_t> in_use(const Group& g) {
  std::vector<size_t> all;
  wait_all();
  for (const Context c : g) {
    memory_pool(c).release_cached();  // frees what is idle
    all.push_back(memory_pool(c).stats().in_use);
  }
  return all;
}

std::vector<Group> powers_of_two() {
  std::vector<Group> all;
  for (const Group& g : sharding_groups())
    if (g.size() != 3) all.push_back(g);
  return all;
}

TEST(ZeroMemory, StatesOfAContextAreAShareOfAll) {
  for (const Group& g : powers_of_two()) {
    const Layers layers(g);
    for (const int zero : {0, 1, 2}) {
      const std::vector<size_t> before = in_use(g);
      nn::Trainer trainer(layers.parameters, optim::Adam(), {.zero = zero});
      trainer.states();
      const std::vector<size_t> after = in_use(g);
      const double all = 2. * Layers::kBytes, share = zero == 0 ? all : all / g.size();
      for (size_t i = 0; i < after.size(); ++i)
        EXPECT_NEAR(static_cast<double>(after[i] - before[i]), share, .01 * all)
            << to_string(g) << " zero " << zero;
    }
  }
}

TEST(ZeroMemory, GradientsOfTheOthersAreReleasedBehindTheSum) {
  for (const Group& g : powers_of_two())
    for (const bool overlap : {false, true}) {
      const Layers layers(g);
      nn::Trainer trainer(layers.parameters, optim::SGD(), {.overlap = overlap, .zero = 2});
      layers.backward();
      trainer.step(1);
      const std::vector<size_t> released = in_use(g);
      layers.backward();
      if (!overlap) {
        const std::vector<size_t> before = in_use(g);
        for (size_t i = 0; i < before.size(); ++i)
          EXPECT_NEAR(static_cast<double>(before[i] - released[i]),
                      static_cast<double>(Layers::kBytes) * (g.size() - 1) / g.size(),
                      .01 * Layers::kBytes)
              << to_string(g);
      }
      trainer.allreduce_grads();
      EXPECT_EQ(in_use(g), released) << to_string(g) << overlap;
      trainer.update(1);
    }
}

TEST(ZeroMemory, AReleasedGradientSaysSo) {
  nn::Parameter p("p", {2, 3}, {.init = init::Zero()});
  p.initialize(init::Zero(), {cpu(0), cpu(1)});
  nn::Trainer trainer({{"p", p}}, optim::SGD({.learning_rate = 1}), {.zero = 2});
  backward(p);
  const Tensor held = p.grad(cpu(1));
  trainer.allreduce_grads();
  EXPECT_EQ(values(p.grad(cpu(0))), Values(6, 2));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(message_of<Error>([&] { p.grad(cpu(1)); }),
                AllOf(HasSubstr("cpu(1) (2,3) f32"), HasSubstr("released"), HasSubstr("zero = 2")));
    EXPECT_TRUE(p.data(cpu(1)).has_grad());
    p.zero_grad();
  }
  EXPECT_EQ(values(held), Values(6, 1)) << "the program has it still";
  trainer.update(1, true);
  backward(p);
  EXPECT_EQ(values(p.grad(cpu(1))), Values(6, 1));
}

TEST(ZeroMemory, AGradientWithAPlaceIsNotReleased) {
  nn::Parameter p("p", {3}, {.init = init::Zero()});
  p.initialize(init::Zero(), {cpu(0), cpu(1)});
  const Tensor place = zeros({3}, cpu(1));
  p.data(cpu(1)).attach_grad(place);
  nn::Trainer trainer({{"p", p}}, optim::SGD({.learning_rate = 1}), {.zero = 2});
  for (int i = 1; i < 4; ++i) {
    backward(p);
    trainer.step(1);
    EXPECT_TRUE(p.grad(cpu(1)).is(place));
    for (const Tensor& replica : p.list_data()) EXPECT_EQ(values(replica), Values(3, -2 * i));
  }
}

TEST(ZeroMemory, AHybridizedNetworkTrainsSo) {
  for (const Group& g : sharding_groups()) {
    const auto train = [&](int zero) {
      Training t(g.contexts(), {.zero = zero});
      t.run(1);
      t.net.hybridize();
      return t.run(4).outcome();
    };
    EXPECT_EQ(train(1), train(0)) << to_string(g);
    EXPECT_EQ(train(2), train(0)) << to_string(g);
  }
}

TEST(ZeroMemory, AFileContinuesWithAnyStageOnAnyContexts) {
  const Folder folder;
  const std::string path = folder / "zero.states";
  struct Way {
    int zero;
    std::vector<Context> where;
  };
  std::vector<Way> ways{{0, hosts(2)}, {1, hosts(4)}, {2, hosts(4)}, {2, hosts(3)}};
  if (num_gpus() >= 4) ways.push_back({2, gpus(4)});
  if (num_gpus() >= 2) ways.push_back({0, gpus(2)});
  for (const optim::Optimizer& o : {optim::Optimizer(optim::Adam({.learning_rate = .01})),
                                    optim::Optimizer(optim::SGD({.momentum = .9}))})
    for (const Way& from : ways)
      for (const Way& to : ways) {
        SCOPED_TRACE(text_of(from.zero, listed(from.where), " to ", to.zero, listed(to.where)));
        Training first(from.where, {.zero = from.zero}, o);
        first.run(3);
        first.trainer->save_states(path);
        const NamedTensors saved = load(path);
        Training second(to.where, {.zero = to.zero}, o);
        second.trainer->load_states(path);
        second.trainer->save_states(path);
        const NamedTensors again = load(path);
        ASSERT_EQ(again.size(), saved.size());
        for (size_t i = 0; i < saved.size(); ++i) {
          EXPECT_EQ(again[i].first, saved[i].first);
          EXPECT_EQ(values(again[i].second), values(saved[i].second)) << saved[i].first;
        }
        // On the same contexts, later steps are bit-equal for any stages.
        Training third(from.where, {.zero = to.zero}, o);
        third.run(3);
        third.trainer->load_states(path);
        EXPECT_EQ(third.run(2).outcome(), first.run(2).outcome());
      }
}

TEST(ZeroMemory, ACheckpointContinuesToo) {
  for (const int zero : {0, 2}) {
    const Folder own;
    const std::string folder = own.path;
    Training first(hosts(4), {.zero = zero});
    first.run(3);
    checkpoint::save(folder, {first.net, *first.trainer});
    Training second(hosts(2), {.zero = 2 - zero});
    second.run(1);
    ASSERT_TRUE(checkpoint::load(folder, {second.net, *second.trainer}));
    EXPECT_EQ(second.outcome(), first.outcome());
    second.reset_ctx(hosts(4));
    second.skip_to(3);
    EXPECT_EQ(second.run(2).outcome(), first.run(2).outcome());
  }
}

// The parameter is frozen when it is loaded.
TEST(ZeroMemory, StatesOfFrozenParametersAreLoaded) {
  const auto train = [&](int zero, bool stops) {
    Training t(hosts(3), {.zero = zero});
    const nn::Parameter p = t.net[1].parameter("weight");
    t.run(2);
    p.set_grad_req(GradReq::null);
    t.run(1);
    if (stops) {
      const NamedTensors states = t.trainer->states();
      t.trainer = std::make_unique<nn::Trainer>(
          t.net.parameters(), optim::Adam({.learning_rate = .01}), nn::TrainerOptions{.zero = 1});
      t.trainer->set_states(states);
    }
    p.set_grad_req(GradReq::write);
    return t.run(2).outcome();
  };
  const Outcome expected = train(0, false);
  EXPECT_EQ(train(0, true), expected);
  EXPECT_EQ(train(2, true), expected);
}

// As in tests/train/gradient_sums_test.cc: one function of all replicas.
TEST(ZeroMemory, ACompiledStepIsTheSame) {
  for (const Group& g : sharding_groups()) {
    const optim::Adam adam({.learning_rate = .01});
    const Outcome expected = Training(g.contexts(), {}, adam).run(5).outcome();
    Training t(g.contexts(), {.zero = 1}, adam);
    nn::TrainStep step(
        [&](const Tensors& in) {
          const auto half = static_cast<ptrdiff_t>(in.size() / 2);
          const Tensors xs(in.begin(), in.begin() + half), ys(in.begin() + half, in.end());
          for (int i = 0; i < g.size(); ++i) t.forward_backward(i, xs, ys);
          t.trainer->step(12);
          return xs[0] + 0;
        },
        *t.trainer);
    for (int i = 0; i < 5; ++i) {
      auto [xs, ys] = t.next();
      xs.insert(xs.end(), ys.begin(), ys.end());
      step(xs);
    }
    EXPECT_EQ(t.outcome(), expected) << to_string(g);
    EXPECT_LE(step.compiled().recorded(), 2u);
  }
}

TEST(ZeroMemory, ReleasedGradientsAreNotCompiled) {
  Training t(hosts(2), {.zero = 2});
  const Outcome before = t.outcome();
  nn::TrainStep step(
      [&](const Tensor& x) {
        t.backward();
        t.trainer->step(12);
        return x + 0;
      },
      *t.trainer);
  EXPECT_THAT(message_of<CaptureError>([&] { step(ones({1})); }),
              AllOf(HasSubstr("zero = 2"), HasSubstr("zero = 1")));
  EXPECT_EQ(t.outcome(), before);
  EXPECT_NE(t.run(1).outcome(), before);
}

}  // namespace
}  // namespace locus::test
