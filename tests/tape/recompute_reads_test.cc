// If data that a recomputed function reads changed since the first run, backward() throws.
#include <functional>

#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/group.h>
#include <locus/core/recompute.h>
#include <locus/nn/containers.h>
#include <locus/nn/kvstore.h>
#include <locus/nn/layers.h>
#include <locus/nn/norm_layers.h>
#include <locus/ops/collective.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/train/training.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Stretch {
  explicit Stretch(Context c) : w(array({5.f, 6.f}, c)), x(ones({2}, c)) { x.attach_grad(); }
  Tensor run(const std::function<Tensor(const Tensor&)>& f) const {
    const autograd::Record record;
    return autograd::recompute([f](const Tensors& in) { return Tensors{f(in[0])}; }, {x}, {})[0];
  }
  Tensor w, x;
};

struct Way {
  const char* name;
  std::function<void(const Tensor& w)> write;
};
std::vector<Way> ways() {
  return {
      {"in place", [](const Tensor& w) { w.detach() += 10; }},
      {"a view", [](const Tensor& w) { w(Slice(0, 1)) = 7; }},
      {"copyto", [](const Tensor& w) { ones({2}, w.context()).copyto(w); }},
      {"copyto from the host", [](const Tensor& w) { ones({2}).copyto(w); }},
      {"out=",
       [](const Tensor& w) {
         matmul(ones({1, 2}, w.context()), ones({2, 2}, w.context()), {}, w.reshape({1, 2}));
       }},
      {"a mask", [](const Tensor& w) { w[w > 0] = 1; }},
      {"a compiled function",
       [](const Tensor& w) {
         Compiled f([w](const Tensors& in) {
           w.detach() += 1;
           return Tensors{in[0] * 2};
         });
         f({ones({2}, w.context())});
         f({ones({2}, w.context())});
       }},
      {"running statistics",
       [](const Tensor& w) {
         const autograd::TrainMode train;
         const Tensor one = ones({2}, w.context());
         batch_norm(ones({3, 2}, w.context()), one, one, w, one * 1);
       }},
      {"a pull",
       [](const Tensor& w) {
         const auto store = kvstore::create("local");
         store->init("w", ones({2}));
         store->pull("w", w);
       }},
      {"a collective",
       [](const Tensor& w) {
         const Context c = w.context(), there(c.type, c.index == 0 ? 1 : 0);
         if (!is_host(c) && num_gpus() < 2) return w.detach() += 1, void();
         const Tensor other = ones({2}, there);
         all_reduce(Group(std::vector<Context>{c, there}), {w, other}, {.out = {w, other}});
       }},
  };
}

TEST(RecomputeReads, RefusesACapturedTensorThatWasWrittenSince) {
  for (Context c : contexts())
    for (const Way& way : ways()) {
      const Stretch s(c);
      const Tensor y = s.run([w = s.w](const Tensor& x) { return x * w; });
      way.write(s.w);
      EXPECT_THAT(message_of<Error>([&] { y.backward(); }),
                  AllOf(HasSubstr("multiply: rhs"), HasSubstr("were changed in place since")))
          << way.name << " on " << c;
    }
}

TEST(RecomputeReads, TakesWhatIsWrittenBehindBackward) {
  for (Context c : contexts()) {
    const Stretch s(c);
    const Tensor y = s.run([w = s.w](const Tensor& x) { return x * w; });
    y.backward();
    s.w.detach() += 10;
    EXPECT_EQ(values(s.x.grad()), (std::vector<double>{5, 6})) << c;
  }
}

TEST(RecomputeReads, RefusesAnotherTensorUnderTheSameName) {
  for (Context c : contexts()) {
    Stretch s(c);
    const Tensor y = s.run([&](const Tensor& x) { return x * s.w; });
    s.w = s.w * 1;
    EXPECT_THAT(message_of<Error>([&] { y.backward(); }), HasSubstr("allocated since"));
    Stretch t(c);
    const Tensor older = ones({2}, c), z = t.run([&](const Tensor&x) { return x * t.w; });
    t.w = older;
    EXPECT_THAT(message_of<Error>([&] { z.backward(); }), HasSubstr("did not read"));
  }
}

TEST(RecomputeReads, RefusesANumberThatTheHostReads) {
  for (Context c : contexts()) {
    const Stretch s(c);
    const Tensor number = full({1}, 2, c);
    const Tensor y = s.run([&](const Tensor& x) { return x * number.item<double>(); });
    number.detach() += 1;
    EXPECT_THAT(message_of<Error>([&] { y.backward(); }), HasSubstr("changed in place"));
  }
}

TEST(RecomputeReads, RefusesWhatTheFunctionWroteItself) {
  for (Context c : contexts()) {
    const Stretch s(c);
    const Tensor y = s.run([w = s.w](const Tensor& x) {
      const Tensor product = x * w;
      if (!autograd::is_recomputing()) w.detach() += 1;
      return product;
    });
    EXPECT_THAT(message_of<Error>([&] { y.backward(); }), HasSubstr("changed in place"));
  }
}

TEST(RecomputeReads, ReachThroughStretchesInStretches) {
  for (Context c : contexts()) {
    const Stretch s(c);
    const Tensor y = s.run([w = s.w](const Tensor& x) {
      return autograd::recompute([&](const Tensors& in) { return Tensors{tanh(in[0]) * w * w}; },
                                 {x}, {})[0];
    });
    s.w.detach() += 10;
    EXPECT_THAT(message_of<Error>([&] { y.backward(); }), HasSubstr("changed in place"));
  }
}

TEST(RecomputeReads, RefusesATensorOfAGraphThatItWasNotGiven) {
  for (Context c : contexts()) {
    const Stretch s(c);
    s.w.attach_grad();
    EXPECT_THAT(message_of<Error>([&] { s.run([&](const Tensor& x) { return x * s.w; }); }),
                AllOf(HasSubstr("multiply: rhs"), HasSubstr("nor among the variables")))
        << c;
    const autograd::Record record;
    const Tensor part = s.w * 2;
    EXPECT_THROW(s.run([&](const Tensor& x) { return x + part; }), Error) << c;
    const Tensor y = s.run([&](const Tensor& x) { return x * s.w.detach() + x; });
    EXPECT_EQ(values(autograd::grad(y, {s.x})[0]), (std::vector<double>{6, 7})) << c;
  }
}

TEST(RecomputeReads, ATrainersStepFollowsBackward) {
  for (Context c : contexts()) {
    nn::Dense layer(2, {}, {.in_units = 2});
    layer.initialize(init::One(), c);
    nn::Trainer trainer(layer.parameters(), optim::SGD({.learning_rate = 1}));
    const Tensor x = ones({1, 2}, c);
    x.attach_grad();
    Tensor y, z;
    {
      const autograd::Record record;
      y = autograd::recompute(
          [&](const Tensors& in) { return Tensors{layer(in[0])}; }, {x},
          {layer.parameter("weight").data(), layer.parameter("bias").data()})[0];
      z = layer(x);
    }
    z.backward();
    trainer.step(1);
    EXPECT_THAT(message_of<Error>([&] { y.backward(); }), HasSubstr("in place since")) << c;
  }
}

TEST(RecomputeReads, AFrozenParameterMayNotBeWrittenBeforeBackward) {
  for (Context c : contexts()) {
    nn::Dense layer(2, {}, {.in_units = 2});
    layer.initialize(init::One(), c);
    layer.freeze();
    nn::Recompute block(layer);
    const Tensor x = ones({1, 2}, c);
    x.attach_grad();
    const auto run = [&] {
      const autograd::Record record;
      return block(x);
    };
    run().backward();
    EXPECT_EQ(values(x.grad()), (std::vector<double>{2, 2})) << c;
    const Tensor y = run();
    layer.parameter("weight").set_data(zeros({2, 2}));
    EXPECT_THROW(y.backward(), Error) << c;
  }
}

// Training does not read running statistics, which later passes step before backward().
TEST(RecomputeReads, LaterPassesMayStepRunningStatistics) {
  for (Context c : contexts()) {
    nn::BatchNorm norm;
    norm.initialize(c);
    const Tensor a = random::uniform(0, 1, {4, 2}, c), b = random::uniform(0, 1, {4, 2}, c);
    norm(a);
    a.attach_grad();
    const auto gradient = [&](nn::Block& block) {
      Tensor y;
      {
        const autograd::Record record;
        y = block(a) * b;
        block(b);
      }
      y.backward();
      return values(a.grad());
    };
    nn::Recompute again(norm);
    const std::vector<double> plain = gradient(norm);
    EXPECT_EQ(gradient(again), plain) << c;
  }
}

TEST(RecomputeReads, PredictionReadsRunningStatistics) {
  for (Context c : contexts()) {
    const Stretch s(c);
    const Tensor mean = zeros({2}, c), var = ones({2}, c), x = ones({3, 2}, c);
    x.attach_grad();
    Tensor y;
    {
      const autograd::Record record(false);
      y = autograd::recompute(
          [&](const Tensors& in) {
            return Tensors{batch_norm(in[0], ones({2}, c), zeros({2}, c), mean, var)};
          },
          {x}, {})[0];
    }
    var.detach() *= 4;
    EXPECT_THAT(message_of<Error>([&] { y.backward(); }), HasSubstr("running_var"));
  }
}

TEST(RecomputeReads, CollectivesAndCompiledFunctionsInsideAreRecomputed) {
  for (Context c : contexts()) {
    const Stretch s(c);
    const auto twice =
        std::make_shared<Compiled>([](const Tensors& in) { return Tensors{in[0] * 2}; });
    for (int i = 0; i < 3; ++i) {
      const Tensor y = s.run([w = s.w, twice](const Tensor& x) { return (*twice)({x * w})[0]; });
      y.backward();
      EXPECT_EQ(values(s.x.grad()), (std::vector<double>{10, 12})) << c;
    }
  }
  const Tensor x = ones({2}), there = ones({2}, cpu(1));
  x.attach_grad();
  Tensor y;
  {
    const autograd::Record record;
    y = autograd::recompute(
        [&](const Tensors& in) {
          return all_reduce(Group({cpu(), cpu(1)}), {in[0] * 3, there});
        },
        {x}, {})[0];
  }
  y.backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{3, 3}));
}

TEST(RecomputeReads, WritesThatAreOnlyCapturedCount) {
  LOCUS_NEEDS_ANY_GPUS(1);
  for (Context c : gpus(1))
    for (const bool recomputes : {false, true}) {
      const Stretch s(c);
      const Capture capture(c);
      Tensor y;
      if (recomputes) {
        y = s.run([w = s.w](const Tensor& x) { return x * w; });
      } else {
        const autograd::Record record;
        y = s.x * s.w;
      }
      s.w.detach() += 10;
      EXPECT_THAT(message_of<Error>([&] { y.backward(); }), HasSubstr("in place")) << c;
    }
}

TEST(RecomputeReads, WritesInACompiledFunctionCount) {
  for (Context c : contexts())
    for (const bool written : {false, true}) {
      const Tensor w = full({2}, 3, c);
      w.attach_grad();
      Compiled f([&](const Tensors& in) {
        Tensor scale = in[0] * 2, y;
        {
          const autograd::Record record;
          y = autograd::recompute(
              [scale](const Tensors& of) { return Tensors{of[0] * scale + of[0]}; }, {w}, {})[0];
        }
        if (written) scale += 1;
        y.backward();
        return Tensors{w.grad()};
      });
      if (written) {
        EXPECT_THAT(message_of<Error>([&] { f({ones({2}, c)}); }),
                    AllOf(HasSubstr("multiply: rhs"), HasSubstr("were changed in place since")));
        continue;
      }
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(values(f({full({2}, i, c)})[0]), (std::vector<double>(2, 2 * i + 1))) << c;
    }
}

}  // namespace
}  // namespace locus::test
