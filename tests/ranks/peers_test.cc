// Sums by peer kernels if one device's launch fails and the others' succeed, on emulated GPUs with
// a delayed kernel.
#include <locus/ops/collective/peers.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <locus/core/compile.h>
#include <locus/core/observe/trace.h>
#include <locus/core/op.h>
#include <locus/ops/collective.h>
#include <locus/ops/elementwise.h>
#include "tests/ranks/groups.h"
#include "tests/support/slow.h"

namespace locus::test {
namespace {

using testing::Each;
using testing::HasSubstr;

// Each recorded call has its own barrier.
class Late final : public Communicator {
 public:
  static inline std::shared_ptr<PeerWords> last;
  std::shared_ptr<const PeerBarrier> barrier(std::span<const StreamView>, size_t) override {
    return last = std::make_shared<PeerWords>();
  }
  bool all_reduce(std::span<const View>, std::span<const View>, ReduceOp,
                  std::span<const StreamView>) override {
    return false;
  }
};

// The second device's kernel waits until the first device's kernel has made both sums. If the first
// is alone, or the second fails, the sums are late.
std::atomic<int> made{0}, awaited{0};
std::atomic<bool> alone{false}, second_fails{false};
void late_sums(const Call& call) {
  if (call.attributes<PeersAttrs>().me != 0) {
    if (second_fails) throw DeviceError("no sum");
    eventually([turn = ++awaited] { return made >= turn; });
    return;
  }
  eventually([] { return awaited > made || alone; });
  if (alone) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (int64_t i = 0; i < call.out[0].meta.size(); ++i) {
    const float sum = call.in[0].as<float>()[i] + call.in[1].as<float>()[i];
    for (int result : {2, 3}) call.in[result].as<float>()[i] = sum;
  }
  ++made;
}

// Launches of gpu(1) fail while `fails`.
struct Failing final : tracing::Listener {
  bool fails = false;
  void launch(Device& d, Kernel kernel, const Call& call, const char* name) override {
    if (kernel == &late_sums) {
      if (fails && call.stream.context == gpu(1)) {
        alone = true;
        throw DeviceError("no room to launch");
      }
    }
    d.launch(kernel, call, name);
  }
};

class Peers : public testing::Test {
 protected:
  static constexpr int64_t kElements = 400000;  // more than inboxes have
  void SetUp() override {
    LOCUS_NEEDS_EMULATED_GPUS();
    LOCUS_NEEDS_ANY_GPUS(2);
    before = get_op("all_reduce_peers").kernel(DeviceType::cpu, f32);
    set_kernel("all_reduce_peers", DeviceType::cpu, f32, &late_sums);
    set_communicators(DeviceType::gpu, [](const Group&) -> std::unique_ptr<Communicator> {
      return std::make_unique<Late>();
    });
    listener.fails = false;
    made = awaited = 0;
    alone = second_fails = false;
    tracing::start(tracing::kProfile, listener);
  }
  void TearDown() override {
    tracing::stop(tracing::kProfile);
    set_kernel("all_reduce_peers", DeviceType::cpu, f32, before);
    set_communicators(DeviceType::gpu, nullptr);
    if (num_gpus() > 0) wait_all();
  }
  Kernel before = nullptr;
  static Tensors parts() { return {full({kElements}, 2, gpu(0)), full({kElements}, 3, gpu(1))}; }
  static inline Failing& listener = *new Failing;  // listeners are never destroyed
};

TEST_F(Peers, AKernelThatIsLateStoresBeforeAnythingElseUsesTheMemory) {
  const Group g(gpus(2));
  const Tensors x = parts();
  wait_all();
  listener.fails = true;
  EXPECT_THAT(message_of<DeviceError>([&] { all_reduce(g, x, {.out = x}); }),
              HasSubstr("no room to launch"));
  EXPECT_TRUE(Late::last->broken);
  EXPECT_THAT(values(x[1] * 1), Each(5.));
}

TEST_F(Peers, TheCallbackOfASumMaySumAndIsSkippedAfterAFailure) {
  const Group g(gpus(2));
  const Tensors x = parts(), y = parts();
  int calls = 0;
  const std::function<void(int)> sum_others = [&](int i) {
    ++calls;
    if (i == 0) all_reduce(g, y, {.out = y});
  };
  all_reduce_many(g, std::vector<Tensors>{x}, {.behind = sum_others});
  EXPECT_EQ(calls, 2);
  for (const Tensors& sums : {x, y}) EXPECT_THAT(values(sums[1]), Each(5.));
  listener.fails = true;
  EXPECT_THROW(all_reduce_many(g, std::vector<Tensors>{x}, {.behind = sum_others}), DeviceError);
  EXPECT_EQ(calls, 2);
}

TEST_F(Peers, CallsThatWaitForEachOtherAreMeasuredTogether) {
  const Group g(gpus(2));
  Compiled f([&](const Tensors& in) {
    Tensors sums = all_reduce(g, in);
    return Tensors{sums[0] + 1, sums[1] + 1};
  });
  const Tensors in = parts();
  for (int round = 0; round < 3; ++round) f(in);
  std::vector<double> us;
  for (const CompiledCall& c : f.calls())
    if (c.op == "all_reduce_peers") us.push_back(c.us);
  ASSERT_EQ(us.size(), 2u);
  EXPECT_GT(us[0], 0);
  EXPECT_GT(us[1], 0);
  EXPECT_THAT(values(f(in)[1]), Each(6.));
}

// Sums x in place.
Compiled compiled_sums(const Tensors& x) {
  return Compiled([x](const Tensors& in) {
    all_reduce(Group(gpus(2)), x, {.out = x});
    return Tensors{in[0] + 1};
  });
}

TEST_F(Peers, ASumThatFailsOnOneWhileItIsMeasuredChangesNothing) {
  const Tensors x = parts(), two = parts();
  Compiled f = compiled_sums(x);
  const Tensors in{ones({1})};
  f(in);
  wait_all();  // the kernels read these flags
  alone = second_fails = true;
  EXPECT_THAT(message_of<DeviceError>([&] { f.calls(); }), HasSubstr("no sum"));
  alone = second_fails = false;
  made = awaited = 0;
  for (const Tensor& t : x) EXPECT_THAT(values(t), Each(5.));
  for (size_t i : {0, 1}) two[i].copyto(x[i]);
  f(in);
  for (const Tensor& t : x) EXPECT_THAT(values(t), Each(5.));
}

TEST_F(Peers, AReplayThatFailedHalfwayIsTheLast) {
  const Tensors x = parts(), two = parts();
  Compiled f = compiled_sums(x);
  const Tensors in{ones({1})};
  for (int round = 0; round < 3; ++round) {
    for (size_t i : {0, 1}) two[i].copyto(x[i]);
    f(in);
    EXPECT_THAT(values(x[1]), Each(5.));
  }
  for (size_t i : {0, 1}) two[i].copyto(x[i]);
  wait_all();
  listener.fails = true;
  EXPECT_THAT(message_of<DeviceError>([&] { f(in); }), HasSubstr("no room to launch"));
  EXPECT_THAT(values(x[1] * 1), Each(5.));
  EXPECT_TRUE(Late::last->broken);
  listener.fails = false;
  EXPECT_THAT(message_of<DeviceError>([&] { f(in); }),
              HasSubstr("after some devices had begun and before the others"));
  for (const CompiledCall& c : f.calls())
    if (c.op == "all_reduce_peers") {
      EXPECT_EQ(c.us, 0);  // the barrier is broken
    }
  EXPECT_THAT(values(x[1]), Each(5.));
}

}  // namespace
}  // namespace locus::test
