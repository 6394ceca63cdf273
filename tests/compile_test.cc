// Compiled functions, on every context there is.
#include <locus/core/compile.h>

#include <cmath>
#include <thread>

#include <locus/core/autograd.h>
#include <locus/core/op.h>
#include <locus/core/storage.h>
#include <locus/core/stream.h>
#include <locus/devices/pool.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/matmul.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>
#include "tests/captures.h"
#include "tests/contexts.h"
#include "tests/run.h"

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
    EXPECT_EQ(runs, 2);  // where the first tensor lay, and where all are copied to
  }
}

TEST(Compiled, TheSameTensorIsReadWhereItLies) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({4}, c);
    Compiled f([](const Tensors& in) { return Tensors{twice_and_one(in)}; });
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(values(f({x})[0]), Values(4, 2 * (i + 1) + 1));
      full({4}, i + 2, c).copyto(x);
    }
    EXPECT_EQ(f.recorded(), 1u);
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
    all.clear(), rows.clear();
    const void* const lent = f({x})[0].data_ptr();
    EXPECT_EQ(f({x})[0].data_ptr(), lent);
  }
}

TEST(Compiled, AResultMayComeBackAsAnInput) {
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

TEST(Compiled, WritesInputsInPlaceWhereTheyAre) {
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
    EXPECT_EQ(f.recorded(), 2u);
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
      full({200000}, i, c).copyto(x);  // behind the replay before, which reads x
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

TEST(Compiled, RefusesWhatAReplayCouldNotRepeat) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(4, {c, f32});
    const auto refused = [&](auto g, const char* what) {
      Compiled f([&](const Tensors& in) {
        g(in[0] * 2);
        return Tensors{in[0]};
      });
      const std::string text = message_of<CaptureError>([&] { f({x}); });
      EXPECT_THAT(text, HasSubstr(what));
      EXPECT_THAT(text, HasSubstr("compile_test.cc:"));
      EXPECT_FALSE(capture::active());
      EXPECT_EQ(f.recorded(), 0u);
      EXPECT_EQ(values(x + 1), (Values{1, 2, 3, 4}));
    };
    refused([](const Tensor& t) { t(0).item<float>(); }, "item");
    refused([](const Tensor& t) { t.to_vector<float>(); }, "to_vector");
    refused([](const Tensor& t) { t.wait_to_read(); }, "wait_to_read");
    refused([](const Tensor&) { wait_all(); }, "wait_all");
    refused([](const Tensor& t) { const Tensor y = t[t > 1]; }, "mask_offsets");
    refused([&](const Tensor&) { random::permutation(3, c); }, "permutation");
    if (is_host(c)) continue;
    refused([](const Tensor& t) { t.copyto(cpu()); }, "copyto");
    refused([&](const Tensor&) { ones({4}).as_in_context(c); }, "pageable");
    refused([&](const Tensor&) { Capture inside(c); }, "already");
  }
}

TEST(Compiled, RefusesAGraphThatWasRecordedBefore) {
  for (Context c : contexts()) {
    const Tensor w = ones({3}, c);
    w.attach_grad();
    Tensor y;
    {
      const autograd::Record record;
      y = w * 2;
    }
    Compiled f([&](const Tensors&) {
      y.backward();
      return Tensors{};
    });
    EXPECT_THROW(f({}), CaptureError);
    const autograd::Record record;
    EXPECT_THAT(message_of<Error>([&] { f({}); }), HasSubstr("autograd::Record"));
  }
}

TEST(Compiled, AnErrorInsideLeavesNothing) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({4}, c);
    bool wrong = true;
    Compiled f([&](const Tensors& in) {
      const Tensor y = in[0] + 1;
      return Tensors{wrong ? y + ones({5}, c) : y};
    });
    EXPECT_THROW(f({x}), ShapeError);
    EXPECT_THROW(f({x}), ShapeError);
    wrong = false;
    EXPECT_EQ(values(f({x})[0]), Values(4, 2));
    EXPECT_EQ(values(f({x})[0]), Values(4, 2));
  }
}

TEST(Compiled, MemoryReturnsWithIt) {
  LOCUS_NEEDS_POOL();
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    wait_all();
    memory_pool(c).release_cached();
    const size_t before = memory_pool(c).stats().in_use;
    Tensor kept;
    {
      const Tensor x = ones({300000}, c);
      Compiled f([](const Tensors& in) { return Tensors{(in[0] + 1) * in[0], in[0].sum()}; });
      for (int i = 0; i < 3; ++i) kept = f({x.copyto(c)})[1];
      EXPECT_GT(memory_pool(c).stats().in_use, before + 3 * 300000 * sizeof(float));
    }
    EXPECT_EQ(kept.item<float>(), 300000);
    kept = Tensor();
    wait_all();
    memory_pool(c).release_cached();
    EXPECT_EQ(memory_pool(c).stats().in_use, before);
  }
}

TEST(Compiled, ManyShapesLeakNothing) {
  LOCUS_NEEDS_POOL();
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    size_t reserved = 0;
    Compiled f([](const Tensors& in) { return Tensors{in[0] + in[0]}; }, {.keys = 4});
    for (int64_t i = 0; i < 300; ++i) {
      const Tensor x = ones({1000 + i % 17 * 100}, c);
      EXPECT_EQ(f({x})[0][-1].item<float>(), 2);
      if (i == 40) reserved = memory_pool(c).stats().reserved;
    }
    EXPECT_LE(memory_pool(c).stats().reserved, reserved);
  }
}

TEST(Compiled, ThreadsRecordAtOnce) {
  for (Context c : contexts()) {
    const auto work = [c](int id) {
      for (int round = 0; round < 10; ++round) {
        const Tensor x = full({1000}, id, c);
        Compiled f([](const Tensors& in) {
          Tensor y = in[0];
          for (int i = 0; i < 10; ++i) y = y + in[0];
          return Tensors{y};
        });
        for (int i = 0; i < 3; ++i) ASSERT_EQ(values(f({x})[0]), Values(1000, 11 * id));
      }
    };
    std::thread a(work, 1), b(work, 2);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(values(ones({9}, c) + 1), Values(9, 2));
    a.join();
    b.join();
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

TEST(Compiled, DescribesItsCallsAndChangesNothing) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Tensor w = ones({3}, c);
    const Tensor x = full({3}, 2, c);
    Compiled f([&](const Tensors& in) {
      Tensor y = in[0] * w;
      w += 1;
      return Tensors{exp(y) + y};
    });
    EXPECT_THAT(message_of<Error>([&] { f.describe(); }), HasSubstr("nothing is recorded"));
    f({x});
    EXPECT_EQ(values(w), Values(3, 2));
    const std::string text = f.describe();
    for (const char* part : {"multiply", "exp", "add", "4 calls", "f32(3,)", "us"})
      EXPECT_THAT(text, HasSubstr(part));
    EXPECT_EQ(text.find("as one graph") != std::string::npos, !is_host(c) && !emulated_gpus());
    EXPECT_THAT(f.dot(), HasSubstr("n0 -> n2"));
    EXPECT_EQ(values(w), Values(3, 2));
    EXPECT_NEAR(f({x})[0][0].item<double>(), std::exp(4) + 4, 1e-4);
    EXPECT_EQ(values(w), Values(3, 3));
  }
}

TEST(Compiled, BadIndicesAreFoundInReplays) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({1, 4}, c), id = zeros({1}, {c, i32});
    Compiled f([&](const Tensors& in) { return Tensors{pick(x, in[0])}; });
    f({id});
    full({1}, 7, {c, i32}).copyto(id);
    const std::string text = message_of<IndexError>([&] {
      f({id});
      wait_all();
    });
    EXPECT_THAT(text, HasSubstr("pick"));
    if (is_host(c)) {
      EXPECT_THAT(text, HasSubstr("compile_test.cc:"));
    }
    full({1}, 3, {c, i32}).copyto(id);
    EXPECT_EQ(f({id})[0].item<double>(), 1);
    EXPECT_NO_THROW(wait_all());
  }
}

TEST(Compiled, WhatDependsOnNothingIsNotRunAgainUnlessTheProgramHasIt) {
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
      result += 1;  // its memory comes again
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

// Every op of the registry; a new one is covered by its samples.
class CompiledRegistry : public testing::TestWithParam<const Op*> {};

TEST_P(CompiledRegistry, ReplaysAsItRuns) {
  const Op& op = *GetParam();
  if (!op.samples || op.no_capture) return;
  for (const Context c : contexts()) {
    for (int i = 0; i < kNumDTypes; ++i) {
      const auto d = static_cast<DType>(i);
      if (!op.make_view && !op.function && !op.kernel(device(c).kernels(), d)) continue;
      random::seed(3);
      for (const Sample& s : op.samples(c, d)) {
        SCOPED_TRACE(to_string(c) + " " + name(d));
        Compiled f([&](const Tensors& in) { return run(op, in, s.attrs, c); });
        for (int replay = 0; replay < 4; ++replay) {
          Tensors in;  // the first again, then others of the same values
          for (const Tensor& t : s.inputs) in.push_back(replay < 2 ? t : t.copyto(c));
          churn(c);
          const Tensors eager = run(op, in, s.attrs, c), got = f(in);
          ASSERT_EQ(got.size(), eager.size());
          for (size_t k = 0; k < got.size(); ++k) {
            ASSERT_EQ(got[k].shape(), eager[k].shape());
            ASSERT_EQ(got[k].dtype(), eager[k].dtype());
            std::vector<char> a(static_cast<size_t>(got[k].size()) * size_of(got[k].dtype()));
            std::vector<char> b(a.size());
            got[k].to_host(a.data(), got[k].dtype());
            eager[k].to_host(b.data(), eager[k].dtype());
            EXPECT_EQ(a, b);
          }
          if (HasFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, CompiledRegistry, testing::ValuesIn(every_op()),
                         [](const auto& p) { return p.param->name; });

}  // namespace
}  // namespace locus::test
