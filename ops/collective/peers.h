// Sums over a group, and copies within it, by a kernel of ours that reads the other devices'
// memory, one a device.
#pragma once

#include <span>
#include <vector>

#include <locus/core/tensor.h>
#include <locus/devices/cuda/peer_words.h>
#include <locus/ops/collective.h>
#include <locus/ops/collective/exchange.h>

namespace locus {

// A call's operands are the parts of each tensor in turn, in the group's order, then its results
// likewise; where they are `pushed`, those of device `me` alone. Its results are device `me`'s.
// Of an exchange the operands are the parts of what device `me` makes, then these results, then
// what it has that others read.
struct PeersAttrs {
  const PeerWords* words = nullptr;  // of the barrier, which owns the attributes
  int me = 0, devices = 0;
  bool mean = false;
  bool pushed = false;  // parts go into the barrier's inboxes
  bool beside = false;  // other kernels are to run meanwhile
  // Of an exchange: parts of a result; results and chunks of the device that has most.
  int parts = 0, results = 0, chunks = 0;
};

// Bytes of which a block of the kernel has one at a time, and one in an inbox.
inline constexpr size_t kPeersChunk = 8192;

// Bytes of all tensors up to which that is the fastest way: on two H200s, by their times.
inline constexpr size_t kMostPeerBytes = size_t{64} << 20;

// By the devices' own ways: that one, or for more bytes the group's library. tensors[k * g.size() +
// i] is the part of tensor k on g[i], as out's; out may be tensors. Row-major, of one dtype.
// Enqueues and returns true; false, and nothing is done, where there is no such way.
bool all_reduce_on_devices(const Group& g, std::span<const Tensor> tensors,
                           std::span<const Tensor> out, const AllReduceManyOptions& options,
                           Caller from);

// Likewise all results of an exchange (exchange.h), which are row-major and so are their parts:
// sums of one dtype, or copies. `beside`: other work of the devices is to go on meanwhile.
bool exchange_on_devices(const Group& g, std::span<const Piece> pieces, ReduceOp op, bool beside,
                         Caller from);

}  // namespace locus
