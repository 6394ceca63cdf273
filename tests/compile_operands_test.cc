// What a compiled function under autograd::Record is given, captures and hands on: gradients that
// are passed on, leaves that are not reached, operands that change before backward().
#include "tests/compiles.h"

namespace locus::test {
namespace {

Tensors recorded(Compiled& f, const Tensors& in) {
  const autograd::Record record;
  return f(in);
}

TEST(CompiledOperands, AGradientThatIsPassedOnIsTheOneThatCame) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(ones({2, 3}, c));
    Compiled f([&](const Tensors& in) { return Tensors{in[0] + 1, w * 2}; });
    const Tensor head = arange(6, c).reshape({3, 2}).T();
    for (int i = 0; i < 4; ++i) {
      const Tensor x = leaf(ones({2, 3}, c));
      recorded(f, {x})[0].backward({.head_gradient = head});
      EXPECT_EQ(values(x.grad()), (Values{0, 2, 4, 1, 3, 5})) << "not row-major";
      Tensor sum;
      {
        const autograd::Record record;
        sum = f({x})[0].sum();
      }
      sum.backward();
      EXPECT_EQ(values(x.grad()), Values(6, 1)) << "one number, repeated";
      recorded(f, {x})[1].backward();
      EXPECT_EQ(values(w.grad()), Values(6, 2)) << "none came";
    }
  }
}

TEST(CompiledOperands, ALeafThatTheHeadDoesNotReachIsLeftAlone) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor a = leaf(full({2}, 2, c)), b = leaf(full({2}, 3, c));
    Compiled f([&](const Tensors& in) { return Tensors{in[0] * a, in[0] * b, a * b}; });
    recorded(f, {ones({2}, c)})[1].backward();
    EXPECT_TRUE(autograd::fresh_grad(b));
    autograd::mark_used(b);
    for (int i = 1; i < 5; ++i) {
      const Tensor x = full({2}, i, c);
      recorded(f, {x})[0].backward();
      EXPECT_EQ(values(a.grad()), Values(2, i));
      EXPECT_EQ(values(b.grad()), Values(2, 1));
      EXPECT_TRUE(autograd::fresh_grad(a));
      autograd::mark_used(a);
      EXPECT_FALSE(autograd::fresh_grad(b));
      const Tensor y = recorded(f, {x})[0];
      EXPECT_FALSE(autograd::grad(y, {b}, {.allow_unused = true})[0].defined());
    }
    // Two calls of one walk, one of which reaches b.
    for (int i = 1; i < 4; ++i) {
      Tensor y;
      {
        const autograd::Record record;
        const Tensors first = f({full({2}, i, c)}), second = f({full({2}, i + 1, c)});
        y = first[1] + second[0];
      }
      y.backward();
      EXPECT_EQ(values(a.grad()), Values(2, i + 1));
      EXPECT_EQ(values(b.grad()), Values(2, i));
    }
  }
}

TEST(CompiledOperands, ALeafOrAnInputThatComesBackIsItself) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({2}, 2, c)), x = leaf(full({2}, 3, c)), other = ones({2}, c);
    Compiled f([&](const Tensors& in) { return Tensors{w, in[0], in[0].T()}; });
    for (int i = 0; i < 3; ++i)
      for (const Tensor& t : {x, other}) {
        EXPECT_TRUE(f({t})[0].is(w));
        EXPECT_TRUE(f({t})[1].is(t));
        const Tensors y = recorded(f, {t});
        EXPECT_TRUE(y[0].is(w));
        EXPECT_TRUE(y[1].is(t));
        y[0].backward();
        y[0].backward();
        EXPECT_EQ(values(w.grad()), Values(2, 1));
        if (t.is(x)) {
          y[2].backward();
          EXPECT_EQ(values(x.grad()), Values(2, 1));
        }
      }
  }
}

TEST(CompiledOperands, WhatTheGradientReadsMayNotChangeBeforeIt) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({2}, 2, c)), captured = full({2}, 5, c), x = full({2}, 3, c);
    Compiled f([&](const Tensors& in) {
      const Tensor h = in[0] * w;
      return Tensors{h * h * captured, h.detach()};
    });
    for (int i = 0; i < 4; ++i) {
      for (const int changed : {0, 1, 2}) {
        const Tensors y = recorded(f, {x});
        const Tensor t = changed == 0 ? x : changed == 1 ? captured : y[1];
        full({2}, 3 + i, c).copyto(t);
        EXPECT_THROW(y[0].backward(), Error) << changed;
      }
      recorded(f, {x})[0].backward();
      const double v = 3 + i;
      EXPECT_EQ(values(w.grad()), Values(2, 2 * v * v * 2 * v));
    }
  }
}

TEST(CompiledOperands, ADescriptionLeavesWhatWasMadeOfAnInputThatChanged) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({2}, 2, c)), x = zeros({2}, c);
    Compiled f([&](const Tensors& in) { return Tensors{exp(in[0]) * w}; });
    for (int i = 0; i < 3; ++i) {
      full({2}, 0, c).copyto(x);
      const Tensor y = recorded(f, {x})[0];
      full({2}, 1, c).copyto(x);
      f.describe();
      y.backward();
      EXPECT_EQ(values(w.grad()), Values(2, 1));
    }
  }
}

TEST(CompiledOperands, ACapturedTensorThatIsGivenAGradientLaterHasOne) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = full({2}, 2, c), x = leaf(full({2}, 3, c));
    Compiled f([&](const Tensors& in) { return Tensors{in[0] * w}; });
    for (int i = 0; i < 3; ++i) recorded(f, {x})[0].backward();
    w.attach_grad();
    recorded(f, {x})[0].backward();
    EXPECT_EQ(values(w.grad()), Values(2, 3));
    const size_t before = f.recorded();
    recorded(f, {x})[0].backward();
    EXPECT_EQ(f.recorded(), before);
  }
}

TEST(CompiledOperands, ViewsWithGapsAreKeptUpToTheKeys) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({8, 8}, 2, c));
    Compiled f([&](const Tensors& in) { return Tensors{in[0] * w}; }, {.keys = 4});
    size_t few = 0;
    for (int i = 0; i < 40; ++i) {
      recorded(f, {zeros({8, 16}, c)(Slice(), Slice(0, 8))})[0].backward();
      wait_all();
      if (i == 10) few = memory_pool(c).stats().in_use;
    }
    EXPECT_EQ(memory_pool(c).stats().in_use, few);
  }
}

TEST(CompiledOperands, AViewWithGapsWaitsForBackwardTwice) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({64, 64}, 2, c));
    const Tensor big = arange(64 * 640, c).reshape({64, 640}), x = big(Slice(), Slice({}, {}, 10));
    Compiled f([&](const Tensors& in) { return Tensors{in[0] * w}; });
    const Values expected = values(x);
    for (int i = 0; i < 3; ++i) {
      const Tensors a = recorded(f, {x}), b = recorded(f, {x});
      a[0].backward();
      EXPECT_EQ(values(w.grad()), expected);
      b[0].backward();
      EXPECT_EQ(values(w.grad()), expected);
    }
  }
}

}  // namespace
}  // namespace locus::test
