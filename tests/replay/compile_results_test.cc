// Results of compiled functions are copies in new memory.
#include <locus/core/compile.h>

#include <locus/core/autograd.h>
#include <locus/core/stream.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>
#include "tests/replay/captures.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using Values = std::vector<double>;

// Whether no two of these, nor one of them and one of `others`, share memory.
bool apart(const Tensors& results, const Tensors& others) {
  for (size_t i = 0; i < results.size(); ++i) {
    for (size_t k = 0; k < i; ++k)
      if (results[i].shares_memory_with(results[k])) return false;
    for (const Tensor& t : others)
      if (results[i].shares_memory_with(t)) return false;
  }
  return true;
}

TEST(CompiledResults, AnInputAndViewsOfItAreCopies) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) { return Tensors{in[0], in[0] + 1, in[0](1), in[0].T()}; });
    std::vector<Tensors> held;
    for (int i = 0; i < 4; ++i) {
      Tensor x = full({2, 2}, i, c);
      held.push_back(f({x}));
      EXPECT_TRUE(apart(held.back(), {x}));
      x += 100;
    }
    for (int i = 0; i < 4; ++i) {
      const Tensors& y = held[static_cast<size_t>(i)];
      EXPECT_EQ(values(y[0]), Values(4, i));
      EXPECT_EQ(values(y[1]), Values(4, i + 1));
      EXPECT_EQ(values(y[2]), Values(2, i));
      EXPECT_EQ(values(y[3]), Values(4, i));
    }
    EXPECT_EQ(f.recorded(), 1u);
  }
}

TEST(CompiledResults, ACapturedTensorIsACopy) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = arange(4, {c, f32}).reshape({2, 2});
    Compiled f([&](const Tensors&) { return Tensors{w, w(0), w.T()}; });
    for (int i = 0; i < 3; ++i) {
      const Tensors y = f({});
      EXPECT_TRUE(apart(y, {w}));
      EXPECT_EQ(values(y[0]), values(w));
      EXPECT_EQ(values(y[1]), values(w(0)));
      EXPECT_EQ(values(y[2]), values(w.T()));
      for (Tensor t : y) t += 1;
      const Values before = values(w);
      (w * 2).copyto(w);
      EXPECT_EQ(values(y[0])[3], before[3] + 1);
    }
  }
}

TEST(CompiledResults, AGradientIsACopy) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = full({3}, 2, c);
    w.attach_grad();
    Compiled f([&](const Tensors& in) {
      Tensor y;
      {
        const autograd::Record record;
        y = w * in[0];
      }
      y.backward();
      return Tensors{w.grad(), y};
    });
    Tensors held;
    for (int i = 1; i < 4; ++i) {
      held.push_back(f({full({3}, i, c)})[0]);
      EXPECT_TRUE(apart({held.back()}, {w.grad()}));
      EXPECT_EQ(values(w.grad()), Values(3, i));
    }
    for (int i = 1; i < 4; ++i) EXPECT_EQ(values(held[static_cast<size_t>(i - 1)]), Values(3, i));
  }
}

TEST(CompiledResults, OneGivenTwiceAndViewsOfOneDoNotShareMemory) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) {
      const Tensor y = in[0] * 2;
      return Tensors{y, y, y(0), y.T()};
    });
    const Tensor x = ones({2, 3}, c);
    for (int i = 0; i < 4; ++i) {
      const Tensors y = f({x});
      EXPECT_TRUE(apart(y, {x}));
      Tensor first = y[0];
      first += 1;
      EXPECT_EQ(values(y[1]), Values(6, 2));
      EXPECT_EQ(values(y[2]), Values(3, 2));
      EXPECT_EQ(values(y[3]), Values(6, 2));
      EXPECT_EQ(y[3].strides(), (std::vector<int64_t>{1, 3}));
    }
  }
}

TEST(CompiledResults, OfSeveralContextsAreCopiedOnEach) {
  const std::vector<Context> all = distinct_contexts();
  Compiled f([](const Tensors& in) {
    Tensors out = in;
    for (const Tensor& t : in) out.push_back(t + 1);
    return out;
  });
  for (int i = 0; i < 3; ++i) {
    Tensors in;
    for (const Context c : all) in.push_back(full({3}, i, c));
    const Tensors y = f(in);
    EXPECT_TRUE(apart(y, in));
    for (size_t k = 0; k < all.size(); ++k) {
      EXPECT_EQ(y[k].context(), all[k]);
      EXPECT_EQ(values(y[k]), Values(3, i));
      EXPECT_EQ(values(y[all.size() + k]), Values(3, i + 1));
    }
  }
  EXPECT_EQ(f.recorded(), 1u);
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
    EXPECT_EQ(f.recorded(), 1u);
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
