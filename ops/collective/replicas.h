// Means over replicas whose parts weigh differently, such as of batches of different lengths; where
// there are ranks (core/cluster.h), over those of all ranks. Internal to ops.
#pragma once

#include <span>

#include <locus/core/group.h>
#include <locus/core/rendezvous.h>
#include <locus/core/tensor.h>

namespace locus {

// parts[i] on group[i], times weights[i] / the sum of weights, added up, on every context.
Tensors mean_of_replicas(const Group& group, Tensors parts, std::span<const double> weights);

// The same where each thread of a parallel() has its own part and weight, and gets its own result.
// The gradient's threads meet, too: backward() is called inside of a parallel() over the same
// contexts. Error on another thread, and for another number of them.
Tensor mean_of_replicas(const Tensor& part, double weight, const Rendezvous::Place& place);

}  // namespace locus
