// Compiled functions in several threads and streams, and destroyed while their work runs.
#include <locus/core/compile.h>
#include <locus/nn/train_step.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include <locus/core/generator.h>
#include <locus/core/stream.h>
#include <locus/devices/pool.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/containers.h>
#include <locus/nn/layers.h>
#include "tests/replay/captures.h"
#include "tests/support/slow.h"
#include "tests/train/training.h"

namespace locus::test {
namespace {

using Values = std::vector<double>;

TEST(CompiledThreads, ThreadsRecordAtOnce) {
  for (Context c : contexts()) {
    const auto work = [c](int id) {
      for (int round = 0; round < 10; ++round) {
        const Tensor x = full({1000}, id, c);
        Compiled f([](const Tensors& in) {
          Tensor y = in[0];
          for (int i = 0; i < 10; ++i) y = y + in[0];
          return Tensors{y};
        });
        for (int i = 0; i < 3; ++i) ASSERT_EQ(values(f({x})[0]), Values(1000, 11 * id));
      }
    };
    std::thread a(work, 1), b(work, 2);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(values(ones({9}, c) + 1), Values(9, 2));
    a.join();
    b.join();
  }
}

std::vector<Values> trained(nn::Sequential& net, Context c, int id, bool compiled) {
  const nn::L2Loss loss;
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1, .momentum = .9}));
  nn::TrainStep step(net, loss, trainer);
  std::vector<Values> seen;
  for (int i = 0; i < 30; ++i) {
    const Tensor x = arange(24, {c, f32}).reshape({4, 6}) / (10 + id + i % 5), y = ones({4, 3}, c);
    seen.push_back(values(compiled ? step(x, y) : eager_step(net, loss, trainer, x, y)));
  }
  return seen;
}

TEST(CompiledThreads, ThreadsTrainAtOnceOnOneContextAndOnTwo) {
  const std::vector<Context> all = distinct_contexts();
  for (size_t i = 0; i < all.size(); ++i)
    for (const Context other : {all[i], all[(i + 1) % all.size()]}) {
      SCOPED_TRACE(to_string(all[i]) + " " + to_string(other));
      const Context places[2] = {all[i], other};
      std::vector<Values> eager[2], replayed[2];
      std::vector<std::thread> threads;
      for (const bool compiled : {false, true}) {
        random::seed(3);
        nn::Sequential nets[2];
        for (int id : {0, 1}) {
          nets[id].add(nn::Dense(8, nn::relu, {.in_units = 6}), nn::Dense(3, {}, {.in_units = 8}));
          nets[id].initialize(init::Xavier(), places[id]);
        }
        for (const int id : {0, 1}) {
          if (compiled)
            threads.emplace_back(
                [&, id] { replayed[id] = trained(nets[id], places[id], id, true); });
          else
            eager[id] = trained(nets[id], places[id], id, false);
        }
        for (std::thread& t : threads) t.join();
      }
      EXPECT_EQ(replayed[0], eager[0]);
      EXPECT_EQ(replayed[1], eager[1]);
    }
}

TEST(CompiledThreads, OneIsCalledByTwoThreads) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor calls = zeros({1}, c);
    Compiled f([&](const Tensors& in) {
      Tensor count = calls;
      count += 1;
      return Tensors{in[0] * 3, in[0].sum()};
    });
    const auto work = [&](int id) {
      Tensors held;
      for (int i = 0; i < 100; ++i) {
        const Tensor x = full({500 + i % 3}, id + i, c);
        held = f({x});
        ASSERT_EQ(held[0][-1].item<double>(), 3 * (id + i));
        ASSERT_EQ(held[1].item<double>(), (500 + i % 3) * (id + i));
      }
    };
    std::thread a(work, 1), b(work, 1000);
    a.join();
    b.join();
    EXPECT_EQ(calls.item<double>(), 200);
    EXPECT_EQ(f.recorded(), 3u);
  }
}

// Whether two calls of it ran at once.
class Overlaps {
 public:
  Tensors operator()(const Tensors& in) {
    if (inside_++ > 0) seen_ = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --inside_;
    return {in[0] + 1};
  }
  bool seen() const { return seen_; }

 private:
  std::atomic<int> inside_{0};
  std::atomic<bool> seen_{false};
};

TEST(CompiledThreads, TakeTurnsInsideOtherRecordings) {
  Overlaps overlaps;
  Compiled inner([&](const Tensors& in) { return overlaps(in); });
  const auto work = [&] {
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(values(Compiled([&](const Tensors& in) { return inner(in); })({ones({3})})[0]),
                Values(3, 2));
  };
  std::thread a(work), b(work);
  a.join();
  b.join();
  EXPECT_FALSE(overlaps.seen());
}

TEST(CompiledThreads, DestroyedWhileItsReplaysRunItWaitsForThem) {
  LOCUS_NEEDS_POOL();  // without a pool, freed memory waits for its GPU
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  for (int round = 0; round < 5; ++round) {
    const Tensor x = full({300000}, round, c), total = zeros({300000}, c);
    std::optional<Compiled> f(std::in_place, [&](const Tensors& in) {
      Tensor sum = total;
      for (int i = 0; i < 5; ++i) sum += in[0] * 2 + i;
      return Tensors{in[0] + 7};
    });
    Tensors y = (*f)({x});
    {
      Gate gate(device(c).stream(Lane::compute));
      for (int i = 0; i < 3; ++i) y = (*f)({x});
      std::thread opener([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        gate.open();
      });
      std::thread([&] { f.reset(); }).join();
      opener.join();
    }
    churn(c);
    EXPECT_EQ(values(y[0]), Values(300000, round + 7));
    EXPECT_EQ(values(total), Values(300000, 4 * (10 * round + 10)));
  }
}

TEST(CompiledThreads, WhatItWritesMayBeReadAndWrittenOnAnotherStreamInBetween) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Stream other(c);
    const Tensor w = zeros({50000}, c), x = ones({50000}, c);
    Compiled f([&](const Tensors& in) {
      Tensor weight = w;
      weight += in[0];
      return Tensors{weight * 1};
    });
    Tensors seen;
    double expected = 0;
    for (int i = 0; i < 20; ++i) {
      delay(current_stream(c));
      const Tensor y = f({x})[0];
      {
        const StreamScope scope(other);
        delay(other.view());
        seen.push_back(w + y);
        Tensor weight = w;
        weight += 10;
      }
      expected += 11;
      EXPECT_EQ(seen.back()[-1].item<double>(), 2 * (expected - 10));
      f({x});
      expected += 1;
    }
    EXPECT_EQ(values(w), Values(50000, expected));
  }
}

}  // namespace
}  // namespace locus::test
