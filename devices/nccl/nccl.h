// NCCL, known to devices/nccl/nccl.cc and devices/ranks/nccl_ranks.cc only. In a build without
// NCCL, these do nothing.
#pragma once

#include <memory>
#include <span>

#include <locus/core/group.h>
#include <locus/core/kernel.h>
#include <locus/core/ranks/ranks.h>

namespace locus::cuda {

// Communicator::all_reduce. A group's first call makes its connections, which takes up to seconds.
bool nccl_all_reduce(const Group& group, std::span<const View> in, std::span<const View> out,
                     ReduceOp op, std::span<const StreamView> streams);

// In nccl_ranks.cc; null in a build without NCCL. If a collective that started on this rank's GPU
// does not end within `seconds`, or NCCL reports a failure, all ranks end.
MakeRankLink nccl_links();

}  // namespace locus::cuda
