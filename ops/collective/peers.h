// Sums over a group by a kernel of ours that reads the other devices' memory, one a device.
#pragma once

#include <span>
#include <vector>

#include <locus/core/communicator.h>
#include <locus/core/tensor.h>

namespace locus {

// A call's operands are those of each tensor in turn: its parts in the group's order. Its results
// are the tensors of device `me`.
struct PeersAttrs {
  const Meeting* meeting = nullptr;
  int me = 0, devices = 0;
  bool mean = false;
  bool in_place = false;  // some result is a part: on all devices alike
};

// Bytes of all tensors up to which that is the fastest way: on two H200s, by their times; of more
// devices each reads more and NCCL's ring less.
inline size_t most_peer_bytes(int devices) {
  const auto others = static_cast<size_t>(devices - 1);
  return (size_t{64} << 20) / (others * others);
}

// By the devices' own ways: that one, or for more bytes the group's library. tensors[k * g.size() +
// i] is the part of tensor k on g[i], as out's; out may be tensors. Row-major, of one dtype.
// Enqueues and returns true; false, and nothing is done, where there is no such way.
bool all_reduce_on_devices(const Group& g, std::span<const Tensor> tensors,
                           std::span<const Tensor> out, ReduceOp op, Caller from);

}  // namespace locus
