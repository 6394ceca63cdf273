// A network trained by each kind of plan, against the same network on one context.
#include <locus/core/autograd.h>
#include <locus/nn/containers.h>
#include <locus/nn/planned.h>

#include <locus/core/generator.h>
#include <locus/core/parallel.h>
#include <locus/core/recompute.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/norm_layers.h>
#include <locus/nn/sync_norm.h>
#include "tests/parallel/in_parts.h"
#include "tests/ranks/groups.h"
#include "tests/support/folder.h"

namespace locus::test {
namespace {

using nn::Plan, nn::Planned;
using testing::HasSubstr;
using testing::StartsWith;

nn::Sequential make_net(DType d) {
  nn::Sequential net;
  net.add(nn::Dense(24, nn::relu, {.dtype = d}), nn::Dense(20, {}, {.dtype = d}),
          nn::Activate(nn::relu), nn::Dense(5, {}, {.dtype = d}));
  return net;
}

// No biases before a norm, because their gradients are only rounding.
nn::Sequential make_norm_net(DType d) {
  nn::Sequential net;
  for (const int64_t width : {24, 20})
    net.add(nn::Dense(width, {}, {.use_bias = false}), nn::SyncBatchNorm(), nn::Activate(nn::relu));
  net.add(nn::Dense(5));
  net.cast(d);
  return net;
}

const nn::SoftmaxCrossEntropyLoss loss;

// Steps of SGD on the same 14 samples, by a plan if there is one.
Outcome train(DType d, const Plan* plan, Context first, int steps, bool compiled = false,
              nn::Sequential (*make)(DType) = &make_net) {
  random::seed(5);
  nn::Sequential net = make(d);
  std::optional<Planned> planned;
  if (plan) {
    planned.emplace(net, *plan);
    planned->initialize(init::Xavier());
  } else {
    net.initialize(init::Xavier(), first);
  }
  const nn::Parameters all = plan ? planned->parameters() : net.parameters();
  nn::Trainer trainer(all, optim::SGD({.learning_rate = .1, .momentum = .9}));
  Outcome o;
  o.losses = losses_of(net, planned, trainer, d, first, compiled, steps);
  const Folder folder;
  const std::string file = folder / "planned.params";
  if (plan)
    planned->save_parameters(file);
  else
    net.save_parameters(file);
  for (const auto& [name, values_of] : load(file)) o.parameters.push_back(values(values_of));
  return o;
}

// For contexts cpu(0) to cpu(3). `contexts`: the number needed.
struct Case {
  const char* name;
  int contexts;
  const char* lines;
};
const Case kCases[] = {
    {"one", 1, "layers 0-3 on cpu(0)"},
    {"microbatches", 1, "microbatches 5\nlayers 0-3 on cpu(0)"},
    {"data", 2, "layers 0-3 on cpu(0), cpu(1)"},
    {"data over 3, in microbatches", 3, "microbatches 2\nlayers 0-3 on cpu(0), cpu(1), cpu(2)"},
    {"pipeline", 2, "microbatches 6\nlayers 0 on cpu(0)\nlayers 1-3 on cpu(1)"},
    {"gpipe", 3,
     "microbatches 4\nschedule gpipe\nlayers 0 on cpu(2)\nlayers 1-2 on cpu(0)\nlayers 3 on "
     "cpu(1)"},
    {"mixed", 4, "microbatches 3\nlayers 0-1 on cpu(0), cpu(2)\nlayers 2-3 on cpu(1), cpu(3)"},
    {"cut", 2, "layers 0-3 cut over cpu(0), cpu(1)"},
    {"cut over 3", 3, "layers 0-3 cut over cpu(2), cpu(0), cpu(1)"},
    {"cut behind", 2, "layers 0 on cpu(1)\nlayers 1-3 cut over cpu(0), cpu(1)"},
    {"cut before", 3, "layers 0 cut over cpu(0), cpu(1)\nlayers 1-3 on cpu(2)"},
};

// The case on contexts of one kind.
Plan plan_of(const Case& c, bool on_gpus) {
  std::string text = text_of("plan-1\n", c.lines);
  for (size_t at; on_gpus && (at = text.find("cpu")) != text.npos;) text.replace(at, 3, "gpu");
  return Plan::parse(text);
}

TEST(Planned, EachKindOfPlanTrainsAsOneContextDoes) {
  for (const DType d : {f32, f64})
    for (const bool on_gpus : {false, true}) {
      if (on_gpus && num_gpus() == 0) continue;
      const Context first = on_gpus ? gpu(0) : cpu(0);
      const Outcome one = train(d, nullptr, first, 100);
      EXPECT_LT(one.losses.back()[0], one.losses[0][0]) << "nothing was trained";
      for (const Case& c : kCases) {
        if (on_gpus && num_gpus() < c.contexts) continue;
        SCOPED_TRACE(text_of(c.name, " ", name(d), " ", first));
        const Plan plan = plan_of(c, on_gpus);
        const Outcome o = train(d, &plan, first, 100);
        ASSERT_EQ(o.parameters.size(), one.parameters.size());
        expect_close(one.parameters, o.parameters, d == f32 ? 1e-4 : 1e-12);
        for (size_t i = 0; i < 14; ++i) EXPECT_NEAR(o.losses[3][i], one.losses[3][i], 1e-4);
      }
    }
}

TEST(Planned, CanBeCompiled) {
  for (const bool on_gpus : {false, true})
    for (const Case& c : kCases) {
      if (on_gpus && num_gpus() < c.contexts) continue;
      SCOPED_TRACE(c.name);
      const Plan plan = plan_of(c, on_gpus);
      const Context first = on_gpus ? gpu(0) : cpu(0);
      EXPECT_EQ(train(f32, &plan, first, 20, true), train(f32, &plan, first, 20));
    }
}

const Case kNormCases[] = {
    {"data", 2, "layers 0-6 on cpu(0), cpu(1)"},
    {"pipeline", 2, "layers 0-3 on cpu(0)\nlayers 4-6 on cpu(1)"},
    {"mixed", 4, "layers 0-2 on cpu(0), cpu(2)\nlayers 3-6 on cpu(1), cpu(3)"},
    {"cut behind", 2, "layers 0-5 on cpu(0)\nlayers 6 cut over cpu(0), cpu(1)"},
    {"mixed, in microbatches", 4,
     "microbatches 3\nlayers 0-3 on cpu(3), cpu(1)\nlayers 4-6 on cpu(2), cpu(0)"},
};

TEST(Planned, SyncBatchNormWithoutReplicasIsBatchNormAndWithThemIsRefused) {
  const Outcome one = train(f64, nullptr, cpu(0), 20, false, &make_norm_net);
  for (const Case& c : kNormCases) {
    SCOPED_TRACE(c.name);
    const Plan plan = plan_of(c, false);
    for (const bool compiled : {false, true}) {
      const auto run = [&] { return train(f64, &plan, cpu(0), 20, compiled, &make_norm_net); };
      if (plan.replicas() == 1)
        expect_close(one.parameters, run().parameters, 1e-11);
      else
        EXPECT_THAT(message_of<Error>(run), HasSubstr("net.on_replicas(xs)"));
    }
  }
}

TEST(Planned, PredictsAndHasTheNamesOfTheNetwork) {
  const Tensor x = sample_values(cpu(), f32, {4, 12});
  random::seed(3);
  nn::Sequential whole = make_net(f32);
  whole.initialize(init::Xavier());
  const std::vector<double> expected = values(whole(x));
  const Folder folder;
  const std::string file = folder / "planned.params";
  whole.save_parameters(file);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    Planned net(make_net(f32), plan_of(c, false));
    net.load_parameters(file);  // each stage to its contexts
    const Tensor y = net(x);
    EXPECT_EQ(y.context(), net.plan().stages.back().contexts[0]);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(values(y)[i], expected[i], 1e-5);
    for (const auto& [name, p] : net.parameters())
      if (!net.plan().cut()) {
        EXPECT_TRUE(whole.parameter(name).valid());
      }
  }
}

TEST(Planned, DrawsTheValuesOfTheNetwork) {
  for (const Case& c : kCases) {
    if (plan_of(c, false).cut()) continue;
    random::seed(3);
    nn::Sequential whole = make_net(f32);
    whole.initialize(init::Xavier());
    const Tensor x = ones({6, 12});
    whole(x);
    random::seed(3);
    Planned net(make_net(f32), plan_of(c, false));
    net.initialize(init::Xavier());
    net(x);
    for (const auto& [name, p] : net.parameters())
      for (const Tensor& replica : p.list_data())
        EXPECT_EQ(values(replica), values(whole.parameter(name).data())) << c.name << " " << name;
  }
}

TEST(Planned, LayersThatCannotBeCutAreNamed) {
  nn::Sequential net;
  net.add(nn::Dense(8), nn::LayerNorm(), nn::Dense(3));
  const auto refused = [&]<class E>(E*, const char* lines) {
    return message_of<E>([&] { Planned(net, Plan::parse(text_of("plan-1\n", lines), "a.plan")); });
  };
  EXPECT_THAT(refused(static_cast<ValueError*>(nullptr), "layers 0-2 cut over cpu(0), cpu(1)"),
              testing::AllOf(
                  StartsWith("a.plan:2: layers 0-2 cut over cpu(0), cpu(1): layer 1, LayerNorm("),
                  HasSubstr("has no parts; expected Dense layers, and Activate between them")));
  EXPECT_THAT(refused(static_cast<ShapeError*>(nullptr),
                      "layers 0-1 on cpu\nlayers 2 cut over cpu(0), cpu(1), cpu(2), cpu(3)"),
              StartsWith("a.plan:3: layers 2 cut over"));
}

TEST(Planned, LayersThatAreCutKeepWhatWasSetOnThem) {
  nn::Sequential net = make_net(f32);
  net.cast(f64);
  net[1].freeze("weight");
  net.parameter("3.bias").set_lr_mult(2);
  net.parameter("3.weight").set_wd_mult(3);
  Planned cut(net, plan_of({"cut", 2, "layers 0-3 cut over cpu(0), cpu(1)"}, false));
  cut.initialize();
  cut(ones({2, 12}, {cpu(), f64}));
  for (const auto& [name, p] : cut.parameters()) {
    const nn::Parameter whole = net.parameter(name.substr(0, name.find('.', 2)));
    EXPECT_EQ(p.dtype(), f64) << name;
    EXPECT_EQ(p.grad_req(), whole.grad_req()) << name;
    EXPECT_EQ(p.lr_mult(), whole.lr_mult()) << name;
    EXPECT_EQ(p.wd_mult(), whole.wd_mult()) << name;
  }
  EXPECT_EQ(cut.parameter("1.weight.1").grad_req(), GradReq::null);
}

TEST(Planned, LayersThatShareParametersAreNotCut) {
  const nn::Dense twice(4, {}, {.in_units = 4});
  nn::Sequential net;
  net.add(twice, nn::Activate(nn::relu), twice);
  EXPECT_THAT(message_of<ValueError>([&] {
                Planned(net, Plan::parse("plan-1\nlayers 0-1 cut over cpu(0), cpu(1)\n"
                                         "layers 2 on cpu(0)"));
              }),
              testing::AllOf(StartsWith("Plan:2: layers 0-1 cut over cpu(0), cpu(1): layer 0, "),
                             HasSubstr("shares its weight with layer 2")));
}

TEST(Planned, LossesAreOneASampleByEachKindOfPlan) {
  const Tensor x = ones({14, 12}), y = zeros({14}, {cpu(), i32});
  const auto mean = [](const Tensor& out, const Tensor& label) { return loss(out, label).mean(); };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    Planned net(make_net(f32), plan_of(c, false));
    net.initialize(init::Xavier());
    EXPECT_THAT(message_of<ShapeError>([&] { net.forward_backward(x, y, mean); }),
                HasSubstr("expected one loss per sample"));
    EXPECT_THAT(message_of<ShapeError>([&] { net.forward_backward(x, y(Slice(0, 13)), loss); }),
                HasSubstr("expected one label per sample"));
    EXPECT_EQ(net.forward_backward(x, y, loss).shape(), Shape{14});
  }
}

TEST(Planned, AStageThatIsElsewhereIsNamedBeforeAnythingRuns) {
  Planned net(make_net(f32), Plan::parse("plan-1\nlayers 0-2 on cpu(0), cpu(2)\n"
                                         "layers 3 on cpu(1), cpu(3)"));
  net.initialize(init::Xavier());
  net.parameter("3.weight").reset_ctx(cpu(1));
  int called = 0;
  const auto counting = [&](const Tensor& out, const Tensor& label) {
    ++called;
    return loss(out, label);
  };
  const Tensor x = ones({8, 12}), y = zeros({8}, {cpu(), i32});
  EXPECT_THAT(message_of<ContextMismatch>([&] { net.forward_backward(x, y, counting); }),
              HasSubstr("computes on cpu(3), but its parameter '3.weight' is on [cpu(1)]"));
  EXPECT_EQ(called, 0);
}

// forward_backward() throws and leaves the gradients of an earlier call fresh.
std::string refused_without_loss(const Planned& net, const auto& call) {
  const std::string text = message_of<Error>(call);
  for (const auto& [name, p] : net.parameters())
    for (const Tensor& t : p.list_data()) EXPECT_TRUE(autograd::fresh_grad(t)) << name;
  return text;
}

TEST(Planned, InsideParallelOrRecomputeNoGradientIsLost) {
  Planned net(make_net(f32), Plan::parse("plan-1\nlayers 0-3 on cpu(0), cpu(1)"));
  net.initialize(init::Xavier());
  const Tensor x = ones({8, 12}), y = zeros({8}, {cpu(), i32});
  net.forward_backward(x, y, loss);
  EXPECT_THAT(refused_without_loss(
                  net, [&] { parallel(cpu(0), [&](int) { net.forward_backward(x, y, loss); }); }),
              HasSubstr("parallel: called on the thread of cpu(0)"));
  const autograd::Record record;
  EXPECT_THAT(refused_without_loss(net,
                                   [&] {
                                     autograd::recompute(
                                         [&](const Tensors&) {
                                           return Tensors{net.forward_backward(x, y, loss)};
                                         },
                                         {x}, {});
                                   }),
              HasSubstr("parallel: called by a function that recompute() runs"));
}

TEST(Planned, WithACutAParameterThatIsElsewhereIsNamedBeforeAnythingRuns) {
  Planned net(make_net(f32), Plan::parse("plan-1\nlayers 0 on cpu(2)\n"
                                         "layers 1-3 cut over cpu(0), cpu(1)"));
  const Tensor x = ones({8, 12}), y = zeros({8}, {cpu(), i32});
  EXPECT_THAT(message_of<Error>([&] { net.forward_backward(x, y, loss); }),
              HasSubstr("has not been initialized"));
  net.initialize(init::Xavier());
  net.forward_backward(x, y, loss);
  net.parameter("0.bias").set_grad_req(GradReq::null);
  net.parameter("0.bias").reset_ctx(cpu(0));
  int called = 0;
  const auto counting = [&](const Tensor& out, const Tensor& label) {
    ++called;
    return loss(out, label);
  };
  EXPECT_THAT(message_of<ContextMismatch>([&] { net.forward_backward(x, y, counting); }),
              HasSubstr("computes on cpu(2), but its parameter '0.bias' is on [cpu(0)]"));
  EXPECT_EQ(called, 0);
  EXPECT_TRUE(autograd::fresh_grad(net.parameter("1.weight.0").data()));
}

TEST(Planned, LayersThatDoNotExistCannotBeCut) {
  const nn::Sequential net = make_net(f32);
  for (const auto& [first, last] : {std::pair(-1, 0), {0, 4}, {2, 1}})
    EXPECT_THAT(message_of<ValueError>([&] { nn::cut_as(net, first, last); }),
                HasSubstr(text_of("cut_as: layers ", first, " to ", last, " of a network of 4")));
}

TEST(Planned, BadBatchesAreNamedBeforeAnythingRuns) {
  Planned net(make_net(f32),
              Plan::parse("plan-1\nmicrobatches 4\nlayers 0-3 on cpu(0), cpu(1)", "a"));
  net.initialize(init::Xavier());
  const Tensor x = ones({7, 12}), y = zeros({7}, {cpu(), i32});
  EXPECT_THAT(message_of<ValueError>([&] { net.forward_backward(x, y, loss); }),
              StartsWith("a:2: a batch of 7 samples"));
  EXPECT_THROW(net.forward_backward(ones({8, 12}), y, loss), ShapeError);
  EXPECT_THROW(net.forward_backward(x, y, nullptr), ValueError);
  const Tensor waiting = ones({8, 12});
  waiting.attach_grad();
  EXPECT_THAT(message_of<Error>([&] { net.forward_backward(waiting, zeros({8}), loss); }),
              HasSubstr("data cpu(0) (8,12) f32 has a gradient attached"));
  Tensor made;
  {
    const autograd::Record record;
    made = waiting * 2;
  }
  EXPECT_THAT(message_of<Error>([&] { net.forward_backward(made, zeros({8}), loss); }),
              HasSubstr("is the result of recorded ops"));
  EXPECT_THAT(message_of<Error>([&] {
                net.forward_backward(ones({8, 12}), waiting, loss);
              }),
              HasSubstr("label cpu(0) (8,12) f32 has a gradient attached"));
  EXPECT_THAT(net.repr(), HasSubstr("layers 0-3 on cpu(0), cpu(1): Sequential("));
}

}  // namespace
}  // namespace locus::test
