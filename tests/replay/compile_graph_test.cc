// Compiled functions under autograd::Record: backward() replays the gradient. Compared with the
// uncompiled function bit by bit.
#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/generator.h>
#include <locus/nn/containers.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/trainer.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/random.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>
#include "tests/replay/compiles.h"

namespace locus::test {
namespace {

// All gradients in sequence.
Values gradients(const Tensors& leaves) {
  Values all;
  for (const Tensor& t : leaves) {
    const Values v = values(t.grad());
    all.insert(all.end(), v.begin(), v.end());
  }
  return all;
}

TEST(CompiledGraph, BackwardThroughItEqualsTheFunctionAsItRuns) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    random::seed(3);
    const Tensor w = leaf(random::normal(0, 1, {6, 4}, c)), b = leaf(random::normal(0, 1, {4}, c));
    const Function body = [&](const Tensors& in) { return Tensors{tanh(dot(in[0], w) + b) * b}; };
    Compiled f(body);
    for (int i = 0; i < 8; ++i) {
      const Tensor x = leaf(random::normal(0, 1, {3, 6}, c));
      std::vector<Values> found[2];
      for (const bool compiled : {false, true}) {
        Tensor l;
        {
          const autograd::Record record;
          const Tensor y = compiled ? f({x * 2})[0] : body({x * 2})[0];
          l = pow(y, 2).sum();
        }
        l.backward();
        found[compiled] = {values(l), gradients({w, b, x})};
      }
      EXPECT_EQ(found[0], found[1]) << i;
    }
    EXPECT_EQ(f.recorded(), 1u);
  }
}

TEST(CompiledGraph, SeveralCallsMayWaitForBackward) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({4}, .5, c));
    Compiled f([&](const Tensors& in) { return Tensors{exp(in[0] * w)}; });
    for (int round = 0; round < 4; ++round) {
      Tensor sum;
      Tensors parts;
      {
        const autograd::Record record;
        for (int i = 0; i < 3; ++i) parts.push_back(f({full({4}, i + round, c)})[0]);
        sum = (parts[0] + parts[1] * parts[2]).sum();
      }
      sum.backward();
      const Values found = values(w.grad());
      {
        const autograd::Record record;
        for (int i = 0; i < 3; ++i)
          parts[static_cast<size_t>(i)] = exp(full({4}, i + round, c) * w);
        sum = (parts[0] + parts[1] * parts[2]).sum();
      }
      sum.backward();
      EXPECT_EQ(found, values(w.grad()));
    }
    EXPECT_EQ(f.recorded(), 3u);
  }
}

TEST(CompiledGraph, AKeyThatIsDroppedLeavesAllRecordingsOfOthers) {
  const Tensor w = leaf(ones({1}));
  Compiled f([&](const Tensors& in) { return Tensors{(in[0] * w).sum()}; }, {.keys = 2});
  const auto call = [&](int64_t n) {
    const autograd::Record record;
    return f({ones({n})})[0];
  };
  {
    const Tensor first = call(2), other = call(3), second = call(2), last = call(4);
    EXPECT_EQ(f.recorded(), 4u);
  }
  const Tensor first = call(2), second = call(2);  // replay both recordings of their key
  EXPECT_EQ(f.recorded(), 4u);
  call(3);
  EXPECT_EQ(f.recorded(), 5u);
}

TEST(CompiledGraph, ARetainedGraphRunsBackwardTwice) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({4}, 3, c), GradReq::add);
    Compiled f([&](const Tensors& in) { return Tensors{in[0] * w * w}; });
    for (int i = 0; i < 3; ++i) {
      w.zero_grad();
      Tensor l;
      {
        const autograd::Record record;
        l = f({ones({4}, c)})[0].sum();
      }
      l.backward({.retain_graph = true});
      l.backward();
      EXPECT_EQ(values(w.grad()), Values(4, 12));
      EXPECT_THROW(l.backward(), Error);
    }
  }
}

TEST(CompiledGraph, GradOfInputsAndOfLeavesOnly) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({4}, 3, c)), x = leaf(full({4}, 2, c));
    Compiled f([&](const Tensors& in) { return Tensors{in[0] * in[0] * w}; });
    for (int i = 0; i < 3; ++i) {
      Tensor l;
      {
        const autograd::Record record;
        l = f({x})[0].sum();
      }
      EXPECT_EQ(values(autograd::grad(l, {x}, {.retain_graph = true})[0]), Values(4, 12));
      EXPECT_EQ(values(autograd::grad(l, {w})[0]), Values(4, 4));
    }
    EXPECT_EQ(values(w.grad()), Values(4, 0)) << "grad() leaves it alone";
  }
}

TEST(CompiledGraph, AnOperandChangedBeforeBackwardIsRefused) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({4}, 3, c));
    Compiled f([&](const Tensors& in) { return Tensors{in[0] * w}; });
    for (int i = 0; i < 3; ++i) {
      Tensor l;
      const Tensor x = leaf(ones({4}, c));
      {
        const autograd::Record record;
        l = f({x})[0].sum();
      }
      {
        const autograd::Pause pause;
        (w * 2).copyto(w);
      }
      EXPECT_THROW(l.backward(), Error);
    }
  }
}

TEST(CompiledGraph, HeldResultsKeepTheirValuesAndTheirGraph) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({4}, 2, c));
    Compiled f([&](const Tensors& in) { return Tensors{exp(in[0] * w)}; });
    Tensors held;
    for (int i = 0; i < 5; ++i) {
      {
        const autograd::Record record;
        held.push_back(f({full({4}, .1 * i, c)})[0]);
      }
      held.back().backward();
      Tensor y;
      const Values found = values(w.grad());
      {
        const autograd::Record record;
        y = exp(full({4}, .1 * i, c) * w);
      }
      y.backward();
      EXPECT_EQ(values(w.grad()), found) << i;
      EXPECT_EQ(values(held.back()), values(y));
    }
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(values(held[static_cast<size_t>(i)]),
                values(exp(full({4}, .1 * i, c) * w.detach())));
  }
}

TEST(CompiledGraph, ResultsWithoutBackwardAreResultsAllTheSame) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({4}, 2, c));
    Compiled f([&](const Tensors& in) { return Tensors{in[0] * w, in[0] + 1}; });
    const autograd::Record record;
    for (int i = 0; i < 5; ++i) {
      const Tensors y = f({full({4}, i, c)});
      EXPECT_EQ(values(y[0]), Values(4, 2 * i));
      EXPECT_EQ(values(y[1]), Values(4, i + 1));
    }
    EXPECT_EQ(f.recorded(), 1u);
  }
}

TEST(CompiledGraph, SomeOfItsResultsAreDifferentiated) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor a = leaf(full({4}, 2, c)), b = leaf(full({4}, 5, c)), unused = leaf(ones({1}, c));
    full({1}, 7, c).copyto(unused.grad());
    const Function body = [&](const Tensors& in) {
      const Tensor nowhere = unused + 1;
      return Tensors{in[0] * a, in[0] * in[0], in[0] * b, a, in[0], b};
    };
    Compiled f(body);
    for (int i = 0; i < 3; ++i)
      for (const size_t result : {0u, 1u, 2u, 3u, 4u, 5u}) {
        const Tensor x = leaf(full({4}, 3, c));
        Values found[2];
        for (const bool compiled : {false, true}) {
          for (const Tensor& t : {a, b, x}) t.zero_grad();
          Tensor y;
          {
            const autograd::Record record;
            y = (compiled ? f({x}) : body({x}))[result] * 2;
          }
          y.backward();
          found[compiled] = gradients({a, b, x, unused});
        }
        EXPECT_EQ(found[0], found[1]) << result;
      }
  }
}

TEST(CompiledGraph, GradientsGoToPlacesOfTheProgram) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor bucket = zeros({8}, c), a = full({4}, 2, c), b = full({4}, 5, c);
    a.attach_grad(bucket(Slice(0, 4)));
    b.attach_grad(bucket(Slice(4, 8)));
    Compiled f([&](const Tensors& in) { return Tensors{in[0] * a * b}; });
    for (int i = 1; i < 5; ++i) {
      Tensor l;
      {
        const autograd::Record record;
        l = (f({full({4}, i, c)})[0]).sum();
        if (i == 3) l = l + (a * b).sum();  // then f gives only a part of it
      }
      l.backward();
      const int times = i == 3 ? 4 : i;
      EXPECT_EQ(values(bucket(Slice(0, 4))), Values(4, 5 * times));
      EXPECT_EQ(values(bucket(Slice(4, 8))), Values(4, 2 * times));
    }
  }
}

TEST(CompiledGraph, OutlivesTheFunction) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    // The pool counts blocks that other streams used as in use until it checks them again.
    wait_all();
    memory_pool(c).release_cached();
    const size_t before = memory_pool(c).stats().in_use;
    {
      const Tensor w = leaf(full({4}, 2, c));
      Tensor l;
      {
        Compiled f([&](const Tensors& in) { return Tensors{in[0] * w}; });
        for (int i = 0; i < 3; ++i) {
          const autograd::Record record;
          l = f({full({4}, i, c)})[0].sum();
        }
      }
      l.backward();
      EXPECT_EQ(values(w.grad()), Values(4, 2));
    }
    wait_all();
    memory_pool(c).release_cached();
    EXPECT_EQ(memory_pool(c).stats().in_use, before);
  }
}

TEST(CompiledGraph, WhatItCannotDoIsSaid) {
  const Tensor w = leaf(ones({2}));
  Compiled f([&](const Tensors& in) { return Tensors{in[0] * w * w}; });
  Tensor y;
  {
    const autograd::Record record;
    y = f({ones({2})})[0];
  }
  EXPECT_THAT(message_of<Error>([&] { autograd::grad(y, {w}, {.create_graph = true}); }),
              testing::HasSubstr("create_graph"));
  Compiled inside([&](const Tensors& in) {
    Tensor l;
    {
      const autograd::Record record;
      l = in[0] * w;
    }
    l.backward();
    return Tensors{l};
  });
  {
    const autograd::Record record;
    EXPECT_THAT(message_of<CaptureError>([&] { inside({ones({2})}); }),
                testing::HasSubstr("outside of Record"));
  }
  EXPECT_EQ(values(inside({ones({2})})[0]), Values(2, 1));
}

// 60 steps of training: batches of two sizes, dropout, momentum.
std::vector<Values> train(Context first, Context last, bool hybridize) {
  random::seed(5);
  nn::Sequential body, head;
  body.add(nn::Dense(16, nn::relu), nn::Dropout(.3), nn::Dense(8, nn::tanh));
  head.add(nn::Dense(5));
  body.initialize(init::Xavier(), first);
  head.initialize(init::Xavier(), last);
  if (hybridize) {
    body.hybridize();
    head.hybridize();
  }
  nn::Parameters all = body.parameters();
  for (const auto& [name, p] : head.parameters()) all.emplace_back("head." + name, p);
  nn::Trainer trainer(all, optim::SGD({.learning_rate = .1, .momentum = .9}));
  const Tensor images = random::uniform(-1, 1, {64, 12}, {first, f32});
  const Tensor labels = random::randint(0, 5, {64}, {last, i32});
  std::vector<Values> found;
  for (int i = 0; i < 60; ++i) {
    const int64_t n = i % 5 == 4 ? 9 : 16, begin = i % 3 * 16;
    Tensor l;
    {
      const autograd::Record record;
      const Tensor y = head(body(images(Slice(begin, begin + n))).as_in_context(last));
      l = nn::SoftmaxCrossEntropyLoss()(y, labels(Slice(begin, begin + n)));
    }
    l.backward();
    trainer.step(n);
    found.push_back(values(l));
    if (i % 10 == 0) found.push_back(values(body(images)));  // predictions in between
  }
  for (const auto& [name, p] : all) found.push_back(values(p.data()));
  return found;
}

TEST(CompiledGraph, AHybridizedNetworkTrainsAsItRuns) {
  for (const Context first : contexts())
    for (const Context last : contexts()) {
      SCOPED_TRACE(to_string(first) + " " + to_string(last));
      EXPECT_EQ(train(first, last, false), train(first, last, true));
    }
}

TEST(CompiledGraph, ACellIsUnrolledOverMoreStepsThanKeysAreKept) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    std::vector<Values> found[2];
    for (const bool hybridize : {false, true}) {
      random::seed(5);
      nn::Dense cell(4, nn::tanh);
      cell.initialize(init::Xavier(), c);
      if (hybridize) cell.hybridize();
      for (int round = 0; round < 3; ++round) {
        Tensor h = ones({2, 4}, c);
        {
          const autograd::Record record;
          for (int t = 0; t < 20; ++t) h = cell(h);
        }
        h.backward();
        found[hybridize].push_back(values(h));
        found[hybridize].push_back(values(cell.parameter("weight").grad()));
      }
    }
    EXPECT_EQ(found[0], found[1]);
  }
}

}  // namespace
}  // namespace locus::test
