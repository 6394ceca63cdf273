// Threads that differentiate through common tensors at once.
#include <atomic>
#include <functional>
#include <thread>

#include <locus/core/autograd.h>
#include <locus/core/kernel.h>
#include <locus/core/recompute.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/trigonometry.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

constexpr int kThreads = 4, kTimes = 200;

void in_threads(const std::function<void(int)>& f) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(f, i);
  for (std::thread& t : threads) t.join();
}

TEST(BackwardThreads, GradOfACommonVariableIsEachThreadsOwn) {
  for (Context c : contexts()) {
    const Tensor w = full({2}, 3, c);
    w.attach_grad();
    std::atomic<int> wrong{0};
    in_threads([&](int i) {
      for (int k = 0; k < kTimes; ++k) {
        Tensor y;
        {
          const autograd::Record record;
          y = w * w * (i + 1) + w;
        }
        if (values(autograd::grad(y, {w})[0]) != std::vector<double>(2, 6. * (i + 1) + 1)) ++wrong;
      }
    });
    EXPECT_EQ(wrong, 0) << c;
  }
}

TEST(BackwardThreads, GradUsesACommonGraphThatIsRetained) {
  for (Context c : contexts()) {
    const Tensor w = full({2}, 3, c);
    w.attach_grad();
    Tensor y;
    {
      const autograd::Record record;
      y = tanh(w * 0) + w * w;
    }
    std::atomic<int> wrong{0};
    in_threads([&](int) {
      for (int k = 0; k < kTimes; ++k)
        if (values(autograd::grad(y, {w}, {.retain_graph = true})[0]) != std::vector<double>(2, 6))
          ++wrong;
    });
    EXPECT_EQ(wrong, 0) << c;
  }
}

TEST(BackwardThreads, RecomputedStretchesMayShareAVariable) {
  for (Context c : contexts()) {
    const Tensor w = full({2}, 3, c);
    w.attach_grad();
    std::atomic<int> wrong{0};
    in_threads([&](int) {
      for (int k = 0; k < kTimes; ++k) {
        Tensor y;
        {
          const autograd::Record record;
          y = autograd::recompute([&](const Tensors& in) { return Tensors{in[0] * w}; }, {w * 2},
                                  {w})[0];
        }
        if (values(autograd::grad(y, {w})[0]) != std::vector<double>(2, 12)) ++wrong;
      }
    });
    EXPECT_EQ(wrong, 0) << c;
  }
}

}  // namespace
}  // namespace locus::test
