// Memory in which kernels of GPUs with peer access wait for each other and exchange small parts.
#pragma once

#include <cstddef>

#include <locus/core/ranks/communicator.h>

namespace locus {

// Words on each device that all devices write. Block b of a kernel uses the words of block b.
// Kernels of one barrier run one after another, in the same order on each device.
struct PeerWords : PeerBarrier {
  static constexpr int kMostDevices = 8, kMostBlocks = 128;
  // On device i: a word per block and device, then each block's number of turns.
  unsigned* words[kMostDevices] = {};
  static constexpr int kWords = kMostBlocks * (kMostDevices + 1);
  // On device i, or null: where the other devices write small parts. inbox_bytes per device for
  // even turns, then as many for odd turns, so no device overwrites what another still reads.
  std::byte* inbox[kMostDevices] = {};
  size_t inbox_bytes = 0;
  static constexpr size_t kMostInbox = size_t{1} << 20;
};

}  // namespace locus
