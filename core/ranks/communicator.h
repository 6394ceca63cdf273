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

// Where kernels of devices that reach each other's memory meet: words on each device that all of
// them write. A kernel's block b leaves words of block b; kernels of one Meeting come one after the
// other, in the same order on each device.
struct Meeting {
  static constexpr int kMostDevices = 8, kMostBlocks = 128;
  // Of device i: a word for each block and device, then the turns that each block took.
  unsigned* words[kMostDevices] = {};
  static constexpr int kWords = kMostBlocks * (kMostDevices + 1);
  // Of device i, or null: where the other devices put parts of few bytes. inbox_bytes of each
  // device, for turns with an even number, then as many for odd ones: nobody writes what another
  // still reads.
  std::byte* inbox[kMostDevices] = {};
  size_t inbox_bytes = 0;
  static constexpr size_t kMostInbox = size_t{1} << 20;
  // Some devices took a turn that others did not: no kernel may use it again.
  mutable std::atomic<bool> broken{false};
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  // That of kernels on these streams, one a device in the group's order; for none, one that nobody
  // else has while it is held. With inboxes of at least so many bytes, kMostInbox at most. Null
  // where devices do not reach each other's memory.
  virtual std::shared_ptr<const Meeting> meeting(std::span<const StreamView> streams,
                                                 size_t inbox_bytes) = 0;

  // Enqueues, on streams[i] of device i, that out[i] becomes all of in combined: row-major views of
  // one dtype and shape, where out[i] may be in[i]. Several tensors one after the other, device by
  // device in each. False, and nothing is done, where there is no such way. Throws DeviceError.
  virtual bool all_reduce(std::span<const View> in, std::span<const View> out, ReduceOp op,
                          std::span<const StreamView> streams) = 0;
};

// Held while work that waits for its like on other devices is enqueued on all of them: in one order
// everywhere, else two such works could wait for each other.
Mutex& meeting_turns();
// Around such work on s: behind that on the device's other streams, else two could each fill
// another device and leave no room for the other.
void before_meeting(StreamView s) LOCUS_REQUIRES(meeting_turns());
void after_meeting(StreamView s) LOCUS_REQUIRES(meeting_turns());

// Null where there is none. Made at first use.
Communicator* communicator(const Group& g);

using MakeCommunicator = std::unique_ptr<Communicator> (*)(const Group&);
void set_communicators(DeviceType type, MakeCommunicator make);  // while the program starts

}  // namespace locus
