// Collectives that a device type provides for a group, besides copies. Internal to core, devices
// and ops/collective.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include <locus/core/base/mutex.h>
#include <locus/core/device.h>
#include <locus/core/group.h>

namespace locus {

// A barrier at which kernels of a group's devices wait for each other. Its contents depend on the
// device type.
struct PeerBarrier {
  virtual ~PeerBarrier() = default;
  // Only some devices' kernels were enqueued: no kernel may use the barrier again.
  mutable std::atomic<bool> broken{false};
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  // The barrier for kernels on these streams, one stream per device in the group's order. Without
  // streams: a barrier that is shared with no one while it is held. It takes parts of up to
  // inbox_bytes per device. Null if the devices do not reach each other's memory, or are too many.
  virtual std::shared_ptr<const PeerBarrier> barrier(std::span<const StreamView> streams,
                                                     size_t inbox_bytes) = 0;

  // Enqueues on streams[i] of device i: out[i] becomes the combination of all `in`. Views are
  // row-major, of one dtype and shape; out[i] may be in[i]. Several tensors follow each other, each
  // with one view per device. Returns false, without effect, if this is not possible. Throws
  // DeviceError.
  virtual bool all_reduce(std::span<const View> in, std::span<const View> out, ReduceOp op,
                          std::span<const StreamView> streams) = 0;
};

// Held while work that waits for peers is enqueued on all devices. The order is then the same on
// every device; else two such works could wait for each other.
Mutex& barrier_turns();
// Call around such work on s. It then runs after such work on the device's other streams; else two
// works could each fill one device, and wait for the other.
void before_barrier(StreamView s) LOCUS_REQUIRES(barrier_turns());
void after_barrier(StreamView s) LOCUS_REQUIRES(barrier_turns());

// Null if there is none. Made at first use.
Communicator* communicator(const Group& g);

using MakeCommunicator = std::unique_ptr<Communicator> (*)(const Group&);
void set_communicators(DeviceType type, MakeCommunicator make);  // while the program starts

}  // namespace locus
