// What compiled functions give and take: results that are inputs, gradients, views or kept
// elsewhere; inputs with gradients, or written; other streams.
#include <locus/core/compile.h>

#include <locus/core/autograd.h>
#include <locus/core/stream.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>
#include "tests/captures.h"
#include "tests/contexts.h"

namespace locus::test {
namespace {

using Values = std::vector<double>;

TEST(CompiledResults, AnInputThatComesBackIsTheInput) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) { return Tensors{in[0], in[0] + 1, in[0](1)}; });
    std::vector<Tensors> held;
    for (int i = 0; i < 6; ++i) {
      const Tensor x = full({2, 2}, i, c);
      held.push_back(f({x}));
      EXPECT_TRUE(held.back()[0].shares_memory_with(x));
    }
    for (int i = 0; i < 6; ++i) {
      const Tensors& y = held[static_cast<size_t>(i)];
      EXPECT_EQ(values(y[0]), Values(4, i));
      EXPECT_EQ(values(y[1]), Values(4, i + 1));
      EXPECT_EQ(values(y[2]), Values(2, i));
    }
  }
}

TEST(CompiledResults, AResultWhereALargerTensorWasMayBeHeld) {
  static constexpr int64_t kLarge = 400000, kLess = 300000;
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({kLarge}, c);
    Compiled f([](const Tensors& in) {
      const Tensor end = ((in[0] + 1) * 2)(Slice(kLarge - 3, kLarge)).copyto(in[0].context());
      return Tensors{in[0](Slice(0, kLess)) * 3, end + 1};
    });
    Tensors held, others;
    for (int i = 0; i < 5; ++i) {
      full({kLarge}, i, c).copyto(x);
      const Tensors y = f({x});
      held.push_back(y[0]);
      others.push_back(full({kLess}, 7, c));
      EXPECT_EQ(values(y[1]), Values(3, 2 * (i + 1) + 1));
    }
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(values(held[static_cast<size_t>(i)]), Values(kLess, 3 * i));
      EXPECT_EQ(values(others[static_cast<size_t>(i)]), Values(kLess, 7));
    }
  }
}

TEST(CompiledResults, EmptyResultsAndInputsMayBeHeld) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) {
      Tensor changed = in[0];
      changed += 1;
      return Tensors{in[0] * 2, in[1] + 1, in[0](Slice(0, 0)), in[0]};
    });
    std::vector<Tensors> held;
    for (int i = 0; i < 6; ++i) {
      held.push_back(f({zeros({0, 3}, c), full({2}, i, c)}));
      EXPECT_EQ(held.back()[0].shape(), (Shape{0, 3}));
    }
    for (int i = 0; i < 6; ++i)
      EXPECT_EQ(values(held[static_cast<size_t>(i)][1]), Values(2, i + 1));
    EXPECT_EQ(f.recorded(), 2u);
  }
}

TEST(CompiledResults, ResultsOfOneMemoryStayViewsOfIt) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) {
      const Tensor y = in[0] * 2;
      return Tensors{y, y(0), y.T()};
    });
    const Tensor x = ones({2, 3}, c);
    std::vector<Tensors> held;
    for (int i = 0; i < 4; ++i) {
      held.push_back(f({x}));
      held.back()[0] += 1;
      EXPECT_EQ(values(held.back()[1]), Values(3, 3));
      EXPECT_EQ(values(held.back()[2]), Values(6, 3));
    }
  }
}

TEST(CompiledResults, AResultInMemoryThatALargerTensorHadBeforeIsHeldAlone) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) {
      const Tensor small = in[0](Slice(0, 16)) + 5;
      Tensor sum;
      {
        const Tensor large = in[0] + 1;
        sum = large.sum();
      }
      return Tensors{in[0](Slice(0, 40)) * 3, small, sum};
    });
    const Tensor x = ones({64}, c);
    std::vector<Tensors> held;
    for (int i = 0; i < 4; ++i) {
      held.push_back(f({x}));
      EXPECT_EQ(values(held.back()[0]), Values(40, 3));
      EXPECT_EQ(values(held.back()[1]), Values(16, 6));
      EXPECT_EQ(values(held.back()[2]), Values(1, 128));
    }
  }
}

TEST(CompiledResults, AGradientOrATensorKeptElsewhereThatIsAResultTooIsWrittenByEachReplay) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = full({3}, 2, c), x = ones({3}, c);
    w.attach_grad();
    Tensor last;
    Compiled f([&](const Tensors& in) {
      Tensor y;
      {
        const autograd::Record record;
        y = w * w * in[0];
      }
      y.backward();
      last = in[0] * 3;
      return Tensors{y, w.grad(), last};
    });
    std::vector<Tensors> held;
    for (int i = 1; i < 5; ++i) {
      full({3}, i, c).copyto(x);
      held.push_back(f({x}));
      EXPECT_EQ(values(w.grad()), Values(3, 4 * i));
      EXPECT_EQ(values(last), Values(3, 3 * i));
    }
    for (int i = 1; i < 5; ++i)
      EXPECT_EQ(values(held[static_cast<size_t>(i - 1)][2]), Values(3, 3 * i));
  }
}

TEST(CompiledResults, AnInputWithAGradientOrThatIsWrittenIsReadWhereItLies) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Tensor w = ones({3}, c);
    w.attach_grad();
    Compiled f([&](const Tensors& in) {
      Tensor y;
      {
        const autograd::Record record;
        y = w * in[0];
      }
      y.backward();
      autograd::Pause pause;
      w += 1;
      return Tensors{in[0] * 10};
    });
    for (int i = 0; i < 2; ++i) {
      f({ones({3}, c)});
      f({ones({3}, c)});
      const Tensor b = ones({3}, c);
      b.attach_grad();
      const Values before = values(w);
      f({b});
      EXPECT_EQ(values(b.grad()), before);
      const Values w_now = values(w);
      EXPECT_EQ(values(f({w.detach()})[0])[0], 10 * (w_now[0] + 1));
    }
  }
}

TEST(CompiledResults, AGradientAttachedInsideIsOfTheInput) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({3}, c);
    Compiled f([](const Tensors& in) {
      in[0].attach_grad();
      Tensor y;
      {
        const autograd::Record record;
        y = in[0] * in[0];
      }
      y.backward();
      return Tensors{in[0].grad()};
    });
    for (int i = 1; i < 5; ++i) {
      full({3}, i, c).copyto(x);
      EXPECT_EQ(values(f({x})[0]), Values(3, 2 * i));
      EXPECT_EQ(values(x.grad()), Values(3, 2 * i));
    }
    EXPECT_EQ(f.recorded(), 1u);
    for (int i = 1; i < 4; ++i) {
      const Tensor other = full({3}, i, c);
      EXPECT_EQ(values(f({other})[0]), Values(3, 2 * i));
      EXPECT_EQ(values(other.grad()), Values(3, 2 * i));
    }
  }
}

TEST(CompiledResults, InputsThatAreWrittenAreCopiedThereAndBackWhenOthersCome) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) {
      Tensor x = in[0];
      x += 1;
      return Tensors{x * 2 + in[1], x};
    });
    Tensor x = zeros({3}, c);
    const Tensor y = zeros({3}, c);
    double expected = 0;
    Tensors inputs;
    for (int i = 0; i < 30; ++i) {
      inputs.push_back(x);
      const Tensors z = f({x, y});
      EXPECT_EQ(values(x), Values(3, expected + 1));
      EXPECT_TRUE(z[1].shares_memory_with(x));
      x = z[0];
      expected = 2 * (expected + 1);
      EXPECT_EQ(values(x), Values(3, expected));
      if (expected > 1000) {
        x = zeros({3}, c);
        expected = 0;
      }
    }
    EXPECT_EQ(f.recorded(), 2u);
    for (int i = 0; i < 3; ++i)  // one memory as both: no copies of it
      EXPECT_EQ(values(f({y, y})[0]), Values(3, 3 * (i + 1)));
    EXPECT_EQ(values(y), Values(3, 3));
  }
}

TEST(CompiledResults, AnInputThatIsWrittenAndCapturedIsNotCopied) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = zeros({3}, c);
    Compiled f([&](const Tensors& in) {
      Tensor x = in[0];
      x += 1;
      return Tensors{w * 10};
    });
    for (int i = 1; i < 5; ++i) {
      f({zeros({3}, c)});
      f({ones({3}, c)});
      EXPECT_EQ(values(f({w})[0]), Values(3, 10 * i));
    }
  }
}

TEST(CompiledResults, TensorsKeptElsewhereAreOrderedWithOtherStreams) {
  constexpr int64_t kLarge = 300000;
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Tensor kept;
    const Tensor x = zeros({kLarge}, c);
    Compiled f([&](const Tensors& in) {
      kept = in[0] * 1;
      return Tensors{};
    });
    f({x});
    const Stream other(c);
    for (int i = 1; i < 8; ++i) {
      full({kLarge}, i, c).copyto(x);
      f({x});
      Tensor sum = zeros({kLarge}, c);
      {
        const StreamScope scope(other);
        for (int k = 0; k < 6; ++k) sum = sum + kept;
      }
      full({kLarge}, 100, c).copyto(x);
      f({x});
      EXPECT_EQ(values(sum), Values(kLarge, 6 * i));
    }
  }
}

TEST(CompiledResults, ReplaysOnAnotherStreamWaitForTheFirstCall) {
  constexpr int64_t kLarge = 300000;
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    for (int i = 0; i < 10; ++i) {
      const Tensor x = full({kLarge}, i, c);
      Compiled f([](const Tensors& in) {
        Tensor t = in[0];
        for (int k = 0; k < 20; ++k) t = t + 1;
        return Tensors{t};
      });
      const Stream other(c);
      Tensor first;
      {
        const StreamScope scope(other);
        first = f({x})[0];
      }
      EXPECT_EQ(values(f({x})[0]), Values(kLarge, 20 + i));
      EXPECT_EQ(values(first), Values(kLarge, 20 + i));
    }
  }
}

}  // namespace
}  // namespace locus::test
