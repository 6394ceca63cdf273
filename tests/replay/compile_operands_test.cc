// Operands of a compiled function under autograd::Record: gradients passed on, leaves not reached,
// operands that change before backward().
#include <cmath>

#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>
#include "tests/replay/compiles.h"

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
    // Two calls in one backward pass; one reaches b.
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

TEST(CompiledOperands, AReturnedLeafOrInputIsACopyInTheGraph) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({2}, 2, c)), x = leaf(full({2}, 3, c)), other = ones({2}, c);
    Compiled f([&](const Tensors& in) { return Tensors{w, in[0], in[0].T()}; });
    for (int i = 0; i < 3; ++i)
      for (const Tensor& t : {x, other})
        for (const size_t result : {0u, 1u, 2u}) {
          const Tensors y = recorded(f, {t});
          EXPECT_EQ(values(y[0]), Values(2, 2));
          EXPECT_EQ(values(y[1]), values(t));
          EXPECT_FALSE(y[0].shares_memory_with(w));
          EXPECT_FALSE(y[1].shares_memory_with(t));
          EXPECT_FALSE(y[2].shares_memory_with(y[1]));
          if (result > 0 && !t.is(x)) {
            EXPECT_THROW(y[result].backward(), Error);
            continue;
          }
          y[result].backward({.head_gradient = full({2}, i, c)});
          EXPECT_EQ(values((result == 0 ? w : x).grad()), Values(2, i));
        }
  }
}

TEST(CompiledOperands, GradientsAreThoseOfTheCallWhateverChangesBeforeThem) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({2}, 2, c)), captured = full({2}, 5, c), x = full({2}, 3, c);
    Compiled f([&](const Tensors& in) {
      const Tensor h = in[0] * w;
      return Tensors{h * h * captured, h.detach()};
    });
    for (int i = 0; i < 4; ++i) {
      Tensors y = recorded(f, {x});
      full({2}, 7, c).copyto(x);
      full({2}, 7, c).copyto(y[0].detach());
      full({2}, 7, c).copyto(y[1]);
      y[0].backward();
      EXPECT_EQ(values(w.grad()), Values(2, 2 * 3 * 3 * 2 * 5));
      full({2}, 3, c).copyto(x);
      y = recorded(f, {x});
      full({2}, 5, c).copyto(captured);
      EXPECT_THROW(y[0].backward(), Error);
    }
    EXPECT_LE(f.recorded(), 2u);
  }
}

TEST(CompiledOperands, ADescriptionLeavesWhatWasMadeOfAnInputThatChanged) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({2}, 2, c)), x = zeros({2}, c);
    Compiled f([&](const Tensors& in) { return Tensors{cos(in[0]) * w}; });
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

TEST(CompiledOperands, GradientsThatShareAPlaceAreRefused) {
  for (const Context c : contexts()) {
    const Tensor a = ones({2}, c), b = ones({2}, c), place = zeros({4}, c);
    Compiled f([](const Tensors& in) { return Tensors{in[0] * 2 + in[1] * 3}; });
    for (const int64_t from : {2, 0, 1}) {
      a.attach_grad(place(Slice(0, 2)), GradReq::write);
      b.attach_grad(place(Slice(from, from + 2)), GradReq::write);
      const Tensor y = recorded(f, {a, b})[0];
      if (from == 2) {
        y.backward();
        EXPECT_EQ(values(place), (Values{2, 2, 3, 3}));
      } else {
        EXPECT_THAT(message_of<ValueError>([&] { y.backward(); }),
                    testing::HasSubstr("a compiled function: out 0 and out 1 share memory"));
      }
    }
  }
}

TEST(CompiledOperands, AResultThatTheHeadLeavesOutHasGradientZero) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) { return Tensors{in[0] * 2, sqrt(in[0])}; });
    for (int i = 0; i < 2; ++i) {
      const Tensor finite = leaf(ones({2}, c)), infinite = leaf(zeros({2}, c));
      recorded(f, {finite})[0].backward();
      EXPECT_EQ(values(finite.grad()), Values(2, 2));
      recorded(f, {infinite})[0].backward();
      for (const double g : values(infinite.grad())) EXPECT_TRUE(std::isnan(g)) << g;
    }
  }
}

TEST(CompiledOperands, TheFirstCallThrowsWhatBackwardWouldThrow) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({2}, 2, c));
    const Function body = [&](const Tensors& in) {
      const Tensor h = in[0] * w, y = h * h;
      Tensor seen = h.detach();
      seen += 1;
      return Tensors{y};
    };
    const Tensor x = ones({2}, c);
    Tensor y;
    {
      const autograd::Record record;
      y = body({x})[0];
    }
    EXPECT_THROW(y.backward(), Error);
    Compiled f(body);
    const autograd::Record record;
    EXPECT_THROW(f({x}), Error);
    EXPECT_EQ(f.recorded(), 0u);
  }
}

}  // namespace
}  // namespace locus::test
