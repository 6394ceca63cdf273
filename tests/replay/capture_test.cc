// Work recorded once and replayed, on every GPU, emulated ones included.
#include <locus/core/capture.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <thread>

#include <locus/core/autograd.h>
#include <locus/core/memory/storage.h>
#include <locus/core/op.h>
#include <locus/core/replay/replay.h>
#include <locus/core/stream.h>
#include <locus/devices/pool.h>
#include <locus/nn/optimizer.h>
#include <locus/ops/allclose.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/matmul.h>
#include <locus/ops/optim.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include "tests/devices/fake_device.h"
#include "tests/replay/captures.h"
#include "tests/support/contexts.h"
#include "tests/support/slow.h"

namespace locus::test {
namespace {

using testing::HasSubstr;

TEST(Capture, ReplaysWithTheValuesOfTheTime) {
  LOCUS_NEEDS_ANY_GPUS(1);
  for (Context c : gpus(num_gpus())) {
    const Tensor x = arange(6, {c, f32});
    Tensor y;
    Graph graph = recorded(c, [&] { y = (x * 2 + 1).sum() * x; });
    EXPECT_EQ(graph.context(), c);
    for (double first : {0., 10., -3.}) {
      arange(first, first + 6, 1, {c, f32}).copyto(x);
      churn(c);
      graph.replay();
      const double sum = 2 * (6 * first + 15) + 6;
      for (int i = 0; i < 6; ++i) EXPECT_EQ(y[i].item<double>(), sum * (first + i));
    }
  }
}

TEST(Capture, IsOrderedWithEagerWorkAsOneOp) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  const Tensor x = zeros({200000}, c);
  Tensor total = zeros({200000}, c);
  Tensor y;
  Graph graph = recorded(c, [&] {
    y = x * 3;
    total += y;
  });
  const Stream other(c);
  for (int i = 1; i <= 20; ++i) {
    full({200000}, i, c).copyto(x);  // after the last replay, which reads x
    graph.replay();
    const StreamScope scope(other);
    const Tensor seen = y + total;  // after this replay, before the next
    EXPECT_EQ(seen[-1].item<double>(), 3 * i + 3 * i * (i + 1) / 2);
  }
}

TEST(Capture, KeepsWhatItUsesAndItsResultsOutliveIt) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  wait_all();
  memory_pool(c).release_cached();
  const size_t before = memory_pool(c).stats().in_use;
  Tensor y;
  {
    Tensor x = full({5000}, 2, c);
    Graph graph = recorded(c, [&] { y = (x + 1) * x; });
    x = Tensor();
    churn(c);
    EXPECT_GT(memory_pool(c).stats().in_use, before + 2 * 5000 * sizeof(float));
    graph.replay();
  }
  churn(c);
  EXPECT_EQ(values(y), std::vector<double>(5000, 6));
  y = y + 1;
  wait_all();
  memory_pool(c).release_cached();
  EXPECT_LE(memory_pool(c).stats().in_use, before + 5000 * sizeof(float) + 512);
}

TEST(Capture, AGraphThatEndsLeavesOtherErrorsToBeFound) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  const Tensor x = ones({4}, c);
  {
    Tensor y;
    Graph graph = recorded(c, [&] { y = x + x; });
    graph.replay();
    const Tensor bad = pick(x.reshape({1, 4}), full({1}, 7, {c, i32}));
  }
  EXPECT_THROW(wait_all(), IndexError);
  EXPECT_NO_THROW(wait_all());
}

TEST(Capture, ManyLeakNothing) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  size_t reserved = 0;
  for (int64_t i = 0; i < 300; ++i) {
    const Tensor x = ones({1000 + i % 7 * 1000}, c);
    Tensor y;
    Graph graph = recorded(c, [&] { y = x + x; });
    if (i % 2 == 0) graph.replay();
    if (i % 3 == 0) {
      Capture abandoned(c);
      y = x * 3;
    }
    if (i == 20) reserved = memory_pool(c).stats().reserved;
  }
  EXPECT_LE(memory_pool(c).stats().reserved, reserved);
}

// From other streams with work in flight, and back to them when the graph is destroyed.
TEST(Capture, TakesAndLeavesMemoryWhereThatIsShort) {
  LOCUS_NEEDS_ANY_GPUS(1);
  LOCUS_NEEDS_POOL();
  const Context c = gpu(0);
  constexpr int64_t kSize = 10 << 20;
  const Tensor x = ones({kSize}, c);
  const Shortage room_for_one(c, 5 * kSize);
  {
    zeros({kSize}, c);
    for (int i = 0; i < 500; ++i) delay(current_stream(c));
    Tensor y;
    Graph graph = recorded(c, [&] { y = x * 2; });
    graph.replay();
    EXPECT_EQ(y[kSize - 1].item<float>(), 2);
  }
  EXPECT_EQ(full({kSize}, 3, c)[kSize - 1].item<float>(), 3);
}

TEST(Capture, RefusesWhatAReplayCouldNotRepeat) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  const Tensor x = arange(4, {c, f32}), host = ones({4});
  const Tensor one = ones({1}, c);
  const auto refused = [&](auto f, const char* what) {
    const std::string text = message_of<CaptureError>([&] {
      Capture capture(c);
      const Tensor before = x * 2;
      f();
      capture.end();
    });
    std::printf("not capturable: %s\n", text.c_str());
    EXPECT_THAT(text, HasSubstr(what));
    EXPECT_THAT(text, HasSubstr(to_string(c)));
    EXPECT_FALSE(capture::active());
    EXPECT_EQ(values(x + 1), (std::vector<double>{1, 2, 3, 4}));
  };
  refused([&] { one.item<float>(); }, "item");
  refused([&] { x.to_vector<float>(); }, "to_vector");
  refused([&] { allclose(x, 1); }, "allclose");
  refused([&] { x.wait_to_read(); }, "wait_to_read");
  refused([&] { std::ostringstream() << x; }, "print");
  refused([&] { wait_all(); }, "wait_all");
  refused([&] { x.copyto(cpu()); }, "copyto");
  refused([&] { x.copyto(cpu_pinned()); }, "blocking");
  refused([&] { host.copyto(x); }, "pageable");
  refused([&] { host.as_in_context(c); }, "pageable");
  refused([&] { const Tensor y = x[x > 1]; }, "mask_offsets");
  refused([&] { random::permutation(3, c); }, "permutation");
  refused([&] { random::shuffle(x); }, "permutation");
  refused([&] { host + 1; }, "add");
  refused([&] { Capture again(c); }, "already");
  const Stream stream(c);
  refused([&] { Stream(c).synchronize(); }, "synchronize");
  refused(
      [&] {
        const StreamScope scope(stream);
        x + 1;
      },
      "stream");
}

TEST(Capture, AFailureInsideLeavesNothing) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  const Tensor x = ones({4}, c);
  Tensor y;
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(recorded(c,
                          [&] {
                            y = x + 1;
                            x + ones({5}, c);
                          }),
                 ShapeError);
    EXPECT_FALSE(capture::active());
    Graph graph = recorded(c, [&] { y = x + 2; });
    graph.replay();
    EXPECT_EQ(values(y), std::vector<double>(4, 3));
  }
}

TEST(Capture, ResultsHaveNoValuesBeforeItsEnd) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  const Tensor x = ones({4}, c);
  Capture capture(c);
  const Tensor y = x + 1;
  std::thread([&] {
    EXPECT_THROW(values(y), CaptureError);
    EXPECT_THROW(y + 1, CaptureError);
    EXPECT_EQ(values(x + 1), std::vector<double>(4, 2));
    wait_all();
  }).join();
  Graph graph = capture.end();
  graph.replay();
  EXPECT_EQ(values(y), std::vector<double>(4, 2));
}

TEST(Capture, ThreadsCaptureAtOnce) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  const auto work = [c](int id) {
    for (int round = 0; round < 20; ++round) {
      const Tensor x = full({1000}, id, c);
      Tensor y;
      Graph graph = recorded(c, [&] {
        y = x;
        for (int i = 0; i < 10; ++i) y = y + x;
      });
      for (int i = 0; i < 3; ++i) graph.replay();
      ASSERT_EQ(values(y), std::vector<double>(1000, 11 * id));
    }
  };
  std::thread a(work, 1), b(work, 2);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(values(ones({1000}, c) + 1), std::vector<double>(1000, 2));
  a.join();
  b.join();
}

TEST(Capture, CopiesFromPageLockedMemory) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  const Tensor batch = ones({3}, cpu_pinned());
  Tensor x = zeros({3}, c);
  Graph graph = recorded(c, [&] {
    batch.copyto(x, {.blocking = false});
    x += 1;
  });
  for (int i = 1; i < 4; ++i) {
    full({3}, i).copyto(batch);  // waits for the replay that reads it
    graph.replay();
    EXPECT_EQ(values(x), std::vector<double>(3, i + 1));
  }
}

TEST(Capture, TwoContextsOfOneThread) {
  LOCUS_NEEDS_ANY_GPUS(2);
  const Tensor a = ones({3}, gpu(0)), b = ones({3}, gpu(1));
  Capture first(gpu(0)), second(gpu(1));
  const Tensor p = a + 1, q = b + 2;
  const std::string text = message_of<CaptureError>([&] { p.copyto(gpu(1)); });
  EXPECT_THAT(text, HasSubstr("between devices"));
  std::printf("not capturable: %s\n", text.c_str());
  Graph one = first.end(), two = second.end();
  one.replay();
  two.replay();
  EXPECT_EQ(values(p), std::vector<double>(3, 2));
  EXPECT_EQ(values(q), std::vector<double>(3, 3));
}

TEST(Capture, CpusRecordNothing) {
  EXPECT_THAT(message_of<CaptureError>([] { Capture capture(cpu()); }), HasSubstr("cpu(0)"));
}

// No exception leaves a destructor when a capture cannot end.
TEST(Capture, OneThatCannotEndLeavesNothing) {
  { const Capture dropped(fake()); }
  Capture refused(fake());
  capture::note(fake(), {.context = fake()});
  EXPECT_THROW(refused.end(), std::bad_alloc);
  EXPECT_FALSE(capture::active());
}

// The numbers of n eager runs, in their order.
TEST(Capture, RandomOpsDrawNewNumbersAtEachReplay) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  const auto draw = [c] {
    return Tensors{random::uniform(-1, 1, {1003}, {c, f32}), random::normal(0, 1, {77}, {c, f64}),
                   random::randint(0, 1 << 30, {5}, c), random::bernoulli(.5, {4000}, {c, bool_})};
  };
  Tensors y;
  Graph graph = recorded(c, [&] { y = draw(); });
  std::vector<std::vector<double>> eager, replayed;
  random::seed(5);
  for (int i = 0; i < 4; ++i)
    for (const Tensor& t : draw()) eager.push_back(values(t));
  random::seed(5);
  for (int i = 0; i < 4; ++i) {
    graph.replay();
    for (const Tensor& t : y) replayed.push_back(values(t));
  }
  EXPECT_EQ(replayed, eager);
  EXPECT_NE(replayed[0], replayed[4]);
}

TEST(Capture, UpdatesInPlaceByTheNumbersOfTheTime) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  SGDUpdate numbers;
  const auto now = [&] { return numbers; };
  for (const bool momentum : {false, true}) {
    for (DType d : {f32, f64, f16, bf16}) {
      SCOPED_TRACE(name(d));
      const auto fresh = [&] { return arange(3000, {c, f32}).astype(d) / 500; };
      const Tensor g = ones({3000}, {c, d}), w = fresh(), m = zeros({3000}, {c, d});
      const Tensor we = fresh(), me = zeros({3000}, {c, d});
      const auto& update = momentum ? sgd_mom_update : sgd_update;
      const auto of = [&](const Tensor& t) {
        return momentum ? std::vector<Tensors>{{t}} : std::vector<Tensors>();
      };
      Graph graph = recorded(c, [&] { update({w}, {g}, of(m), now); });
      for (double lr : {.1, .2, .2, .05}) {
        numbers = {.lr = lr, .momentum = .9, .wd = .01, .rescale_grad = lr, .clip_gradient = .15};
        full({3000}, 10 * lr, {c, d}).copyto(g);
        graph.replay();
        update({we}, {g}, of(me), numbers);
        EXPECT_EQ(values(w), values(we));
        EXPECT_EQ(values(m), values(me));
      }
    }
  }
}

TEST(Capture, AnOptimizerMayGoBeforeItsGraph) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  const Tensor w = zeros({3}, c), g = ones({3}, c);
  auto sgd = std::make_unique<optim::SGD>(optim::SGDOptions{.learning_rate = 1});
  const optim::SGD copied = *sgd;
  optim::ParameterGroup group{.weights = {w}, .gradients = {g}, .state = {}, .lr_mult = 2};
  Graph graph = recorded(c, [&] { sgd->update(group, .5); });
  graph.replay();
  EXPECT_EQ(values(w), std::vector<double>(3, -1));
  sgd->set_learning_rate(10);
  EXPECT_EQ(copied.learning_rate(), 1);
  graph.replay();
  EXPECT_EQ(values(w), std::vector<double>(3, -11));
  sgd.reset();
  graph.replay();
  EXPECT_EQ(values(w), std::vector<double>(3, -21));
}

TEST(Capture, ATrainingStepReplaysAsItRuns) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  const auto train = [c](bool captured) {
    random::seed(3);
    const Tensor x = random::normal(0, 1, {16, 8}, c), t = random::normal(0, 1, {16, 4}, c);
    const Tensor w = random::normal(0, .1, {8, 4}, c), b = zeros({4}, c);
    const Tensors parameters{w, b}, momenta{zeros_like(w), zeros_like(b)};
    for (const Tensor& p : parameters) p.attach_grad();
    Tensor loss;
    const auto step = [&] {
      {
        const autograd::Record record;
        const Tensor kept = dot(x, w) * random::bernoulli(.8, {16, 4}, c) + b;
        loss = pow(kept - t, 2).mean();
      }
      loss.backward();
      sgd_mom_update(parameters, {w.grad(), b.grad()}, {momenta}, {.lr = .1, .momentum = .9});
    };
    std::vector<double> losses;
    std::optional<Graph> graph;
    if (captured) graph = recorded(c, step);
    for (int i = 0; i < 20; ++i) {
      captured ? graph->replay() : step();
      losses.push_back(loss.item<double>());
    }
    return losses;
  };
  const std::vector<double> eager = train(false);
  EXPECT_LT(eager.back(), eager.front());
  EXPECT_EQ(train(true), eager);
}

}  // namespace
}  // namespace locus::test
