#include <algorithm>
#include <thread>

#include <locus/core/capture.h>
#include <locus/core/compile.h>
#include <locus/core/parallel.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/random.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

std::vector<std::vector<double>> draws(random::Generator& rng, Context c) {
  const Tensor two = full({4}, 2, c);
  std::vector<std::vector<double>> all;
  for (const Tensor& x : {rng.uniform(0, 1, {7}, c),
                          rng.normal(0, 1, {2, 3}, c),
                          rng.randint(0, 9, {7}, c),
                          rng.bernoulli(.5, {9}, c),
                          rng.binomial(9, .5, {9}, c),
                          rng.exponential(1, {9}, c),
                          rng.exponential(two),
                          rng.gamma(2, 1, {9}, c),
                          rng.gamma(two, 1),
                          rng.beta(2, 1, {9}, c),
                          rng.beta(two, 1),
                          rng.poisson(4, {9}, c),
                          rng.poisson(two),
                          rng.laplace(0, 1, {9}, c),
                          rng.truncated_normal(0, 1, 0, 1, {9}, c),
                          rng.multinomial(9, {.5, .5}, {2}, c),
                          rng.choice(9, {4}, {.replace = false}, c),
                          rng.choice(two, {3}),
                          rng.permutation(9, c),
                          rng.shuffle(two + arange(4, c))})
    all.push_back(values(x));
  return all;
}

TEST(Generator, DrawsWhatTheFunctionsDrawFromItsSeed) {
  for (Context c : contexts()) {
    random::Generator rng(42);
    random::seed(42);
    EXPECT_EQ(values(rng.normal(0, 1, {9}, c)), values(random::normal(0, 1, {9}, c)));
    EXPECT_EQ(values(rng.gamma(2, 1, {9}, c)), values(random::gamma(2, 1, {9}, c)));
    EXPECT_EQ(values(rng.permutation(9, c)), values(random::permutation(9, c)));
    EXPECT_EQ(rng.state().offset, random::state().offset);
  }
}

TEST(Generator, LeavesTheProcessesNumbersAlone) {
  random::seed(1);
  const auto before = random::state();
  random::Generator rng(42);
  const auto first = draws(rng, cpu());
  EXPECT_EQ(random::state().offset, before.offset);
  random::normal(0, 1, {100});
  random::Generator same(42);
  EXPECT_EQ(draws(same, cpu()), first);
  random::Generator other(43);
  EXPECT_NE(draws(other, cpu()), first);
}

TEST(Generator, ResumesFromItsState) {
  random::Generator rng(5);
  rng.normal(0, 1, {10});
  const PhiloxKey key = rng.state();
  const auto next = draws(rng, cpu());
  rng.set_state(key);
  EXPECT_EQ(draws(rng, cpu()), next);
  random::Generator resumed(0);
  resumed.set_state(key);
  EXPECT_EQ(draws(resumed, cpu()), next);
}

TEST(Generator, CopiesShareOneSequence) {
  random::Generator rng(5), copy = rng, same(5);
  const auto first = values(rng.uniform(0, 1, {4})), second = values(copy.uniform(0, 1, {4}));
  EXPECT_NE(first, second);
  EXPECT_EQ(values(same.uniform(0, 1, {8})).back(), second.back());
}

TEST(Generator, WithoutASeedStartsFromEntropy) {
  random::Generator a, b;
  EXPECT_NE(values(a.uniform(0, 1, {4})), values(b.uniform(0, 1, {4})));
}

TEST(Generator, SpawnsGeneratorsThatDiffer) {
  random::Generator rng(5), same(5);
  std::vector<random::Generator> first = rng.spawn(2), again = same.spawn(2), next = rng.spawn(1);
  const auto numbers = values(first[0].uniform(0, 1, {4}));
  EXPECT_EQ(values(again[0].uniform(0, 1, {4})), numbers);
  EXPECT_NE(values(first[1].uniform(0, 1, {4})), numbers);
  EXPECT_NE(values(next[0].uniform(0, 1, {4})), numbers);
  EXPECT_THROW(rng.spawn(-1), ValueError);
}

TEST(Generator, ReplaysDrawNewNumbersOfTheGenerator) {
  for (Context c : gpus(num_gpus())) {
    random::Generator rng(8), eager(8);
    random::seed(1);
    const PhiloxKey process = random::state();
    Tensor x, y;
    Graph graph = [&] {
      Capture capture(c);
      x = rng.normal(0, 1, {100}, c);
      y = rng.gamma(.5, 1, {100}, c);
      return capture.end();
    }();
    for (int i = 0; i < 3; ++i) {
      graph.replay();
      EXPECT_EQ(values(x), values(eager.normal(0, 1, {100}, c)));
      EXPECT_EQ(values(y), values(eager.gamma(.5, 1, {100}, c)));
    }
    EXPECT_EQ(random::state().offset, process.offset);
  }
}

TEST(Generator, ACaptureNamesWhatItRefuses) {
  random::Generator rng(8);
  const PhiloxKey before = rng.state();
  for (Context c : gpus(num_gpus())) {
    const auto refuses = [&](const char* who, const auto& f) {
      EXPECT_THAT(message_of<CaptureError>([&] {
                    Capture capture(c);
                    f();
                  }),
                  testing::StartsWith(text_of(who, ": ")));
    };
    refuses("random::seed", [] { random::seed(1); });
    refuses("random::set_state", [] { random::set_state({1, 0}); });
    refuses("random::Generator", [] { random::Generator made(42); });
    refuses("Generator::set_state", [&] { rng.set_state({1, 0}); });
    refuses("Generator::spawn", [&] { rng.spawn(2); });
  }
  EXPECT_EQ(rng.state().offset, before.offset);
}

TEST(Generator, CompiledFunctionsDrawNewNumbersOfTheGenerator) {
  for (Context c : contexts()) {
    random::Generator rng(8), eager(8);
    Compiled f([&](const Tensors& in) { return Tensors{in[0] + rng.uniform(0, 1, {5}, c)}; });
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(values(f({zeros({5}, c)})[0]), values(eager.uniform(0, 1, {5}, c)));
  }
}

TEST(Generator, ThreadsShareAGeneratorWithoutCommonNumbers) {
  random::Generator rng(3), alone(3);
  std::vector<std::vector<double>> parts(4);
  std::vector<std::thread> threads;
  for (auto& part : parts)
    threads.emplace_back([&rng, &part] {
      for (int i = 0; i < 50; ++i)
        for (const double v : values(rng.uniform(0, 1, {4}, {cpu(), f64}))) part.push_back(v);
    });
  for (std::thread& t : threads) t.join();
  std::vector<double> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  std::vector<double> wanted = values(alone.uniform(0, 1, {800}, {cpu(), f64}));
  std::sort(all.begin(), all.end());
  std::sort(wanted.begin(), wanted.end());
  EXPECT_EQ(all, wanted);
}

TEST(Generator, ErrorsNameTheCallersLine) {
  random::Generator rng(1);
  EXPECT_THAT(message_of<ValueError>([&] { rng.gamma(-1, 1, {2}); }),
              testing::HasSubstr("generator_test.cc"));
}

}  // namespace
}  // namespace locus::test
