// Batch normalisation over the replicas of a network: batch_norm (ops/norm.h) with the mean and the
// variance of all replicas' batches together, as if they were one batch. MXNet's
// contrib.SyncBatchNorm; nn::SyncBatchNorm is the layer.
//
// If there are ranks (core/cluster.h), the batches are those of all ranks' replicas. Each rank
// makes the same calls; a rank may have one replica.
//
// Parts may differ in length along the axes that statistics are taken over. Statistics are merged
// from those of each part by the formula of Chan, Golub and LeVeque, in f64. They are as accurate
// as batch_norm's. They take two sums of (C,) over the replicas (ops/collective.h), and the
// gradient two more. Results are the same bits each time. Running statistics are the same bits on
// every replica. Differentiable to any order.
//
// Errors are those of batch_norm and of collectives. While training, a part without elements is a
// ShapeError.
#pragma once

#include <cstdint>

#include <locus/core/tensor.h>
#include <locus/ops/norm.h>

namespace locus {

// Of all replicas, by one thread: x[i], gamma[i] and the others live on one context each. Results
// depend on every x: call backward() once for all, autograd::backward(losses). Ranks compare
// `number`, which tells calls apart: another number is an Error on every rank.
Tensors sync_batch_norm(const Tensors& x, const Tensors& gamma, const Tensors& beta,
                        const Tensors& running_mean, const Tensors& running_var,
                        const BatchNormOptions& = {}, uint64_t number = 0, Caller = Caller::here());

}  // namespace locus
