// Where recordings end, and which calls share one.
#include <locus/core/autograd.h>
#include <locus/core/capture.h>
#include <locus/core/compile.h>
#include <locus/core/device.h>

#include <thread>

#include <locus/nn/optimizer.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using Values = std::vector<double>;

TEST(RecordingCalls, ACaptureEndsOnceOnTheThreadThatBeganIt) {
  LOCUS_NEEDS_ANY_GPUS(1);
  Tensor x = ones({2}, gpu(0));
  Capture capture(gpu(0));
  x += 1;
  std::thread([&] { EXPECT_THROW(capture.end(), CaptureError); }).join();
  Graph graph = capture.end();
  EXPECT_THROW(capture.end(), CaptureError);
  graph.replay();
  EXPECT_EQ(values(x), Values(2, 2));
}

TEST(RecordingCalls, AGraphIsNotReplayedWhileItsThreadCaptures) {
  LOCUS_NEEDS_ANY_GPUS(1);
  Tensor x = ones({2}, gpu(0));
  Capture first(gpu(0));
  x += 1;
  Graph graph = first.end();
  {
    const Capture second(gpu(0));
    EXPECT_THROW(graph.replay(), CaptureError);
  }
  graph.replay();
  EXPECT_EQ(values(x), Values(2, 2));
}

TEST(RecordingCalls, ACaptureContinuesAfterACallThatItRefuses) {
  LOCUS_NEEDS_ANY_GPUS(1);
  Tensor x = ones({2}, gpu(0));
  Capture capture(gpu(0));
  x += 1;
  EXPECT_THROW(x.to_vector<float>(), CaptureError);
  EXPECT_THROW(ones({2}) + 1, CaptureError);
  x *= 10;
  Graph graph = capture.end();
  graph.replay();
  EXPECT_EQ(values(x), Values(2, 20));
}

TEST(RecordingCalls, ACallThatACaptureRefusesAllocatesNothing) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Tensor x = ones({2});
  const Capture capture(gpu(0));
  const uint64_t before = memory_pool(cpu(0)).stats().allocations;
  EXPECT_THROW(x + 1, CaptureError);
  EXPECT_EQ(memory_pool(cpu(0)).stats().allocations, before);
}

TEST(RecordingCalls, AReplaySeesTheLearningRateButNoMultiplierNorBatchSize) {
  LOCUS_NEEDS_ANY_GPUS(1);
  nn::Parameter p("w", {2}, {.init = init::Zero()});
  p.initialize(init::Zero(), gpu(0));
  nn::Trainer trainer({{"w", p}}, optim::SGD({.learning_rate = 1}));
  const Tensor w = p.data();
  const auto written = [&] {
    Tensor y;
    {
      const autograd::Record record;
      y = w + 1;
    }
    y.backward();
  };
  written();
  trainer.step(1);  // outside: prepares the trainer
  EXPECT_EQ(values(w), Values(2, -1));
  Capture capture(gpu(0));
  written();
  trainer.step(2);
  Graph graph = capture.end();
  graph.replay();
  EXPECT_EQ(values(w), Values(2, -1.5));
  trainer.set_learning_rate(4);
  p.set_lr_mult(100);
  graph.replay();
  EXPECT_EQ(values(w), Values(2, -3.5));
}

TEST(RecordingCalls, BackwardThroughOneResultFreesTheGraphOfAll) {
  for (Context c : contexts()) {
    const Tensor x = ones({2}, c);
    x.attach_grad();
    Compiled f([](const Tensors& in) { return Tensors{in[0] * 2, in[0] * 3}; });
    Tensors y;
    {
      const autograd::Record record;
      y = f({x});
    }
    y[0].backward();
    EXPECT_EQ(values(x.grad()), Values(2, 2));
    EXPECT_THROW(y[1].backward(), Error);
  }
}

TEST(RecordingCalls, EachCurrentContextHasARecording) {
  Compiled f([](const Tensors& in) { return Tensors{in[0] + ones({2}, in[0].context())}; });
  const Tensor x = ones({2});
  f({x});
  {
    const ContextScope scope(cpu(1));
    f({x});
  }
  f({x});
  EXPECT_EQ(f.recorded(), 2u);
}

}  // namespace
}  // namespace locus::test
