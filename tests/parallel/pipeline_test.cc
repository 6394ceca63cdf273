// A network in stages against the same network in one piece.
#include <locus/devices/pool.h>
#include <locus/nn/pipeline.h>

#include <atomic>
#include <map>

#include <locus/core/generator.h>
#include <locus/core/stream.h>
#include <locus/core/transfer_log.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/containers.h>
#include <locus/nn/layers.h>
#include <locus/nn/norm_layers.h>
#include <locus/ops/reduce.h>
#include "tests/parallel/in_parts.h"
#include "tests/ranks/groups.h"
#include "tests/support/folder.h"
#include "tests/support/slow.h"

namespace locus::test {
namespace {

using nn::Pipeline, nn::Schedule;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Values = std::vector<double>;

nn::Sequential make_net(DType d) {
  nn::Sequential net;
  for (const int64_t units : {24, 20, 16}) net.add(nn::Dense(units, nn::relu, {.dtype = d}));
  net.add(nn::Dense(5, {}, {.dtype = d}));
  return net;
}

// 100 steps of SGD on the same 14 samples, in stages if there are contexts.
Outcome train(DType d, const std::vector<Context>& where, const nn::PipelineOptions& options = {},
              bool compiled = false, bool hybrid = false) {
  random::seed(5);
  nn::Sequential net = make_net(d);
  const Context first = where.empty() ? cpu() : where.front();
  if (where.empty()) net.initialize(init::Xavier(), first);
  std::vector<nn::Sequential> cut;
  const int stages = where.empty() ? 1 : static_cast<int>(where.size());
  for (int s = 0; s < stages; ++s) cut.push_back(net.slice(s * 4 / stages, (s + 1) * 4 / stages));
  for (nn::Sequential& stage : cut) stage.hybridize(hybrid);
  std::optional<Pipeline> pipe;
  if (stages == 2) pipe.emplace(Pipeline::Stages(cut[0], cut[1]), where, options);
  if (stages == 4) pipe.emplace(Pipeline::Stages(cut[0], cut[1], cut[2], cut[3]), where, options);
  if (pipe) pipe->initialize(init::Xavier());
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1, .momentum = .9}));
  Outcome o;
  o.losses = losses_of(net, pipe, trainer, d, first, compiled, 100);
  for (const auto& [name, p] : net.parameters()) o.parameters.push_back(values(p.data()));
  return o;
}

TEST(Pipeline, TrainsAsTheNetworkInOnePiece) {
  for (const DType d : {f32, f64}) {
    const Outcome whole = train(d, {});
    EXPECT_LT(whole.losses[99][0], .5 * whole.losses[0][0]) << "nothing was trained";
    for (const int stages : {2, 4})
      for (const auto& where : places(stages))
        for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f1b}) {
          SCOPED_TRACE(text_of(name(d), " ", stages, " ", where[0]));
          // 14 samples: microbatches of 3 and 2, and of 1 and 2.
          expect_close(train(d, where, {6, schedule}).parameters, whole.parameters,
                       d == f32 ? 1e-4 : 1e-12);
        }
    expect_close(train(d, hosts(2), {14, Schedule::one_f1b}).parameters, whole.parameters,
                 d == f32 ? 1e-4 : 1e-12);
  }
}

TEST(Pipeline, IsEqualFromRunToRunAndByEitherSchedule) {
  for (const auto& where : places(2)) {
    const Outcome a = train(f32, where, {6, Schedule::one_f1b});
    EXPECT_EQ(a, train(f32, where, {6, Schedule::one_f1b}));
    EXPECT_EQ(a, train(f32, where, {6, Schedule::gpipe}));
    const Values first = a.losses[0], whole = train(f32, {}).losses[0];
    for (size_t k = 0; k < whole.size(); ++k) EXPECT_NEAR(first[k], whole[k], 1e-5);
  }
}

TEST(Pipeline, CanBeCompiled) {
  for (const auto& where : places(2))
    EXPECT_EQ(train(f32, where, {6, Schedule::one_f1b}, true), train(f32, where, {6}));
}

TEST(Pipeline, StagesCanBeHybridized) {
  for (const auto& where : places(2))
    EXPECT_EQ(train(f32, where, {6}, false, true), train(f32, where, {6}));
}

TEST(Pipeline, SchedulesInOrder) {
  const auto of_stage = [](Schedule schedule, int stage, int stages, int m) {
    std::string text;
    for (const Pipeline::Pass& p : Pipeline::order(schedule, stages, m))
      if (p.stage == stage) text += text_of(p.backward ? "B" : "F", p.microbatch, " ");
    return text;
  };
  EXPECT_EQ(of_stage(Schedule::gpipe, 0, 2, 4), "F0 F1 F2 F3 B0 B1 B2 B3 ");
  EXPECT_EQ(of_stage(Schedule::one_f1b, 0, 2, 4), "F0 F1 B0 F2 B1 F3 B2 B3 ");
  EXPECT_EQ(of_stage(Schedule::one_f1b, 1, 2, 4), "F0 B0 F1 B1 F2 B2 F3 B3 ");
  EXPECT_EQ(of_stage(Schedule::one_f1b, 0, 4, 2), "F0 F1 B0 B1 ");
}

// Each pass follows its inputs, at a later tick. The bubble equals the formula.
TEST(Pipeline, APassFollowsThePassesThatItNeeds) {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f1b})
    for (int stages = 1; stages <= 5; ++stages)
      for (int m = 1; m <= 7; ++m) {
        std::map<std::tuple<bool, int, int>, int> ticks;
        int end = 0;
        for (const Pipeline::Pass& p : Pipeline::order(schedule, stages, m)) {
          const auto before = [&](bool backward, int stage) {
            return ticks.contains({backward, stage, p.microbatch}) &&
                   ticks[{backward, stage, p.microbatch}] < p.tick;
          };
          if (p.backward) {
            EXPECT_TRUE(before(false, p.stage));
          }
          if (p.backward && p.stage + 1 < stages) {
            EXPECT_TRUE(before(true, p.stage + 1));
          }
          if (!p.backward && p.stage > 0) {
            EXPECT_TRUE(before(false, p.stage - 1));
          }
          ticks[{p.backward, p.stage, p.microbatch}] = p.tick;
          end = std::max(end, p.tick + 1);
        }
        EXPECT_EQ(ticks.size(), static_cast<size_t>(2 * stages * m));
        EXPECT_DOUBLE_EQ(1 - 2. * m / end, Pipeline::bubble(stages, m)) << stages << " " << m;
      }
}

TEST(Pipeline, PassesAreWatched) {
  nn::Dense a(4, {}, {.in_units = 3}), b(2, {}, {.in_units = 4});
  Pipeline pipe({a, b}, hosts(2), {3, Schedule::gpipe});
  pipe.initialize(init::Xavier());
  std::vector<Pipeline::Pass> seen;
  pipe.watch([&](const Pipeline::Pass& pass, bool enqueued, const Tensor& given) {
    if (enqueued) return seen.push_back(pass);
    EXPECT_EQ(given.context(), cpu(pass.stage));
    EXPECT_EQ(given.shape()[0], 2);
  });
  const Tensor x = ones({6, 3}), y = zeros({6}, {cpu(1), i32});
  pipe.forward_backward(x, y, nn::SoftmaxCrossEntropyLoss());
  EXPECT_EQ(seen, Pipeline::order(Schedule::gpipe, 2, 3));
  pipe.watch({});
  pipe.forward_backward(x, y, nn::SoftmaxCrossEntropyLoss());
  EXPECT_EQ(seen.size(), 12u);
}

// Passes that wait for each other; fails if they do not run at once.
struct Meeting {
  int expected = 0;
  std::atomic<int> there = 0;
  std::atomic<bool> met = true;

  void join() {
    ++there;
    if (!eventually([this] { return there == expected; })) met = false;
  }
};

// All passes of a tick run at the same time.
TEST(Pipeline, StagesComputeAtOnce) {
  LOCUS_NEEDS_EMULATED_GPUS();
  LOCUS_NEEDS_ANY_GPUS(3);
  LOCUS_NEEDS_POOL();  // without a pool, freed memory waits for its GPU
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f1b}) {
    nn::Dense a(4, {}, {.in_units = 3}), b(2, {}, {.in_units = 4}), c(2, {}, {.in_units = 2});
    Pipeline pipe({a, b, c}, gpus(3), {4, schedule});
    pipe.initialize(init::Xavier());
    std::map<int, Meeting> ticks;
    for (const Pipeline::Pass& p : Pipeline::order(schedule, 3, 4)) ++ticks[p.tick].expected;
    pipe.watch([&](const Pipeline::Pass& pass, bool enqueued, const Tensor& given) {
      if (enqueued) return;
      slice_axis(given, 0, Slice(0, 1)) * 1;  // not before its input is there
      Meeting* meeting = &ticks[pass.tick];
      const Call call{
          nullptr, nullptr, 0, 0, &meeting, sizeof meeting, current_stream(given.context())};
      device(given.context())
          .launch([](const Call& k) { k.attributes<Meeting*>()->join(); }, call, "meeting");
    });
    pipe.forward_backward(ones({8, 3}, gpu(0)), zeros({8}, {gpu(2), i32}),
                          nn::SoftmaxCrossEntropyLoss());
    wait_all();
    for (const auto& [tick, meeting] : ticks) EXPECT_TRUE(meeting.met) << "tick " << tick;
  }
}

// The memory of a stage between its passes, as the pool counts it.
TEST(Pipeline, OneForwardOneBackwardHoldsFewerActivations) {
  LOCUS_NEEDS_POOL();
  const auto peak = [](const std::vector<Context>& where, Schedule schedule) {
    constexpr int64_t kRows = 64, kUnits = 256;
    std::vector<nn::Sequential> stages(2);
    for (nn::Sequential& s : stages)
      s.add(nn::Dense(kUnits, nn::relu, {.in_units = kUnits}),
            nn::Dense(kUnits, nn::relu, {.in_units = kUnits}));
    Pipeline pipe({stages[0], stages[1]}, where, {16, schedule});
    pipe.initialize(init::Xavier());
    EXPECT_EQ(pipe.in_flight(0), schedule == Schedule::gpipe ? 16 : 2);
    EXPECT_EQ(pipe.in_flight(1), schedule == Schedule::gpipe ? 16 : 1);
    const Tensor x = ones({16 * kRows, kUnits}, where[0]), y = ones({16 * kRows, kUnits}, where[1]);
    wait_all();
    const auto in_use = [&] { return memory_pool(where[0]).stats().in_use; };
    const size_t before = in_use();
    size_t most = before;
    const auto loss = [&](const Tensor& out, const Tensor& label) {
      wait_all();
      most = std::max(most, in_use());
      return nn::L2Loss()(out, label);
    };
    pipe.forward_backward(x, y, loss);
    return static_cast<double>(most - before) / (kRows * kUnits * sizeof(float));
  };
  for (const auto& where : places(2)) {
    const double gpipe = peak(where, Schedule::gpipe), one_f1b = peak(where, Schedule::one_f1b);
    EXPECT_GE(gpipe, 30);  // two layers' results of each of 16 microbatches
    EXPECT_LE(one_f1b, .3 * gpipe);
  }
}

TEST(Pipeline, ActivationsAndGradientsAreCopiesOfTheCallersLine) {
  for (const auto& where : places(2)) {
    nn::Dense a(8, nn::relu, {.in_units = 4}), b(3, {}, {.in_units = 8});
    Pipeline pipe({a, b}, where, {4});
    pipe.initialize(init::Xavier());
    const Tensor x = ones({8, 4}, where[0]), y = zeros({8}, {where[1], i32});
    TransferLog log;
    pipe.forward_backward(x, y, nn::SoftmaxCrossEntropyLoss());
    const int line = __LINE__ - 1;
    uint64_t forth = 0, back = 0;
    for (const TransferEntry& e : log.entries()) {
      ASSERT_EQ(e.kind, TransferKind::copy);
      EXPECT_EQ(static_cast<int>(e.caller.line), line);
      EXPECT_THAT(e.caller.file, HasSubstr("pipeline_test.cc"));
      EXPECT_EQ(e.bytes, 8u * 8 * sizeof(float));
      (e.from == where[0] ? forth : back) += e.count;
    }
    EXPECT_EQ(forth, 4u);
    EXPECT_EQ(back, 4u);
  }
}

TEST(Pipeline, ABatchMayLieElsewhere) {
  for (const auto& where : places(2)) {
    nn::Dense a(8, nn::relu, {.in_units = 4}), b(3, {}, {.in_units = 8});
    Pipeline pipe({a, b}, where, {3});
    pipe.initialize(init::Xavier());
    const Tensor x = sample_values(cpu(), f32, {8, 4}), y = array({0, 1, 2, 0, 1, 2, 0, 1});
    const Tensor l = pipe.forward_backward(x, y, nn::SoftmaxCrossEntropyLoss());
    EXPECT_EQ(l.context(), where[1]);
    EXPECT_EQ(l.shape(), Shape{8});
    const Tensor out = pipe(x);
    EXPECT_EQ(out.context(), where[1]);
    const Tensor expected = nn::SoftmaxCrossEntropyLoss()(out, y.as_in_context(where[1]));
    for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(values(l)[i], values(expected)[i], 1e-6);
  }
}

TEST(Pipeline, HasTheNamesAndFilesOfOneSequential) {
  const Folder folder;
  const std::string file = folder / "pipe.params";
  nn::Sequential net = make_net(f32);
  net.initialize(init::Xavier());
  const Tensor x = sample_values(cpu(), f32, {4, 12});
  const Tensor expected = net(x);
  net.save_parameters(file);
  for (const auto& where : places(3)) {
    nn::Sequential other = make_net(f32);
    Pipeline pipe({other.slice(0, 1), other.slice(1, 3), other.slice(3, 4)}, where);
    std::vector<std::string> names, theirs;
    for (const auto& [name, p] : pipe.parameters()) names.push_back(name);
    for (const auto& [name, p] : net.parameters()) theirs.push_back(name);
    EXPECT_EQ(names, theirs);
    pipe.load_parameters(file);  // initializes each stage on its context
    EXPECT_EQ(pipe.parameter("2.weight").list_ctx(), (std::vector{where[1]}));
    EXPECT_EQ(values(pipe(x)), values(expected));
    pipe.save_parameters(file);
    nn::Sequential third = make_net(f32);
    third.load_parameters(file, cpu());
    EXPECT_EQ(values(third(x)), values(expected));
  }
}

TEST(Pipeline, StagesWithoutGradientsSendNone) {
  for (const auto& where : places(3)) {
    nn::Dense a(6, nn::relu, {.in_units = 4}), b(6, nn::relu, {.in_units = 6}),
        c(3, {}, {.in_units = 6});
    Pipeline pipe({a, b, c}, where, {2});
    pipe.initialize(init::Xavier());
    a.freeze();
    b.freeze("bias");
    const Tensor x = ones({4, 4}, where[0]), y = zeros({4}, {where[2], i32});
    TransferLog log;
    pipe.forward_backward(x, y, nn::SoftmaxCrossEntropyLoss());
    for (const TransferEntry& e : log.entries()) EXPECT_FALSE(e.to == where[0]);
    EXPECT_TRUE(autograd::fresh_grad(b.parameter("weight").data()));
  }
}

TEST(Pipeline, EachMicrobatchIsABatchForBatchNorm) {
  nn::BatchNorm norm({.in_channels = 1});
  nn::Dense last(1, {}, {.in_units = 1});
  Pipeline pipe({norm, last}, hosts(2), {2});
  pipe.initialize(init::One());
  const Tensor x = array({{0.f}, {2.f}, {10.f}, {14.f}}), y = zeros({4, 1}, cpu(1));
  pipe.forward_backward(x, y, nn::L2Loss());
  EXPECT_NEAR(values(norm.parameter("running_mean").data())[0], .9 * .1 * 1 + .1 * 12, 1e-6);
}

TEST(Pipeline, BadCallsAreNamedBeforeAnythingRuns) {
  nn::Dense a(4, {}, {.in_units = 3}), b(2, {}, {.in_units = 4});
  EXPECT_THAT(message_of<ValueError>([&] {
                Pipeline({a, b}, hosts(3));
              }),
              HasSubstr("2 stages and 3 contexts"));
  EXPECT_THROW(Pipeline({a, b}, {cpu(0), cpu(0)}), ValueError);
  EXPECT_THAT(message_of<ValueError>([&] {
                Pipeline({a, b}, hosts(2), {0});
              }),
              HasSubstr("microbatches 0"));
  EXPECT_THAT(message_of<ValueError>([&] {
                Pipeline({a, b}, hosts(2), {(1 << 20) + 1});
              }),
              HasSubstr("microbatches 1048577; expected 1 to 1048576"));
  EXPECT_THAT(message_of<ValueError>([&] {
                Pipeline({a, b}, hosts(2), {2, static_cast<nn::Schedule>(7)});
              }),
              HasSubstr("schedule 7; expected Schedule::gpipe or one_f1b"));
  Pipeline pipe({a, b}, hosts(2), {4});
  const nn::SoftmaxCrossEntropyLoss loss;
  const Tensor x = ones({8, 3}), y = zeros({8}, {cpu(), i32});
  EXPECT_THAT(message_of<Error>([&] { pipe.forward_backward(x, y, loss); }),
              HasSubstr("has not been initialized"));
  a.initialize(init::One(), cpu(0));
  b.initialize(init::One(), cpu(0));
  EXPECT_THAT(message_of<ContextMismatch>([&] { pipe.forward_backward(x, y, loss); }),
              HasSubstr("stage 1 computes on cpu(1), but its parameter '1.weight' is on [cpu(0)]"));
  b.reset_ctx({cpu(0), cpu(1)});  // a further replica does no harm
  EXPECT_THAT(
      message_of<ValueError>([&] { pipe.forward_backward(x(Slice(0, 3)), y(Slice(0, 3)), loss); }),
      HasSubstr("a batch of 3 samples"));
  EXPECT_THAT(message_of<ShapeError>([&] { pipe.forward_backward(x, y(Slice(0, 7)), loss); }),
              HasSubstr("one label per sample"));
  EXPECT_THROW(pipe.forward_backward(x, y, nullptr), ValueError);
  const auto mean = [&](const Tensor& out, const Tensor& label) { return loss(out, label).mean(); };
  EXPECT_THAT(message_of<ShapeError>([&] { pipe.forward_backward(x, y, mean); }),
              HasSubstr("expected one loss per sample, (2,)"));
  const auto elsewhere = [&](const Tensor& out, const Tensor& label) {
    return loss(out, label).as_in_context(cpu(0));
  };
  EXPECT_THAT(message_of<ContextMismatch>([&] { pipe.forward_backward(x, y, elsewhere); }),
              HasSubstr("expected it on cpu(1)"));
  EXPECT_FALSE(autograd::fresh_grad(a.parameter("weight").data()));
}

TEST(Pipeline, AfterAnErrorInTheMiddleGradientsAreStale) {
  nn::Dense a(4, {}, {.in_units = 3}), b(2, {}, {.in_units = 4});
  Pipeline pipe({a, b}, hosts(2), {4});
  pipe.initialize(init::Xavier());
  nn::Trainer trainer(pipe.parameters(), optim::SGD({.learning_rate = 1}));
  const Tensor x = ones({8, 3}), y = zeros({8}, {cpu(1), i32});
  int calls = 0;
  const auto refused = [&](const auto& third) {
    calls = 0;
    const auto loss = [&](const Tensor& out, const Tensor& label) {
      const Tensor l = nn::SoftmaxCrossEntropyLoss()(out, label);
      return ++calls == 3 ? third(l) : l;
    };
    std::string said = message_of<Error>([&] { pipe.forward_backward(x, y, loss); });
    EXPECT_THAT(message_of<Error>([&] { trainer.step(8); }), HasSubstr("has not been updated"));
    pipe.forward_backward(x, y, loss);
    trainer.step(8);
    return said;
  };
  EXPECT_THAT(refused([](const Tensor&) -> Tensor { throw Error("the third one"); }),
              StartsWith("the third one (at "));
  EXPECT_THAT(refused([](const Tensor& l) { return l.mean(); }), HasSubstr("one loss per sample"));
  EXPECT_THAT(refused([](const Tensor& l) { return l.as_in_context(cpu()); }),
              HasSubstr("expected it on cpu(1)"));
}

TEST(PipelineOrder, RefusesNumbersBelowOne) {
  for (const auto& [stages, microbatches] : {std::pair(-1, 2), std::pair(0, 2), std::pair(2, -2)})
    EXPECT_THROW(Pipeline::order(Schedule::gpipe, stages, microbatches), ValueError);
}

}  // namespace
}  // namespace locus::test
