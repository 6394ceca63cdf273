// parallel() runs a function per context, each on a thread.
#include <locus/core/parallel.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/error.h>
#include <locus/core/recompute.h>
#include <locus/nn/containers.h>
#include <locus/nn/conv_layers.h>
#include <locus/nn/data.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/norm_layers.h>
#include <locus/nn/train_step.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/random.h>
#include "tests/support/contexts.h"

namespace locus {
namespace {

using test::values;
using testing::HasSubstr;

const Contexts kTwo{cpu(0), cpu(1)};

TEST(Parallel, CallsTheFunctionOnceAContextAndThere) {
  for (int round = 0; round < 50; ++round) {
    std::vector<Context> where(3);
    std::vector<std::thread::id> threads(3);
    parallel({cpu(0), cpu(2), cpu(1)}, [&](int i) {
      where[static_cast<size_t>(i)] = current_context();
      threads[static_cast<size_t>(i)] = std::this_thread::get_id();
    });
    EXPECT_EQ(where, (std::vector{cpu(0), cpu(2), cpu(1)}));
    EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), 3u);
  }
  EXPECT_EQ(current_context(), cpu(0));
}

TEST(Parallel, IsOfContextsThatAreThere) {
  bool called = false;
  EXPECT_THROW(parallel({cpu(0), gpu(num_gpus())}, [&](int) { called = true; }), DeviceError);
  EXPECT_FALSE(called);
}

TEST(Parallel, AllRunAtOnce) {
  std::atomic<int> there{0};
  parallel(kTwo, [&](int) {
    ++there;
    while (there < 2) std::this_thread::yield();  // would hang if run in sequence
  });
  EXPECT_EQ(there, 2);
}

TEST(Parallel, AThreadThatSleptIsWoken) {
  int calls[2] = {};
  for (int round = 0; round < 5; ++round) {
    parallel(kTwo, [&](int i) { ++calls[i]; });
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  EXPECT_EQ(calls[0] + calls[1], 10);
}

TEST(ParallelDeathTest, AChildOfAForkHasThreadsOfItsOwn) {
  const Tensor x = ones({512, 512}, cpu(0)), y = ones({512, 512}, cpu(1));
  const auto sums = [&] {
    double sum[2] = {};
    std::atomic<int> there{0};
    parallel(kTwo, [&](int i) {
      ++there;
      while (there < 2) std::this_thread::yield();
      sum[i] = (i == 0 ? x : y).sum().item<double>();
    });
    return sum[0] + sum[1];
  };
  EXPECT_EQ(sums(), 2 * 512 * 512);
  EXPECT_EXIT(
      {
        alarm(60);
        std::_Exit(sums() + sums() == 4 * 512 * 512 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(sums(), 2 * 512 * 512);
}

TEST(Parallel, TheFirstExceptionIsRethrownWhenAllAreDone) {
  std::atomic<int> ran{0};
  const auto call = [&] {
    parallel(kTwo, [&](int i) {
      ++ran;
      throw IndexError("of ", i);
    });
  };
  EXPECT_EQ(test::message_of<IndexError>(call), "of 0");
  EXPECT_EQ(ran, 2);
  parallel(kTwo, [&](int) { ++ran; });
  EXPECT_EQ(ran, 4);
}

TEST(Parallel, RecordsAndTrainsAsTheCallerDoes) {
  const auto seen = [] {
    std::pair<bool, bool> all[2];
    parallel(kTwo, [&](int i) { all[i] = {autograd::is_recording(), autograd::is_training()}; });
    EXPECT_EQ(all[0], all[1]);
    return all[0];
  };
  EXPECT_EQ(seen(), std::pair(false, false));
  {
    const autograd::Record record(false);
    EXPECT_EQ(seen(), std::pair(true, false));
  }
  const autograd::TrainMode train;
  EXPECT_EQ(seen(), std::pair(false, true));
  const amp::Scope mixed(f16);
  std::optional<DType> dtypes[2];
  parallel(kTwo, [&](int i) { dtypes[i] = amp::dtype(); });
  EXPECT_EQ(dtypes[0], f16);
  EXPECT_EQ(dtypes[1], f16);
}

TEST(Parallel, AFirstInputInEachThreadCreatesParametersOnce) {
  const auto values_after = [](const std::function<void(nn::Sequential&)>& call) {
    random::seed(3);
    nn::Sequential net;
    net.add(nn::Conv2D(2, 3), nn::BatchNorm(), nn::Flatten(), nn::Dense(3), nn::LayerNorm(),
            nn::Dense(2));
    net.initialize(init::Xavier(), kTwo);
    call(net);
    std::vector<std::vector<double>> all;
    for (const auto& [name, p] : net.parameters())
      for (const Tensor& t : p.list_data()) all.push_back(values(t));
    return all;
  };
  const auto input = [](int i) { return ones({1, 1, 5, 5}, cpu(i)); };
  const auto expected = values_after([&](nn::Sequential& net) { net(input(0)); });
  for (int round = 0; round < 50; ++round)
    EXPECT_EQ(
        values_after([&](nn::Sequential& net) { parallel(kTwo, [&](int i) { net(input(i)); }); }),
        expected);
}

TEST(Parallel, EachThreadDrawsTheSameNumbersInEachRun) {
  const auto draw = [] {
    random::seed(5);
    std::vector<std::vector<double>> all(7);
    for (size_t round = 0; round < 3; ++round)
      parallel(kTwo, [&](int i) {
        for (int k = 0; k < 20; ++k)
          for (const double v : values(random::uniform(0, 1, {3}, current_context())))
            all[2 * round + static_cast<size_t>(i)].push_back(v);
      });
    all[6] = values(random::uniform(0, 1, {3}));
    return all;
  };
  const auto once = draw();
  for (int run = 0; run < 20; ++run) EXPECT_EQ(draw(), once);
  EXPECT_EQ(std::set(once.begin(), once.end()).size(), once.size());  // all different
}

TEST(Parallel, AFunctionThatThrowsOnAWorkersThreadHasDrawnItsNumbers) {
  const auto draw = [](Context c) { return values(random::uniform(0, 1, {3}, c)); };
  std::vector<std::vector<double>> all;
  parallel({cpu(1), cpu(2)}, [&](int i) {
    const Context c = current_context();
    for (int k = 0; i == 0 && k < 2; ++k) try {
        parallel({c}, [&](int) {
          all.push_back(draw(c));
          throw Error("no more");
        });
      } catch (const Error&) {
      }
  });
  ASSERT_EQ(all.size(), 2u);
  EXPECT_NE(all[0], all[1]);
}

TEST(Parallel, DropoutBeforeLayersThatAreCreatedThereIsTheSameInEachRun) {
  const auto train = [] {
    random::seed(5);
    nn::Sequential net;
    net.add(nn::Dropout(.5), nn::Dense(4), nn::Dropout(.5), nn::Dense(2));
    net.initialize(init::Xavier(), kTwo);
    std::vector<std::vector<double>> out(2);
    parallel(kTwo, [&](int i) {
      const autograd::Record record;
      out[static_cast<size_t>(i)] = values(net(ones({3, 8}, current_context())));
    });
    return out;
  };
  const auto once = train();
  for (int run = 0; run < 50; ++run) EXPECT_EQ(train(), once);
}

TEST(Parallel, ManyCallersTakeTurns) {
  std::vector<std::thread> callers;
  std::atomic<int> calls{0};
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&, t] {
      const Contexts order = t % 2 ? Contexts{cpu(1), cpu(0)} : kTwo;
      for (int i = 0; i < 100; ++i) parallel(order, [&](int) { ++calls; });
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(calls, 800);
}

TEST(Parallel, InsideOnlyTheThreadsOwnContext) {
  int inner = 0;
  std::string text;
  parallel(cpu(1), [&](int) {
    parallel(cpu(1), [&](int) { ++inner; });
    text = test::message_of<Error>([&] { parallel(kTwo, [&](int) { ++inner; }); });
  });
  EXPECT_EQ(inner, 1);
  EXPECT_THAT(text, HasSubstr("called on the thread of cpu(1)"));
  EXPECT_THROW(parallel(kTwo, nullptr), ValueError);
  EXPECT_THROW(parallel({cpu(0), cpu(0)}, [](int) {}), ValueError);
}

// The second run on another thread would draw other numbers and step statistics again.
TEST(Parallel, IsRefusedInsideOfARecomputedFunction) {
  const Tensor x = ones({2});
  x.attach_grad();
  bool called = false;
  const auto outside = [&](const Tensors& in) {
    parallel(kTwo, [&](int) { called = true; });
    return in;
  };
  const autograd::Record record;
  EXPECT_THAT(test::message_of<Error>([&] { autograd::recompute(outside, {x}, {}); }),
              HasSubstr("call recompute() inside of parallel()"));
  EXPECT_FALSE(called);
  std::vector<double> made[2], gradients[2];
  parallel(kTwo, [&](int i) {
    const auto drop = [](const Tensors& in) {
      return Tensors{in[0] * random::uniform(0, 1, {8}, in[0].context())};
    };
    const Tensor mine = ones({8}, current_context());
    mine.attach_grad();
    const Tensor y = autograd::recompute(drop, {mine}, {})[0];
    y.backward();
    made[i] = values(y);
    gradients[i] = values(mine.grad());
  });
  for (int i : {0, 1}) EXPECT_EQ(gradients[i], made[i]);
  EXPECT_NE(made[0], made[1]);
}

TEST(Parallel, IsNotCompiled) {
  Compiled f([](const Tensors& in) {
    parallel(kTwo, [](int) {});
    return in;
  });
  EXPECT_THROW(f({ones({1})}), CaptureError);
}

// Four steps on replicas give the same bits as one thread that enqueues all work.
TEST(Parallel, TrainsAsOneThreadDoes) {
  std::vector<Contexts> all{{cpu(0), cpu(1), cpu(2)}};
  if (num_gpus() >= 2) all.emplace_back(gpus(2));
  for (const Contexts& where : all) {
    const auto train = [&](bool threads) {
      random::seed(5);
      nn::Sequential net;
      net.add(nn::Dense(16, nn::relu, {.in_units = 8}), nn::Dense(3, {}, {.in_units = 16}));
      net.initialize(init::Xavier(), where);
      nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1, .momentum = .9}));
      const nn::SoftmaxCrossEntropyLoss loss;
      for (int step = 0; step < 4; ++step) {
        const Tensors x = split_and_load(random::uniform(-1, 1, {12, 8}), where),
                      y = split_and_load(random::randint(0, 3, {12}), where);
        const auto one = [&](int i) {
          Tensor l;
          {
            const autograd::Record record;
            l = loss(net(x[static_cast<size_t>(i)]), y[static_cast<size_t>(i)]);
          }
          l.backward();
        };
        if (threads)
          parallel(where, one);
        else
          for (int i = 0; i < static_cast<int>(where.size()); ++i) one(i);
        trainer.step(12);
      }
      std::vector<double> parameters;
      for (const auto& [name, p] : net.parameters())
        for (const Tensor& replica : p.list_data())
          for (const double v : values(replica)) parameters.push_back(v);
      return parameters;
    };
    EXPECT_EQ(train(true), train(false));
  }
}

// Gradients of more than 4 MiB are summed in parts during backward().
TEST(Parallel, ACompiledStepOfWideLayersEqualsTheEagerOne) {
  std::vector<Contexts> all{kTwo};
  if (num_gpus() >= 2) all.emplace_back(gpus(2));
  for (const Contexts& where : all) {
    const auto train = [&](bool compiled) {
      random::seed(7);
      nn::Sequential net;
      net.add(nn::Dense(1100, nn::relu, {.in_units = 1050}),
              nn::Dense(1050, nn::relu, {.in_units = 1100}), nn::Dense(3, {}, {.in_units = 1050}));
      net.initialize(init::Xavier(), where);
      nn::Trainer trainer(net.parameters(), optim::Adam({.learning_rate = .01}));
      const nn::SoftmaxCrossEntropyLoss loss;
      const auto eager = [&](const Tensors& x) {
        Tensors losses;
        {
          const autograd::Record record;
          for (size_t i = 0; i < 2; ++i) losses.push_back(loss(net(x[i]), x[2 + i]));
        }
        for (const Tensor& l : losses) l.backward();
        trainer.step(8);
        return losses[0];
      };
      nn::TrainStep step(eager, trainer);
      std::vector<double> seen;
      for (int round = 0; round < 4; ++round) {
        Tensors x = split_and_load(random::uniform(-1, 1, {8, 1050}), where);
        for (const Tensor& y : split_and_load(random::randint(0, 3, {8}), where)) x.push_back(y);
        for (const double v : values(compiled ? step(x) : eager(x))) seen.push_back(v);
      }
      for (const Tensor& w : net.parameters()[0].second.list_data())
        for (const double v : values(w)) seen.push_back(v);
      return seen;
    };
    EXPECT_EQ(train(true), train(false));
  }
}

}  // namespace
}  // namespace locus
