// Sums over a group, and copies within it, by one kernel per device that reads the other devices'
// memory.
#pragma once

#include <span>
#include <vector>

#include <locus/core/tensor.h>
#include <locus/devices/cuda/peer_words.h>
#include <locus/ops/collective.h>
#include <locus/ops/collective/exchange.h>

namespace locus {

// A call's operands are each tensor's parts, in the group's order, then its results in this order.
// If `pushed`, only device `me`'s. Its results are device `me`'s.
// An exchange's operands are the parts of device `me`'s results, these results, and its tensors
// that others read.
struct PeersAttrs {
  const PeerWords* words = nullptr;  // of the barrier, which owns the attributes
  int me = 0, devices = 0;
  bool mean = false;
  bool pushed = false;  // parts go into the barrier's inboxes
  bool beside = false;  // other kernels run meanwhile
  // Exchange: parts of a result; most results and chunks of any device.
  int parts = 0, results = 0, chunks = 0;
};

// Bytes of a block's chunk, and of a block's slot in an inbox.
inline constexpr size_t kPeersChunk = 8192;

// The kernel is the fastest way up to this many bytes of all tensors (measured on two H200s).
inline constexpr size_t kMostPeerBytes = size_t{64} << 20;

// Enqueues an all-reduce by that kernel or, for more bytes, by the group's library. tensors[k *
// g.size() + i] is tensor k's part on g[i]. `out` has this layout and may be `tensors`. Row-major,
// one dtype. Returns false, with nothing done, if the devices have no such way.
bool all_reduce_on_devices(const Group& g, std::span<const Tensor> tensors,
                           std::span<const Tensor> out, const AllReduceManyOptions& options,
                           Caller from);

// The same for an exchange (exchange.h): sums of one dtype, or copies. Results and parts are
// row-major. `beside`: other kernels run meanwhile.
bool exchange_on_devices(const Group& g, std::span<const Piece> pieces, ReduceOp op, bool beside,
                         Caller from);

}  // namespace locus
