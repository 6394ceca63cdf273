// The seam between the framework and hardware: memory, order, launches and copies.
//
// Implement Device, register a factory, and every op with kernels for your device type (or for the
// type kernels() names) runs on it; tests/core/plugin_test.cc is a complete small example. Devices
// live until the process ends and are never destroyed, so nothing races with static destructors.
// Threads: every method may be called from any thread at any time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/context.h>
#include <locus/core/kernel.h>

namespace locus {

// A point in a stream's work, from Device::record. Owned by whoever asked for it, who passes it to
// the release() of its context's device, once.
struct EventView {
  Context context;
  void* native = nullptr;
  bool timed = false;
};

// Memory in stream order: a block may be used on its stream as soon as allocate returns, and is
// free for reuse on that stream as soon as deallocate is called.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // At least `bytes` bytes aligned to 256 (64 on the host). Throws OutOfMemory. bytes may be 0.
  virtual void* allocate(size_t bytes, StreamView stream) = 0;
  virtual void deallocate(void* p, size_t bytes, StreamView stream) noexcept = 0;
  // The same, for a block that other streams still use: it is reused only after all of `pending`.
  // Takes ownership of the events.
  virtual void deallocate_after(void* p, size_t bytes, StreamView stream,
                                std::span<const EventView> pending) noexcept = 0;
};

struct MemoryStats {
  size_t in_use = 0;    // bytes of live blocks, and of freed ones not yet found idle
  size_t reserved = 0;  // bytes taken from the driver, cached blocks included
  size_t peak = 0;      // the largest in_use so far
  size_t limit = 0;     // 0: none
  uint64_t allocations = 0, driver_allocations = 0;
};

// An allocator that keeps freed blocks. memory_pool(context) finds a context's.
class MemoryPool : public Allocator {
 public:
  virtual MemoryStats stats() const = 0;
  virtual void set_limit(size_t bytes) = 0;  // on reserved bytes; 0: none
  virtual void release_cached() = 0;         // give free blocks back to the driver
};

// Several calls as one. Nothing of it runs when it is destroyed.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void replay(StreamView s) = 0;  // enqueues all of it
};
class Replay;
struct ReplayCall;  // replay.h

// A context's own streams. Ops run on compute. Copies that make a new tensor run beside it: from
// the host on the target's to_device, from another device on the target's peer, non-blocking ones
// to the host on the source's to_host. A StreamScope goes before all of them.
enum class Lane : uint8_t { compute, to_device, to_host, peer };
inline constexpr int kNumLanes = 4;
const char* name(Lane lane);

class Device {
 public:
  virtual ~Device() = default;

  virtual MemoryPool& allocator() = 0;
  virtual MemoryInfo memory() = 0;  // of the whole device, other programs included
  virtual ContextInfo info() = 0;
  // The column of the op registry this device runs: emulated GPUs run the CPU's kernels.
  virtual DeviceType kernels() const = 0;

  // The context's own streams, one a lane, all independent of each other. A host device has none:
  // it returns StreamView{context, 0, nullptr} for all.
  virtual StreamView stream(Lane lane) = 0;
  virtual StreamView open_stream() = 0;
  virtual void close_stream(StreamView s) noexcept = 0;  // blocks until its work is done

  // Runs or enqueues `kernel` on call.stream. `name` is the op's name, or who called the op and
  // then the op's name (named_calls.h). It is for errors that surface later, and lives as long as
  // the program. What the host notices at once is thrown here, DeviceError for a stream of another
  // device or a closed one.
  virtual void launch(Kernel kernel, const Call& call, const char* name) = 0;
  // Enqueues a copy of bytes on `s`, a stream of this device; one end is on this device: the
  // target, unless that is the host. A host end in pageable memory is complete (reusable, filled)
  // when copy returns.
  virtual void copy(void* dst, Context to, const void* src, Context from, size_t bytes,
                    StreamView s) = 0;

  // An event that fires when s gets here; on a closed stream it has fired.
  virtual EventView record(StreamView s) = 0;
  // The same with the time, for elapsed_ms. Where a time costs nothing, record() gives it too.
  virtual EventView record_time(StreamView s) { return record(s); }
  virtual void release(EventView e) noexcept = 0;
  virtual bool done(EventView e) = 0;
  // What is enqueued on `waiter` from now on runs after e; the host goes on. The event of a device
  // of another kind, which this one cannot wait for, is waited for by the host:
  // device(e.context).wait_host(e).
  virtual void wait(StreamView waiter, EventView e) = 0;
  virtual void wait_host(EventView e) = 0;                      // the host blocks
  virtual double elapsed_ms(EventView from, EventView to) = 0;  // of record_time(), both fired
  // The host blocks until s is empty; with s.id == 0, until every stream of the device is.
  // Asynchronous errors surface here, once, naming the op.
  virtual void synchronize(StreamView s) = 0;

  // For what is replayed (replay.h), and optional: the calls of a replay, each run once by
  // replay.run() on a stream that records, in an order that obeys ReplayCall::after. CaptureError
  // when the device refuses them. Null, as here: a replay launches one after the other.
  virtual std::unique_ptr<RecordedWork> make_graph(Replay&, std::span<ReplayCall>) {
    return nullptr;
  }
};

// How many devices of this type the machine has, at most kMaxDevices, and how to open one. `open`
// is called once a context, at first use.
struct DeviceFactory {
  std::string name;  // as Context prints it
  int (*count)();
  std::unique_ptr<Device> (*open)(Context);
  // What to do when there is no such device: the end of DeviceError's text.
  const char* advice = "";
};
// Throws Error when the type or the name is taken.
void register_device(DeviceType type, const DeviceFactory& factory);
// Hands out the next free type.
DeviceType register_device(const DeviceFactory& factory);
bool device_registered(DeviceType type);

// The device of a context. Throws DeviceError naming how many there are. Fast after the first call.
Device& device(Context c);
MemoryPool& memory_pool(Context c);
std::vector<Context> opened_devices();
// Blocks until every stream of every opened device is empty; then throws the first error found.
void wait_all(Caller from = Caller::here());

// A number for a new stream, unique in the process; from 1 on.
uint32_t new_stream_id();

}  // namespace locus
