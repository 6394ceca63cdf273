// Programs that compute before main(), during exit, and in a child of fork(), each in a process, on
// real and emulated GPUs.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/op.h>
#include <locus/core/stream.h>
#include <locus/nn/layers.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::Each;
using testing::ExitedWithCode;

constexpr const char* kAsk = "TEST_GLOBALS";

struct Globals {
  bool knows_copyto = find_op("copyto") != nullptr;
  Tensor twos = full({2, 2}, 2, gpu(0));
  Tensor product = matmul(twos, twos);
  Stream stream{gpu(0)};
  Compiled plus_one{[](const Tensors& in) { return Tensors{in[0] + 1}; }};
};

// Destroyed last, after everything that starts with the first use of a GPU.
[[gnu::init_priority(200)]] std::optional<Globals> destroyed_last;
// Made before main() in processes that set kAsk.
const std::unique_ptr<Globals> made_first =
    std::getenv(kAsk) ? std::make_unique<Globals>() : nullptr;

// The child starts the program anew and makes its globals again.
class ProcessEndDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    LOCUS_NEEDS_ANY_GPUS(1);
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    setenv(kAsk, "1", 1);
  }
  void TearDown() override {
    unsetenv(kAsk);
    GTEST_FLAG_SET(death_test_style, style_);
  }

 private:
  const std::string style_ = GTEST_FLAG_GET(death_test_style);
};

bool works(Globals& g) {
  const StreamScope on(g.stream);
  return g.knows_copyto && values(g.product) == std::vector<double>(4, 8) &&
         values(g.plus_one({g.product})[0]) == std::vector<double>(4, 9);
}

[[noreturn]] void use_globals() {
  destroyed_last.emplace();
  std::exit(works(*made_first) && works(*destroyed_last) ? 7 : 1);
}

TEST_F(ProcessEndDeathTest, GlobalsOnAGpuAreMadeBeforeMainAndDestroyedAfterIt) {
  EXPECT_EXIT(use_globals(), ExitedWithCode(7), "");
}

// The thread has its own tensors, because exit() may destroy the globals before the thread runs.
void compute_for_ever(Tensor x, const Tensor& twos, bool read, std::atomic<int>& rounds) {
  for (;; ++rounds) {
    x = matmul(x, twos) * 0.25f;
    if (read || rounds % 64 == 0) x.to_vector<float>();
  }
}

[[noreturn]] void exit_while_threads_compute() {
  destroyed_last.emplace();
  const bool right = works(*destroyed_last);
  static std::atomic<int> rounds[2];
  for (const bool read : {true, false})
    std::thread(compute_for_ever, made_first->product, made_first->twos, read,
                std::ref(rounds[read]))
        .detach();
  while (rounds[0] < 50 || rounds[1] < 50) std::this_thread::yield();
  std::exit(right ? 7 : 1);
}

TEST_F(ProcessEndDeathTest, DetachedThreadsThatComputeLeaveTheExitCodeAsItIs) {
  for (int i = 0; i < 5; ++i) EXPECT_EXIT(exit_while_threads_compute(), ExitedWithCode(7), "");
}

// The destructor repeats works() after main()'s thread-local objects are destroyed.
struct LearnsAndFails {
  ~LearnsAndFails() {
    if (!works()) std::_Exit(1);
  }
  static bool works() {
    const Tensor w = full({2}, 3);
    w.attach_grad();
    const Tensor y = [&] {
      const autograd::Record record;
      return w * w;
    }();
    nn::Dense layer(2);
    layer.initialize();
    layer(ones({1, 3}));
    const std::string text = message_of<ShapeError>([&] { layer(ones({1, 4})); });
    return values(autograd::grad(y, {w})[0]) == std::vector<double>(2, 6) &&
           text.find(" (in Dense(3 -> 2, linear))") != text.npos;
  }
};

[[noreturn]] void exit_with_a_global_that_learns() {
  static const LearnsAndFails global;
  std::exit(global.works() ? 7 : 1);
}

TEST(GlobalsDeathTest, DestructorsOfGlobalsDifferentiateAndNameBlocksInErrors) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with_a_global_that_learns(), ExitedWithCode(7), "");
}

TEST(ForkDeathTest, AGpuThatTheParentUsedIsRefusedInTheChild) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Tensor x = ones({2}, gpu(0));
  EXPECT_THAT(values(x), Each(1.));
  const auto in_child = [&] {
    const std::string text = message_of<DeviceError>([&] { values(x + 1); });
    std::fprintf(stderr, "%s\n", text.c_str());
    std::_Exit(0);
  };
  EXPECT_EXIT(
      in_child(), ExitedWithCode(0),
      "gpu\\(0\\) was used before fork\\(\\), and does not work in the child; use it in one "
      "of the two processes only");
}

TEST(ForkDeathTest, TheChildDestroysWhatTheParentMadeOnAGpu) {
  LOCUS_NEEDS_ANY_GPUS(1);
  std::optional<Globals> g(std::in_place);
  ASSERT_TRUE(works(*g));
  const auto in_child = [&] {
    g.reset();
    std::_Exit(0);
  };
  EXPECT_EXIT(in_child(), ExitedWithCode(0), "");
}

}  // namespace
}  // namespace locus::test
