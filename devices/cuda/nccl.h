// NCCL, known to devices/cuda/nccl.cc and devices/ranks/nccl_ranks.cc only. A build without it does
// nothing here.
#pragma once

#include <memory>
#include <span>

#include <locus/core/group.h>
#include <locus/core/kernel.h>
#include <locus/core/ranks/ranks.h>

namespace locus::cuda {

// Communicator::all_reduce. The group's connections are made at its first call, which takes up to
// seconds.
bool nccl_all_reduce(const Group& group, std::span<const View> in, std::span<const View> out,
                     ReduceOp op, std::span<const StreamView> streams);

// MakeRankLink, in nccl_ranks.cc; null in a build without NCCL. A collective that started on
// this rank's GPU and does not end within `seconds`, or that NCCL reports as failed, ends all
// ranks.
MakeRankLink nccl_links();

}  // namespace locus::cuda
