// Delayed streams, which reveal missing ordering; slow links; waits with a time limit.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include <locus/core/context.h>
#include <locus/core/device.h>
#include <locus/devices/emulated_link.h>
#ifdef LOCUS_WITH_CUDA
#include <locus/devices/cuda/device.h>
#endif

namespace locus::test {

// Polls done() for at most half a minute, so that a test fails instead of hanging.
template <class F>
bool eventually(F&& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

inline constexpr std::chrono::microseconds kDelay{20};

inline void spin() {
  const auto end = std::chrono::steady_clock::now() + kDelay;
  while (std::chrono::steady_clock::now() < end) continue;
}

// Later work on s starts kDelay later. No effect on the host's own stream.
inline void delay(StreamView s) {
  if (s.id == 0) return;
  if (context_info(s.context).emulated) {
    const Call call{nullptr, nullptr, 0, 0, nullptr, 0, s};
    device(s.context).launch([](const Call&) { spin(); }, call, "delay");
    return;
  }
#ifdef LOCUS_WITH_CUDA
  const cuda::Guard guard(s.context.index);
  LOCUS_CUDA(cudaLaunchHostFunc(
      static_cast<cudaStream_t>(s.native), [](void*) { spin(); }, nullptr));
#endif
}

// Later work on a GPU's stream starts when the gate is opened. The destructor opens it and waits
// for that work.
class Gate {
 public:
  explicit Gate(StreamView s) : stream_(s) {
    if (context_info(s.context).emulated) {
      Gate* self = this;
      const Call call{nullptr, nullptr, 0, 0, &self, sizeof self, s};
      device(s.context).launch([](const Call& c) { c.attributes<Gate*>()->pass(); }, call, "gate");
      return;
    }
#ifdef LOCUS_WITH_CUDA
    const cuda::Guard guard(s.context.index);
    LOCUS_CUDA(cudaLaunchHostFunc(
        static_cast<cudaStream_t>(s.native), [](void* gate) { static_cast<Gate*>(gate)->pass(); },
        this));
#endif
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() {
    open();
    device(stream_.context).synchronize(stream_);
  }
  void open() { open_ = true; }

 private:
  void pass() {
    eventually([this] { return open_.load(); });
  }

  StreamView stream_;
  std::atomic<bool> open_{false};
};

// With kSlow a megabyte takes a little over 50 ms.
inline constexpr int64_t kMegabyte = 250000;  // floats
inline constexpr emulated::LinkModel kSlow{
    .h2d = 0.02, .d2h = 0.02, .peer = 0.02, .latency_us = 100};

// Sets the link model of emulated GPUs for a scope. Waits first, because the model may change only
// while devices are idle.
class LinkModelScope {
 public:
  explicit LinkModelScope(const std::optional<emulated::LinkModel>& model)
      : before_(emulated::link_model()) {
    wait_all();
    emulated::set_link_model(model);
  }
  LinkModelScope(const LinkModelScope&) = delete;
  LinkModelScope& operator=(const LinkModelScope&) = delete;
  ~LinkModelScope() {
    wait_all();
    emulated::set_link_model(before_);
  }

 private:
  std::optional<emulated::LinkModel> before_;
};

}  // namespace locus::test
