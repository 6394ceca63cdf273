// What a kind of device offers a group for collectives, beside copies from one to another. Internal
// to core, devices and ops/collective.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include <locus/core/base/mutex.h>
#include <locus/core/device.h>
#include <locus/core/group.h>

namespace locus {

// Where kernels of a group's devices wait for one another. What lies there is known to the kind of
// device that made it.
struct PeerBarrier {
  virtual ~PeerBarrier() = default;
  // Some devices took a turn that others did not: no kernel may use it again.
  mutable std::atomic<bool> broken{false};
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  // The barrier for kernels on these streams, one stream per device in the group's order. Without
  // streams: a barrier that is shared with no one while it is held. It takes parts of up to
  // inbox_bytes per device. Null where the devices do not reach each other's memory.
  virtual std::shared_ptr<const PeerBarrier> barrier(std::span<const StreamView> streams,
                                                     size_t inbox_bytes) = 0;

  // Enqueues, on streams[i] of device i, that out[i] becomes all of in combined: row-major views of
  // one dtype and shape, where out[i] may be in[i]. Several tensors one after the other, device by
  // device in each. False, and nothing is done, where there is no such way. Throws DeviceError.
  virtual bool all_reduce(std::span<const View> in, std::span<const View> out, ReduceOp op,
                          std::span<const StreamView> streams) = 0;
};

// Held while work that waits for its like on other devices is enqueued on all of them: in one order
// everywhere, else two such works could wait for each other.
Mutex& barrier_turns();
// Around such work on s: behind that on the device's other streams, else two could each fill
// another device and leave no room for the other.
void before_barrier(StreamView s) LOCUS_REQUIRES(barrier_turns());
void after_barrier(StreamView s) LOCUS_REQUIRES(barrier_turns());

// Null where there is none. Made at first use.
Communicator* communicator(const Group& g);

using MakeCommunicator = std::unique_ptr<Communicator> (*)(const Group&);
void set_communicators(DeviceType type, MakeCommunicator make);  // while the program starts

}  // namespace locus
