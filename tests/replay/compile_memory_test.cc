// The memory of compiled functions: what remains, and what happens without memory.
#include <locus/core/compile.h>

#include <algorithm>
#include <fstream>

#include <locus/core/autograd.h>
#include <locus/core/capture.h>
#include <locus/core/stream.h>
#include <locus/devices/pool.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include "tests/replay/captures.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using Values = std::vector<double>;

TEST(CompiledMemory, MemoryReturnsWithIt) {
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

// The memory of a function of n products. Each product needs scratch memory for split sums.
size_t memory_of_products(Context c, int n) {
  const Tensor a = ones({16, 65536}, {c, f16}), b = a.T();
  wait_all();
  memory_pool(c).release_cached();
  const size_t before = memory_pool(c).stats().in_use;
  Compiled f([n](const Tensors& in) {
    Tensors products;
    for (int i = 0; i < n; ++i) products.push_back(dot(in[0], in[1]));
    return products;
  });
  for (int i = 0; i < 3; ++i)
    for (const Tensor& y : f({a, b}))
      EXPECT_EQ(values(y), Values(256, INFINITY));  // 65536 exceeds f16
  wait_all();
  memory_pool(c).release_cached();
  return memory_pool(c).stats().in_use - before;
}

TEST(CompiledMemory, CallsInSequenceShareTheirScratch) {
  LOCUS_NEEDS_POOL();
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    EXPECT_LT(memory_of_products(c, 8), memory_of_products(c, 1) + 7 * 4096);
  }
}

TEST(CompiledMemory, BranchesThatRunAtOnceHaveScratchOfTheirOwn) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto chains = [](const Tensors& in) {
      Tensors x = in;
      for (int i = 0; i < 6; ++i)
        for (Tensor& t : x) t = t + t.sum() * 1e-6;
      return x;
    };
    Compiled f(chains);
    const Tensors in{full({1000003}, 1, c), full({1000003}, 2, c), full({1000003}, 3, c)};
    const Tensors expected = chains(in);
    for (int round = 0; round < 20; ++round) {
      const Tensors y = f(in);
      for (size_t i = 0; i < y.size(); ++i)
        EXPECT_EQ(values(y[i].sum()), values(expected[i].sum()));
    }
  }
}

// The process's resident memory.
size_t resident() {
  size_t all = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return pages * 4096;
}

// Forward, backward and an update; results held over the next two calls.
void record_many(Context c, int from, int to) {
  const Tensor w = full({4, 3}, .5, c);
  w.attach_grad();
  Compiled f(
      [&](const Tensors& in) {
        Tensor y;
        {
          const autograd::Record record;
          y = dot(in[0] * random::uniform(1, 2, in[0].shape(), c), w);
        }
        y.backward();
        const autograd::Pause pause;
        Tensor weight = w;
        weight -= w.grad() * 1e-9;
        return Tensors{y, y.sum(), in[0] + in[1]};
      },
      {.keys = 3});
  std::vector<Tensors> held(2);
  for (int i = from; i < to; ++i) {
    const int64_t n = 1 + i % 61 * 7;
    const Tensor x = ones({n, 4}, c), y = ones({n, 4}, c);
    held[static_cast<size_t>(i % 2)] = f({x, y});
    if (i % 50 == 0) {
      held[0] = f({x, y});
      held[1] = f({y.copyto(c), x});
    }
    if (i % 100 == 0) wait_all();
  }
  EXPECT_GE(f.recorded(), static_cast<size_t>(to - from));
}

TEST(CompiledMemory, TenThousandRecordingsOfChangingShapesLeaveNothing) {
  LOCUS_NEEDS_POOL();
  std::vector<Context> some = contexts();
  some.resize(std::min(some.size(), size_t{2}));
  for (Context c : some) {
    SCOPED_TRACE(to_string(c));
    record_many(c, 0, 500);
    wait_all();
    const MemoryStats before = memory_pool(c).stats();
    [[maybe_unused]] const size_t memory = resident();
    const uint32_t stream = new_stream_id();
    record_many(c, 0, 10000);
    wait_all();
    const MemoryStats after = memory_pool(c).stats();
    EXPECT_EQ(after.in_use, before.in_use);
    EXPECT_EQ(after.reserved, before.reserved);
    EXPECT_EQ(new_stream_id(), stream + 1);
#ifndef __SANITIZE_ADDRESS__  // keeps freed memory
    EXPECT_LE(resident(), memory + (size_t{16} << 20));
#endif
  }
}

// Gets a separate segment of the pool.
constexpr int64_t kLarge = (int64_t{33} << 20) / 4;

// Counts its calls in w and in w's gradient.
struct Counting {
  explicit Counting(Context c) : w(zeros({2}, c)) { w.attach_grad(GradReq::add); }

  Tensors operator()(const Tensors& in) const {
    Tensor y;
    {
      const autograd::Record record;
      y = w + 1;
    }
    y.backward();
    Tensor weight = w;
    weight += 1;
    return {in[0] + w(0)};
  }
  void expect(int calls) const {
    EXPECT_EQ(values(w), Values(2, calls));
    EXPECT_EQ(values(w.grad()), Values(2, calls));
  }

  Tensor w;
};

TEST(CompiledMemory, WithoutMemoryForItsResultsAReplayDoesNotBegin) {
  LOCUS_NEEDS_POOL();
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Counting counting(c);
    Compiled f(counting);
    const Tensor x = ones({kLarge}, c);
    Tensor first = f({x})[0], second;
    const auto none_of = [&](int calls) {
      const Shortage shortage(c);
      EXPECT_THROW(f({x}), OutOfMemory);
      EXPECT_THROW(f({x}), OutOfMemory);
      counting.expect(calls);
    };
    none_of(1);
    second = f({x})[0];
    EXPECT_EQ(second[-1].item<double>(), 3);
    none_of(2);
    EXPECT_EQ(first[-1].item<double>(), 2);
    {
      const Shortage shortage(c);
      first = Tensor();
      EXPECT_EQ(f({x})[0][-1].item<double>(), 4);
    }
    counting.expect(3);
    EXPECT_EQ(second[-1].item<double>(), 3);
    EXPECT_EQ(f.recorded(), 1u);
  }
}

TEST(CompiledMemory, WithoutMemoryACallIsRefusedUntilThereIsSome) {
  LOCUS_NEEDS_POOL();
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor a = ones({kLarge}, c), b = full({kLarge}, 5, c);
    Compiled f([](const Tensors& in) { return Tensors{(in[0] + 1) * in[0]}; });
    const auto refused = [&](const Tensor& x) {
      const Shortage shortage(c);
      const size_t before = memory_pool(c).stats().in_use;
      EXPECT_THROW(f({x}), OutOfMemory);
      wait_all();
      EXPECT_LE(memory_pool(c).stats().in_use, before);
      EXPECT_FALSE(capture::active());
    };
    refused(a);
    EXPECT_EQ(f({a})[0][-1].item<double>(), 2);
    refused(b);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(f({a})[0][-1].item<double>(), 2);
      EXPECT_EQ(f({b})[0][-1].item<double>(), 30);
    }
  }
}

// Host memory is pinned for the copy to a device.
TEST(CompiledMemory, NumbersOfTheHostAreThoseOfTheRecording) {
  for (Context c : contexts())
    for (DType d : {f32, f64}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      double made = 1;
      const auto numbers = [&](TensorOptions o) {
        const std::vector<double> given{made, made + 1, made + 2};
        made += 10;
        return array(given, o);
      };
      Compiled f([&](const Tensors& in) {
        Tensor sum = in[0];
        for (int i = 0; i < 3; ++i) {
          sum = sum * 2 + numbers({c, d});
          sum = sum + numbers({cpu_pinned(), d}).copyto(c, {.blocking = false});
        }
        Tensor written = numbers({c, d});
        written += sum;
        return Tensors{sum, written};
      });
      for (int i = 0; i < 4; ++i) {
        const Tensors y = f({full({3}, i, {c, d})});
        const double first = 8 * i + 4 * (1 + 11) + 2 * (21 + 31) + 41 + 51;
        EXPECT_EQ(values(y[0]), (Values{first, first + 14, first + 28})) << i;
        EXPECT_EQ(values(y[1]), (Values{first + 61, first + 76, first + 91})) << i;
      }
      EXPECT_EQ(f.recorded(), 1u);
    }
}

TEST(CompiledMemory, NumbersOfTheHostOutliveACapture) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  const Tensor x = ones({2}, c);
  Capture capture(c);
  Tensor y = array({3., 4.}, c);
  y += x;
  const Tensor z = array({5., 6.}, cpu_pinned()).copyto(c, {.blocking = false}) + x;
  Graph graph = capture.end();
  for (int i = 1; i < 4; ++i) {
    std::vector<Tensor> reused;
    for (int k = 0; k < 4; ++k) reused.push_back(full({2}, 9, cpu_pinned()));
    graph.replay();
    EXPECT_EQ(values(y), (Values{3. + i, 4. + i}));
    EXPECT_EQ(values(z), (Values{5. + i, 6. + i}));
    x.detach() += 1;
  }
}

}  // namespace
}  // namespace locus::test
