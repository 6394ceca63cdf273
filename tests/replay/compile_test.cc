// Compiled functions on every context.
#include <locus/core/compile.h>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/stream.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>
#include "tests/replay/captures.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::HasSubstr;
using Values = std::vector<double>;

Tensor twice_and_one(const Tensors& in) { return in[0] * 2 + 1; }

TEST(Compiled, ReplaysWithTheValuesOfTheTime) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    int runs = 0;
    Compiled f([&](const Tensors& in) {
      ++runs;
      return Tensors{twice_and_one(in), in[0].sum()};
    });
    for (int i = 0; i < 6; ++i) {
      const Tensor x = full({3}, i, c);
      churn(c);
      const Tensors y = f({x});
      EXPECT_EQ(values(y[0]), Values(3, 2 * i + 1));
      EXPECT_EQ(y[1].item<double>(), 3 * i);
    }
    EXPECT_EQ(runs, 1);
  }
}

TEST(Compiled, ResultsThatAreHeldKeepTheirValues) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) { return Tensors{twice_and_one(in), in[0] + 3}; });
    const Tensor x = zeros({2, 3}, c);
    Tensors all, rows, last;
    for (int i = 0; i < 5; ++i) {
      full({2, 3}, i, c).copyto(x);
      const Tensors y = f({x});
      all.push_back(y[0]);
      rows.push_back(y[1](1));  // a view
    }
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(values(all[static_cast<size_t>(i)]), Values(6, 2 * i + 1));
      EXPECT_EQ(values(rows[static_cast<size_t>(i)]), Values(3, i + 3));
    }
  }
}

TEST(Compiled, AResultMayBeAnInput) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) { return Tensors{in[0] + 1}; });
    Tensor x = zeros({3}, c);
    for (int i = 0; i < 7; ++i) x = f({x})[0];
    EXPECT_EQ(values(x), Values(3, 7));
  }
}

TEST(Compiled, IsRecordedForEachShapeDtypeLayoutAndMode) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f(
        [](const Tensors& in) { return Tensors{autograd::is_training() ? in[0] + 1 : in[0] + 2}; });
    const Tensor a = ones({2, 3}, c), b = ones({3}, c), d = ones({2, 3}, {c, f64}), t = a.T();
    const auto each = [&] {
      EXPECT_EQ(values(f({a})[0]), Values(6, 3));
      EXPECT_EQ(values(f({b})[0]), Values(3, 3));
      EXPECT_EQ(f({d})[0].dtype(), f64);
      EXPECT_EQ(f({t})[0].shape(), (Shape{3, 2}));
      const autograd::TrainMode mode;
      EXPECT_EQ(values(f({a})[0]), Values(6, 2));
    };
    each();
    each();
    EXPECT_EQ(f.recorded(), 5u);
    set_matmul_precision(Precision::tf32);
    each();
    set_matmul_precision(Precision::f32);
    each();
    EXPECT_EQ(f.recorded(), 10u);
  }
}

TEST(Compiled, IsRecordedForEachMixedPrecision) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) { return Tensors{dot(in[0], in[0])}; });
    const Tensor x = ones({4, 4}, c);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(f({x})[0].dtype(), f32);
      const amp::Scope mixed(bf16);
      EXPECT_EQ(f({x})[0].dtype(), bf16);
    }
    EXPECT_EQ(f.recorded(), 2u);
  }
}

TEST(Compiled, KeepsTheKeysUsedLast) {
  const Context c = contexts().back();
  Compiled f([](const Tensors& in) { return Tensors{twice_and_one(in)}; }, {.keys = 2});
  const Tensor a = ones({1}, c), b = ones({2}, c), d = ones({3}, c);
  for (const Tensor& t : {a, b, a, d}) f({t});
  EXPECT_EQ(f.recorded(), 3u);
  f({a});
  EXPECT_EQ(f.recorded(), 3u);
  f({b});
  EXPECT_EQ(f.recorded(), 4u);
}

TEST(Compiled, CountsTheFreshnessOfGradientsAmongItsKeys) {
  const Tensor w = ones({2});
  w.attach_grad();
  const auto backward = [&] {
    Tensor y;
    {
      const autograd::Record record;
      y = w * 3;
    }
    y.backward();
  };
  Compiled f([w](const Tensors& in) { return Tensors{in[0] * (autograd::fresh_grad(w) ? 2 : 5)}; },
             {.keys = 1});
  for (int i = 0; i < 2; ++i) {
    backward();
    EXPECT_EQ(values(f({ones({1})})[0]), Values{2});
    autograd::mark_used(w);
    EXPECT_EQ(values(f({ones({1})})[0]), Values{5});
  }
  EXPECT_EQ(f.recorded(), 4u);
}

TEST(Compiled, DrawsTheNumbersThatEagerRunsWouldDraw) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto draw = [c](const Tensors&) {
      return Tensors{random::uniform(-1, 1, {1003}, {c, f32}), random::normal(0, 1, {7}, {c, f64})};
    };
    Compiled f(draw);
    std::vector<Values> eager, replayed;
    random::seed(5);
    for (int i = 0; i < 4; ++i)
      for (const Tensor& t : draw({})) eager.push_back(values(t));
    random::seed(5);
    for (int i = 0; i < 4; ++i)
      for (const Tensor& t : f({})) replayed.push_back(values(t));
    EXPECT_EQ(replayed, eager);
    EXPECT_EQ(f.recorded(), 1u);
  }
}

TEST(Compiled, WritesInputsInPlace) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) {
      Tensor x = in[0];
      x += 1;
      return Tensors{x * 10};
    });
    const Tensor a = zeros({2}, c), b = full({2}, 5, c);
    for (int i = 1; i <= 3; ++i) {
      EXPECT_EQ(values(f({a})[0]), Values(2, 10 * i));
      EXPECT_EQ(values(f({b})[0]), Values(2, 10 * (5 + i)));
    }
    EXPECT_EQ(values(a), Values(2, 3));
    EXPECT_EQ(f.recorded(), 1u);
  }
}

TEST(Compiled, SeesWhatChangesInTensorsItCaptured) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Tensor w = ones({3}, c);
    const Tensor held = w, x = ones({3}, c);
    Compiled f([&](const Tensors& in) { return Tensors{in[0] * w}; });
    EXPECT_EQ(values(f({x})[0]), Values(3, 1));
    full({3}, 7, c).copyto(held);
    EXPECT_EQ(values(f({x})[0]), Values(3, 7));
    w = full({3}, 9, c);  // another tensor: not seen
    churn(c);
    EXPECT_EQ(values(f({x})[0]), Values(3, 7));
  }
}

TEST(Compiled, GradientsAreWrittenAndStayWhereTheyAre) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = full({3}, 2, c), x = ones({3}, c);
    w.attach_grad();
    const auto step = [&](const Tensors& in) {
      Tensor y;
      {
        const autograd::Record record;
        y = (w * w * in[0]).sum();
      }
      y.backward();
      return Tensors{y};
    };
    Compiled f(step);
    const Tensor g = w.grad();
    for (int i = 1; i < 4; ++i) {
      full({3}, i, c).copyto(x);
      f({x});
      EXPECT_EQ(values(w.grad()), Values(3, 4 * i));
      step({x * 10});  // eager work in between
      EXPECT_EQ(values(g), Values(3, 40 * i));
    }
    EXPECT_EQ(f.recorded(), 1u);
    w.attach_grad();
    f({x});
    EXPECT_EQ(f.recorded(), 2u);
    EXPECT_EQ(values(w.grad()), Values(3, 12));
  }
}

TEST(Compiled, AnotherGradientOfATensorOrAnInputIsSeen) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = ones({3}, c), x = ones({3}, c);
    Compiled f([&](const Tensors& in) {
      in[0].zero_grad();
      return Tensors{w.grad() + in[0]};
    });
    for (int i = 0; i < 6; ++i) {
      if (i % 3 != 1) w.attach_grad();
      if (i % 3 != 2) x.attach_grad();
      full({3}, i, c).copyto(w.grad());
      full({3}, 7, c).copyto(x.grad());
      EXPECT_EQ(values(f({x})[0]), Values(3, i + 1));
      EXPECT_EQ(values(x.grad()), Values(3, 0));
    }
  }
}

TEST(Compiled, GradientsAddUpAcrossReplays) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = ones({3}, c), x = ones({3}, c);
    w.attach_grad(GradReq::add);
    Compiled f([&](const Tensors& in) {
      Tensor y;
      {
        const autograd::Record record;
        y = w * in[0];
      }
      y.backward();
      return Tensors{};
    });
    for (int i = 0; i < 4; ++i) f({x});
    EXPECT_EQ(values(w.grad()), Values(3, 4));
    w.zero_grad();
    f({x});
    EXPECT_EQ(values(w.grad()), Values(3, 1));
  }
}

TEST(Compiled, IsOrderedWithEagerWorkOnOtherStreams) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = zeros({200000}, c);
    Compiled f([](const Tensors& in) { return Tensors{in[0] * 3}; });
    const Stream other(c);
    for (int i = 1; i <= 20; ++i) {
      full({200000}, i, c).copyto(x);  // after the last replay, which reads x
      const Tensor y = f({x})[0];
      const StreamScope scope(other);
      const Tensor seen = y + 1;
      EXPECT_EQ(seen[-1].item<double>(), 3 * i + 1);
      if (i % 2 == 1) {  // replayed there, too
        EXPECT_EQ(f({x})[0][-1].item<double>(), 3 * i);
      }
    }
  }
}

TEST(Compiled, CrossesContexts) {
  const std::vector<Context> all = distinct_contexts();
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    const Context a = all[i], b = all[i + 1];
    if (is_host(a) != is_host(b)) continue;  // pageable memory
    SCOPED_TRACE(to_string(a) + to_string(b));
    Compiled f([&](const Tensors& in) {
      const Tensor there = (in[0] * 2).as_in_context(b);
      const Tensor back = (there + 1).as_in_context(a);
      return Tensors{back * in[0], there * 5};
    });
    const Tensor x = zeros({1000}, a);
    for (int k = 0; k < 8; ++k) {
      full({1000}, k, a).copyto(x);
      const Tensors y = f({x});
      EXPECT_EQ(values(y[0]), Values(1000, (2 * k + 1) * k));
      EXPECT_EQ(values(y[1]), Values(1000, 10 * k));
    }
    EXPECT_EQ(f.recorded(), 1u);
  }
}

TEST(Compiled, ConstantsAreNotRecomputedUnlessTheProgramHoldsThem) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({3}, c);
    Tensor escaped;
    Compiled f([&](const Tensors& in) {
      escaped = full({3}, 5, c);
      return Tensors{in[0] * (full({3}, 2, c) + 1) + escaped, full({3}, 4, c)};
    });
    for (int i = 0; i < 4; ++i) {
      const Tensors y = f({x});
      EXPECT_EQ(values(y[0]), Values(3, 8));
      EXPECT_EQ(values(y[1]), Values(3, 4));
      Tensor result = y[1];
      result += 1;
      escaped += 1;
    }
  }
}

TEST(Compiled, LargeMemoryIsSharedWithoutHarm) {
  constexpr int64_t kLarge = 400000;
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({kLarge}, c);
    Compiled f([](const Tensors& in) {
      Tensor y = in[0];
      for (int i = 0; i < 6; ++i) y = y + 1;
      const Tensor z = y * 2;
      return Tensors{z + 1, (z - 1).sum()};
    });
    Tensors held;
    for (int i = 0; i < 4; ++i) {
      full({kLarge}, i, c).copyto(x);
      const Tensors y = f({x});
      held.push_back(y[0]);
      EXPECT_EQ(y[1].item<double>(), (2 * (i + 6) - 1) * double{kLarge});
    }
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(held[static_cast<size_t>(i)][-1].item<double>(), 2 * (i + 6) + 1);
  }
}

TEST(Compiled, InsideAnotherItIsPartOfThat) {
  for (Context c : contexts()) {
    const Tensor x = ones({3}, c);
    Compiled inner([](const Tensors& in) { return Tensors{in[0] * 3}; });
    Compiled outer([&](const Tensors& in) { return Tensors{inner({in[0] + 1})[0] + 1}; });
    for (int i = 0; i < 3; ++i) EXPECT_EQ(values(outer({x})[0]), Values(3, 7));
    EXPECT_EQ(inner.recorded(), 0u);
  }
}

}  // namespace
}  // namespace locus::test
