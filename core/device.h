// The interface between the framework and hardware: memory, order, launches and copies.
//
// To add a device, implement Device and register a factory. Every op with kernels for the type that
// kernels() returns runs on the device. Complete example: tests/core/plugin_test.cc. The framework
// owns devices and never destroys them. Threads: any thread may call any method at any time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/context.h>
#include <locus/core/kernel.h>

namespace locus {

// A point in a stream's work, from Device::record. The caller owns the event and passes it once to
// device(context).release().
struct EventView {
  Context context;
  void* native = nullptr;
  bool timed = false;
};

// Allocates memory in stream order. When allocate returns, work on `stream` may use the block.
// After deallocate, `stream` may get the block again at once. Another stream gets the block only
// after waiting for the work queued on `stream`.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // At least `bytes` bytes, aligned to 256 (64 on the host). Throws OutOfMemory. bytes may be 0.
  virtual void* allocate(size_t bytes, StreamView stream) = 0;
  virtual void deallocate(void* p, size_t bytes, StreamView stream) noexcept = 0;
  // For a block that other streams still use. No stream gets the block before all `pending` events
  // have fired. Takes ownership of the events.
  virtual void deallocate_after(void* p, size_t bytes, StreamView stream,
                                std::span<const EventView> pending) noexcept = 0;
};

struct MemoryStats {
  size_t in_use = 0;    // bytes of live blocks, and of pending ones (see Details)
  size_t reserved = 0;  // bytes taken from the driver, cached blocks included
  size_t peak = 0;      // the largest in_use so far
  size_t limit = 0;     // 0: none
  uint64_t allocations = 0, driver_allocations = 0;
};

// An allocator that caches freed blocks. memory_pool(context) returns a context's pool.
class MemoryPool : public Allocator {
 public:
  virtual MemoryStats stats() const = 0;
  virtual void set_limit(size_t bytes) = 0;  // on reserved bytes; 0: none
  virtual void release_cached() = 0;         // returns wholly free segments to the driver
};

// Calls replayed as one. Destroyed only after all replays are done.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void replay(StreamView s) = 0;  // enqueues all calls
};
class Replay;
struct ReplayCall;    // replay.h
class KernelProgram;  // program.h
struct ProgramSource;

// A context's own streams. Ops run on compute, many copies on the other lanes (see Details).
enum class Lane : uint8_t { compute, to_device, to_host, peer };
inline constexpr int kNumLanes = 4;
const char* name(Lane lane);

class Device {
 public:
  virtual ~Device() = default;

  virtual MemoryPool& allocator() = 0;
  virtual MemoryInfo memory() = 0;  // of the whole device, other programs included
  virtual ContextInfo info() = 0;
  // The device type whose kernels this device runs: cpu for emulated GPUs.
  virtual DeviceType kernels() const = 0;

  // The context's own stream for a lane. Lanes are independent of each other. A host device has no
  // streams and returns StreamView{context, 0, nullptr}.
  virtual StreamView stream(Lane lane) = 0;
  virtual StreamView open_stream() = 0;
  virtual void close_stream(StreamView s) noexcept = 0;  // blocks until its work is done

  // Runs or enqueues `kernel` on call.stream. `name` is for asynchronous errors: "take", or with
  // callers "CTCLoss: label: take" (named_calls.h). `name` lives as long as the program. Throws
  // errors that the host sees at once.
  virtual void launch(Kernel kernel, const Call& call, const char* name) = 0;
  // Enqueues a copy of bytes on s. This device is the target's or, for a copy to the host, the
  // source's. When copy returns, a source in pageable host memory may be overwritten, and a target
  // there is filled.
  virtual void copy(void* dst, Context to, const void* src, Context from, size_t bytes,
                    StreamView s) = 0;

  // An event that fires when the work enqueued on s so far is done.
  virtual EventView record(StreamView s) = 0;
  // An event with a time, for elapsed_ms. The default is for devices whose record() adds times.
  virtual EventView record_time(StreamView s) { return record(s); }
  virtual void release(EventView e) noexcept = 0;  // streams still wait for e
  virtual bool done(EventView e) = 0;
  // Later work on `waiter` runs after e; the host does not block. If this device cannot wait for
  // e's device type, the host blocks instead: device(e.context).wait_host(e).
  virtual void wait(StreamView waiter, EventView e) = 0;
  virtual void wait_host(EventView e) = 0;                      // the host blocks
  virtual double elapsed_ms(EventView from, EventView to) = 0;  // of record_time(), both fired
  // Blocks the host until s is empty. If s.id == 0: until all streams of the device are empty. If
  // work on any stream failed, throws the first error, with its type and the op's name, and forgets
  // all errors.
  virtual void synchronize(StreamView s) = 0;

  // Optional: makes one graph of calls of a replay (replay.h). Runs each call once by replay.run()
  // on a recording stream, in an order that obeys ReplayCall::after. CaptureError if the device
  // refuses the calls. Null, the default: the replay launches the calls one by one.
  virtual std::unique_ptr<RecordedWork> make_graph(Replay&, std::span<ReplayCall>) {
    return nullptr;
  }

  // Optional: for compile_program() (program.h). UnsupportedOnContext, as here: no compiler.
  virtual std::unique_ptr<KernelProgram> build(const ProgramSource& source);
};

// Counts the machine's devices of one type, at most kMaxDevices, and opens a device. `open` is
// called at a context's first use. If it throws, it is called again at the next use.
struct DeviceFactory {
  std::string name;  // as Context prints it
  int (*count)();
  std::unique_ptr<Device> (*open)(Context);
  // What the user should do if there is no such device: the end of DeviceError's text.
  const char* advice = "";
};
// Throws Error if the type or the name is taken, or the type is invalid.
void register_device(DeviceType type, const DeviceFactory& factory);
// Registers under the next free type and returns it. ValueError without name, count or open.
DeviceType register_device(const DeviceFactory& factory);
bool device_registered(DeviceType type);

// The device of a context. DeviceError if there is none; the text gives the number of devices and
// the factory's advice. A Context itself may name any index. Fast after the first call.
Device& device(Context c);
MemoryPool& memory_pool(Context c);
std::vector<Context> opened_devices();
// Blocks until all streams of all opened devices are empty. Then throws the first error, in order
// of contexts. The text adds the other devices' errors.
void wait_all(Caller from = Caller::here());

// An id for a new stream: unique in the process, 1 or more.
uint32_t new_stream_id();

// --- Details ---

// Memory pools:
//   - A block given to deallocate_after is pending until the pool sees that its events have fired.
//     The pool looks in some allocations and in release_cached.
//   - If the limit or the driver refuses more memory, the pool takes free blocks of other streams,
//     then releases cached segments, then waits for pending blocks. If this is not enough, allocate
//     throws OutOfMemory. The program can go on.

// Streams of copies:
//   - A copy to a new tensor on a device runs on the target's to_device if the source is on the
//     host, else on the target's peer.
//   - A non-blocking copy to the host runs on the source's to_host.
//   - In a StreamScope of the lane's context, these copies run on the scope's stream.
//   - Replays of copies between devices always run on the target's peer.

// Wrong streams:
//   - open_stream() may return a closed stream again.
//   - launch() and copy() on a closed stream throw DeviceError. On a closed stream, record() gives
//     an event that has fired, and synchronize() does not block.
//   - launch() and copy() on a stream of another device throw Error or a subclass. Other methods
//     need not check the stream. Host devices ignore the stream.

}  // namespace locus
