// Sums over all replicas of a network, where there are ranks (core/cluster.h) over those of all
// ranks; and what each of them weighs among them, as batches of different lengths do. Internal to
// ops.
#pragma once

#include <functional>
#include <vector>

#include <locus/core/group.h>
#include <locus/core/rendezvous.h>
#include <locus/core/tensor.h>

namespace locus {

// By one thread for the replicas on a group: each weight by the sum of all; and parts[i], which is
// on group[i], added up, on every context. `weigh` checks what the replicas bring, and gives their
// weights: what it throws, before anyone is met, is thrown on all ranks.
// `place`: what ranks that meet must be the same in.
std::vector<double> shares(const std::function<std::vector<double>()>& weigh,
                           const Rendezvous::Place& place);
Tensors sum_over_replicas(const Group& group, const Tensors& parts, const Rendezvous::Place& place);

// The same where each thread of a parallel() has its own weight and part, and gets its own result.
// The gradient's threads meet, too: backward() is called inside of a parallel() over the same
// contexts. Error on another thread, and for another number of them. What `weigh` throws is thrown
// on all threads, of all ranks.
double share(const std::function<double()>& weigh, const Rendezvous::Place& place);
Tensor sum_over_replicas(const Tensor& part, const Rendezvous::Place& place);

}  // namespace locus
