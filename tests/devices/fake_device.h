// A device without hardware or work. A test fires its events. Streams are numbers.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include <locus/core/device.h>
#include <locus/core/error.h>

namespace locus::test {

struct FakeEvent {
  uint32_t stream;  // recorded there
  std::atomic<bool> fired{false};
};

// Counts calls of this process's fake devices.
struct FakeCalls {
  std::atomic<int> recorded{0}, live_events{0}, host_waits{0};
  std::vector<std::pair<uint32_t, uint32_t>> waits;  // waiter, stream waited for
  bool fire_at_once = false;
  void clear() {
    recorded = host_waits = 0;
    waits.clear();
    fire_at_once = false;
  }
};
inline FakeCalls fake_calls;

class FakeDevice final : public Device {
 public:
  MemoryPool& allocator() override { throw Error("not used"); }
  MemoryInfo memory() override { return {}; }
  ContextInfo info() override { return {"fake", false}; }
  DeviceType kernels() const override { return DeviceType::cpu; }
  StreamView stream(Lane) override { return {}; }
  StreamView open_stream() override { return {}; }
  void close_stream(StreamView) noexcept override {}
  void launch(Kernel, const Call&, const char*) override {}
  void copy(void*, Context, const void*, Context, size_t, StreamView) override {}
  EventView record(StreamView s) override {
    ++fake_calls.recorded, ++fake_calls.live_events;
    return {s.context, new FakeEvent{s.id, fake_calls.fire_at_once}};
  }
  void release(EventView e) noexcept override {
    --fake_calls.live_events;
    delete &event(e);
  }
  bool done(EventView e) override { return event(e).fired; }
  void wait(StreamView waiter, EventView e) override {
    fake_calls.waits.emplace_back(waiter.id, event(e).stream);
  }
  void wait_host(EventView e) override {
    ++fake_calls.host_waits;
    event(e).fired = true;
  }
  double elapsed_ms(EventView, EventView) override { return 0; }
  void synchronize(StreamView) override {}
  std::unique_ptr<RecordedWork> make_graph(Replay&, std::span<ReplayCall>) override {
    throw std::bad_alloc();
  }

 private:
  static FakeEvent& event(EventView e) { return *static_cast<FakeEvent*>(e.native); }
};

inline Context fake() {
  static const DeviceType type = register_device(
      {"fake", [] { return 1; },
       [](Context) -> std::unique_ptr<Device> { return std::make_unique<FakeDevice>(); }});
  return {type, 0};
}

}  // namespace locus::test
