// calls(), describe() and dot() of compiled functions.
#include <locus/core/compile.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <string>

#include <locus/core/autograd.h>
#include <locus/core/op.h>
#include <locus/core/parallel.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>
#include "tests/replay/captures.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Values = std::vector<double>;

TEST(CompiledCalls, CallsSayWhatTheyAreAndTake) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) { return Tensors{exp(in[0]) + 1}; });
    f({ones({3}, c)});
    const std::vector<CompiledCall> calls = f.calls();
    ASSERT_EQ(calls.size(), 2);
    EXPECT_EQ(calls[0].op, "exp");
    EXPECT_EQ(calls[0].operands, "f32(3,) > f32(3,)");
    EXPECT_EQ(calls[0].bytes, 24);
    EXPECT_EQ(calls[0].graph, !is_host(c) && !emulated_gpus());
    EXPECT_THAT(calls[1].after, ElementsAre(0));
    for (const CompiledCall& call : calls) {
      EXPECT_EQ(call.context, c);
      EXPECT_EQ(call.from, call.to);
      EXPECT_EQ(call.segment, 0);
      EXPECT_GT(call.us, 0);
    }
  }
}

TEST(CompiledCalls, CallsOfTheGradientFollow) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({3}, c);
    x.attach_grad();
    Compiled f([](const Tensors& in) { return Tensors{exp(tanh(in[0]))}; });
    Tensor y;
    {
      const autograd::Record record;
      y = f({x})[0];
    }
    y.backward();
    wait_all();
    const std::vector<CompiledCall> calls = f.calls();
    ASSERT_GT(calls.size(), 3);
    EXPECT_EQ(calls[1].segment, 0);
    EXPECT_THAT(calls[1].after, ElementsAre(0));
    EXPECT_EQ(calls[2].segment, 1);
    EXPECT_TRUE(calls[2].after.empty());
    EXPECT_EQ(calls.back().segment, 1);
    EXPECT_THAT(calls.back().after, Contains(static_cast<int>(calls.size()) - 2));
  }
}

TEST(CompiledCalls, CallsWaitForThoseOfOtherContexts) {
  LOCUS_NEEDS_ANY_GPUS(2);
  Compiled f([](const Tensors& in) {
    const Tensor x = in[0] + 1, y = in[1] + 1;
    return Tensors{x.copyto(gpu(1)) * y};
  });
  f({ones({3}, gpu(0)), ones({3}, gpu(1))});
  const std::vector<CompiledCall> calls = f.calls();
  ASSERT_EQ(calls.size(), 4);
  EXPECT_EQ(calls[0].context, gpu(0));
  EXPECT_EQ(calls[1].context, gpu(1));
  EXPECT_TRUE(calls[1].after.empty());
  EXPECT_EQ(calls[2].op, "copyto");
  EXPECT_EQ(calls[2].from, gpu(0));
  EXPECT_EQ(calls[2].to, gpu(1));
  EXPECT_THAT(calls[2].after, ElementsAre(0));
  EXPECT_THAT(calls[3].after, ElementsAre(1, 2));
  EXPECT_NE(calls[1].segment, calls[3].segment);
  const std::string dot = f.dot();
  EXPECT_THAT(dot, HasSubstr("n2 -> n3"));
  EXPECT_THAT(dot, Not(HasSubstr("n0 -> n1")));
}

TEST(CompiledCalls, DescribesItsCallsAndChangesNothing) {
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
    for (const char* part : {"multiply", "exp", "add", "4 calls", "f32(3,)x2 > f32(3,)", "µs"})
      EXPECT_THAT(text, HasSubstr(part));
    EXPECT_EQ(text.find("as one graph") != std::string::npos, !is_host(c) && !emulated_gpus());
    EXPECT_THAT(f.dot(), HasSubstr("n0 -> n2"));
    EXPECT_EQ(values(w), Values(3, 2));
    EXPECT_NEAR(f({x})[0][0].item<double>(), std::exp(4) + 4, 1e-4);
    EXPECT_EQ(values(w), Values(3, 3));
  }
}

TEST(CompiledCalls, ADescriptionLeavesWhatWasRecordedForBackwardAsItWas) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = full({3}, 2, c), x = full({3}, 5, c);
    Compiled f([&](const Tensors& in) {
      Tensor changed = w;
      changed += 1;
      return in;
    });
    f({x});
    x.attach_grad();
    Tensor y;
    {
      const autograd::Record record;
      y = x * w;
    }
    f.describe();
    y.backward();
    EXPECT_EQ(values(x.grad()), Values(3, 3));
    f({x});
    {
      const autograd::Record record;
      y = x * w;
    }
    f({x});
    EXPECT_THROW(y.backward(), Error);
  }
}

TEST(CompiledCalls, ADescriptionThatFailsChangesNothing) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({1, 4}, c), id = zeros({1}, {c, i32});
    Tensor w = ones({3}, c);
    Compiled f([&](const Tensors&) {
      w += 1;
      return Tensors{pick(x, id)};
    });
    f({});
    full({1}, 7, {c, i32}).copyto(id);
    EXPECT_THROW(f.describe(), IndexError);
    EXPECT_EQ(values(w), Values(3, 2));
    EXPECT_NO_THROW(wait_all());
    full({1}, 3, {c, i32}).copyto(id);
    EXPECT_EQ(f.calls().size(), 2);
    EXPECT_EQ(f({})[0].item<double>(), 1);
    EXPECT_EQ(values(w), Values(3, 3));
    EXPECT_EQ(f.recorded(), 1);
  }
}

// Makes products fail: at once on the host, at run time on emulated GPUs.
class FailingProducts {
 public:
  FailingProducts() : before_(get_op("multiply").kernel(DeviceType::cpu, f32)) {
    kernel_ = before_;
    set_kernel("multiply", DeviceType::cpu, f32, &multiply);
  }
  ~FailingProducts() { set_kernel("multiply", DeviceType::cpu, f32, before_); }
  std::string while_failing(const auto& f) {
    fails_ = true;
    const std::string text = message_of<DeviceError>(f);
    fails_ = false;
    return text;
  }

 private:
  static void multiply(const Call& call) {
    if (fails_) throw DeviceError("no product");
    kernel_(call);
  }
  static inline std::atomic<bool> fails_{false};
  static inline Kernel kernel_;
  const Kernel before_;
};

TEST(CompiledCalls, AFailedMeasurementLeavesTheGradientToComeUnchanged) {
  FailingProducts products;
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    if (!is_host(c) && !emulated_gpus()) continue;
    const Tensor x = zeros({3}, c);
    Tensor w = ones({3}, c);
    x.attach_grad();
    Compiled f([&](const Tensors& in) {
      w += 1;
      return Tensors{exp(in[0])};
    });
    for (int round = 1; round < 4; ++round) {
      Tensor y;
      {
        const autograd::Record record;
        y = f({x})[0];
      }
      EXPECT_THAT(products.while_failing([&] { f.calls(); }), HasSubstr("no product"));
      EXPECT_EQ(values(w), Values(3, 1 + round));
      EXPECT_EQ(values(y), Values(3, 1));
      y.backward({.head_gradient = full({3}, round, c)});
      EXPECT_EQ(values(x.grad()), Values(3, round));
    }
    EXPECT_EQ(f.recorded(), 1);
  }
}

TEST(CompiledCalls, OfSeveralContextsAMeasurementThatFailsOnOneChangesNothing) {
  LOCUS_NEEDS_ANY_GPUS(2);
  LOCUS_NEEDS_EMULATED_GPUS();
  FailingProducts products;
  Tensor w = ones({3}, gpu(0)), v = ones({3}, gpu(1)), host = zeros({3}, cpu_pinned());
  Compiled f([&](const Tensors& in) {
    w += in[0];
    w.copyto(host, {.blocking = false});
    v += w.copyto(gpu(1));
    v *= in[1];
    return Tensors{v + 1};
  });
  const Tensors in{ones({3}, gpu(0)), full({3}, 2, gpu(1))};
  const Tensor y = f(in)[0];
  const auto expect = [&](double of_w, double of_v) {
    EXPECT_EQ(values(w), Values(3, of_w));
    wait_all();
    EXPECT_EQ(values(host), Values(3, of_w));
    EXPECT_EQ(values(v), Values(3, of_v));
  };
  expect(2, 6);
  EXPECT_THAT(products.while_failing([&] { f.describe(); }), HasSubstr("no product"));
  expect(2, 6);
  EXPECT_EQ(values(y), Values(3, 7));
  EXPECT_EQ(values(f(in)[0]), Values(3, 19));
  expect(3, 18);
  EXPECT_EQ(f.recorded(), 1);
}

// Code that prepares a recording must not ask for that recording.
TEST(CompiledCalls, WhatACallPreparesMayNotAskForItsCalls) {
  const Tensor x = ones({2});
  Compiled* inside = nullptr;
  Compiled f([&](const Tensors& in) {
    if (inside) {
      const capture::RecordingPause aside;
      for (const auto& ask : std::vector<std::function<void()>>{
               [&] { inside->calls(); }, [&] { inside->describe(); }, [&] { inside->dot(); }})
        EXPECT_THAT(message_of<Error>(ask), HasSubstr("called during its own call"));
    }
    return Tensors{in[0] + 1};
  });
  inside = &f;
  f({x});
  inside = nullptr;
  EXPECT_EQ(f.calls().size(), 1);
}

// The other thread would wait for the call's end, which waits for that thread.
TEST(CompiledCalls, WhatACallPreparesMayNotCallItOnAnotherThread) {
  const Tensor x = ones({2}, cpu(1));
  Compiled* inside = nullptr;
  std::string texts[2];
  Compiled f([&](const Tensors& in) {
    if (inside) {
      const capture::RecordingPause aside;
      parallel(Contexts{cpu(0), cpu(1)},
               [&](int i) { texts[i] = message_of<Error>([&] { (*inside)({x}); }); });
    }
    return Tensors{in[0] + 1};
  });
  inside = &f;
  f({x});
  inside = nullptr;
  for (const std::string& text : texts) EXPECT_THAT(text, HasSubstr("called during its own call"));
  EXPECT_EQ(values(f({x})[0]), Values(2, 2));
}

}  // namespace
}  // namespace locus::test
