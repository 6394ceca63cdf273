// Errors of compiled functions.
#include <locus/core/compile.h>

#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include <locus/core/autograd.h>
#include <locus/core/generator.h>
#include <locus/core/io.h>
#include <locus/core/observe/trace.h>
#include <locus/core/stream.h>
#include <locus/devices/pool.h>
#include <locus/nn/data.h>
#include <locus/nn/init.h>
#include <locus/nn/metric.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/trigonometry.h>
#include "tests/replay/captures.h"
#include "tests/support/contexts.h"
#include "tests/support/slow.h"

namespace locus::test {
namespace {

using testing::HasSubstr;
using Values = std::vector<double>;

TEST(CompiledErrors, NamesAnEmptyInputAndAnEmptyResult) {
  const Tensor x = ones({2});
  Compiled same([](const Tensors& in) { return in; });
  EXPECT_THAT(
      message_of<EmptyTensor>([&] {
        same({x, {}});
      }),
      testing::StartsWith("Compiled: input 1 of the call at tests/replay/compile_errors_test.cc:"));
  Compiled none([](const Tensors& in) { return Tensors{in[0] + 1, {}}; });
  EXPECT_THAT(message_of<EmptyTensor>([&] { none({x}); }),
              testing::StartsWith("Compiled: result 1 of the function called at tests/"));
}

TEST(CompiledErrors, RefusesWhatAReplayCouldNotRepeat) {
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
      EXPECT_THAT(text, HasSubstr("compile_errors_test.cc:"));
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
    refused([](const Tensor& t) { any(isnan(t)).item<bool>(); }, "item");
    refused([](const Tensor&) { load("none.params"); }, "load: the function called");
    refused([](const Tensor& t) { metric::MAE().update(t, t); }, "mae: the function called");
    refused([](const Tensor&) { data::read_idx("none.idx"); }, "read_idx: the function called");
    refused([](const Tensor&) { init::Orthogonal()({2, 2}, f32); }, "Orthogonal");
    if (is_host(c)) continue;
    refused([](const Tensor& t) { t.copyto(cpu()); }, "copyto");
    refused([&](const Tensor&) { ones({4}).as_in_context(c); }, "pageable");
    refused([&](const Tensor&) { Capture inside(c); }, "already");
  }
}

TEST(CompiledErrors, RefusesAGraphThatWasRecordedBefore) {
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
    Compiled g([&](const Tensors&) { return Tensors{y * 3}; });
    const autograd::Record record;
    EXPECT_THROW(g({}), CaptureError);
  }
}

TEST(CompiledErrors, AnErrorInsideLeavesNothing) {
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

TEST(CompiledErrors, BadIndicesAreFoundInReplays) {
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
      EXPECT_THAT(text, HasSubstr("compile_errors_test.cc:"));
    }
    full({1}, 3, {c, i32}).copyto(id);
    EXPECT_EQ(f({id})[0].item<double>(), 1);
    EXPECT_NO_THROW(wait_all());
  }
}

TEST(CompiledErrors, AReplayThatFailsHasDrawnItsNumbersAndWrittenAPart) {
  const Tensor x = ones({1, 4}), id = zeros({1}, i32), count = zeros({1});
  Compiled f([&](const Tensors& in) {
    Tensor calls = count;
    calls += 1;
    const Tensor drawn = random::uniform(0, 1, {5});
    return Tensors{pick(x, in[0]), drawn};
  });
  random::seed(5);
  for (int i = 0; i < 2; ++i) f({id});
  const Values third = values(f({id})[1]);
  random::seed(5);
  f({id});
  EXPECT_THROW(f({full({1}, 7, i32)}), IndexError);
  EXPECT_EQ(count.item<double>(), 5);
  EXPECT_EQ(values(f({id})[1]), third);
  EXPECT_EQ(f.recorded(), 1u);
}

// Fails the launch of one op.
class Refusing final : public tracing::Listener {
 public:
  explicit Refusing(const char* op) : op_(op) { tracing::start(tracing::kProfile, *this); }
  ~Refusing() override { tracing::stop(tracing::kProfile); }
  void launch(Device& d, Kernel kernel, const Call& call, const char* name) override {
    if (std::string_view(name) == op_) throw DeviceError(text_of(name, ": no launch"));
    d.launch(kernel, call, name);
  }

 private:
  const std::string_view op_;
};

TEST(CompiledErrors, WhatRanBeforeALaunchThatFailedIsOrderedWithLaterWork) {
  LOCUS_NEEDS_POOL();  // without a pool, freed memory waits for its GPU
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({1000}, c), w = zeros({1000}, c);
    Compiled f([&](const Tensors& in) {
      Tensor changed = w;
      changed += in[0];
      return Tensors{cos(in[0])};
    });
    f({x});
    wait_all();
    const Stream other(c);
    Tensor seen;
    for (int round = 2; round < 6; ++round) {
      const Tensor recent = ones({1000}, c);
      {
        const StreamScope scope(other);
        seen = recent + 1;  // after all replays
      }
      {
        std::optional<Gate> gate;
        if (!is_host(c)) gate.emplace(current_stream(c));
        {
          const Refusing refusing("cos");
          EXPECT_THAT(message_of<DeviceError>([&] { f({x}); }), HasSubstr("in a replay"));
        }
        const StreamScope scope(other);
        seen = w + 1;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      EXPECT_EQ(values(seen), Values(1000, round + 1));
    }
    EXPECT_EQ(values(f({x})[0]), values(cos(x)));
  }
}

TEST(CompiledErrors, OneThatWasMovedFromOrIsBeingRecordedSaysSo) {
  const Tensor x = ones({2});
  Compiled* inside = nullptr;
  Compiled f([&](const Tensors& in) {
    if (inside) inside->clear();
    return Tensors{in[0] + 1};
  });
  inside = &f;
  EXPECT_THAT(message_of<CaptureError>([&] { f({x}); }), HasSubstr("before or after"));
  inside = nullptr;
  f({x});
  Compiled g(std::move(f));
  EXPECT_EQ(g.recorded(), 1u);
  EXPECT_THAT(message_of<Error>([&] { f.clear(); }), HasSubstr("moved from"));
  EXPECT_THAT(message_of<Error>([&] { f.describe(); }), HasSubstr("moved from"));
}

}  // namespace
}  // namespace locus::test
