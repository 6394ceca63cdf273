// Where kernels of GPUs that reach each other's memory wait for one another, and leave small parts.
#pragma once

#include <cstddef>

#include <locus/core/ranks/communicator.h>

namespace locus {

// Words on each device that all of them write. A kernel's block b leaves words of block b; kernels
// of one barrier come one after the other, in the same order on each device.
struct PeerWords : PeerBarrier {
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
};

}  // namespace locus
