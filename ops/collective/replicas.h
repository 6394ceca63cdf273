// Sums over a network's replicas, on one rank or on all ranks (core/cluster.h). One thread
// calls them for all replicas of its rank. Internal to ops.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <locus/core/group.h>
#include <locus/core/tensor.h>

namespace locus {

// Ranks compare these before a sum. If they differ, every rank throws Error.
struct ReplicaSum {
  const char* what;  // "SyncBatchNorm"
  uint64_t number;   // distinguishes sums of one name
  bool gradient = false;
};

// The replicas' weights, each divided by the sum of all. `weigh` checks the replicas' inputs and
// returns their weights. If it throws, every rank throws.
std::vector<double> shares(const std::function<std::vector<double>()>& weigh,
                           const ReplicaSum& sum);
// The sum of all parts, on every context. parts[i] is on group[i].
Tensors sum_over_replicas(const Group& group, const Tensors& parts, const ReplicaSum& sum);

}  // namespace locus
