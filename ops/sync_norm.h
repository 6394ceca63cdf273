// Batch normalization over the replicas of a network: batch_norm (ops/norm.h) with the mean and
// variance of all replicas' batches together. MXNet's contrib.SyncBatchNorm; nn::SyncBatchNorm is
// the layer.
//
//   const Tensors y = sync_batch_norm(x, gamma, beta, means, vars);   // x[i] on one context each
//
// If there are ranks (core/cluster.h), the batches are those of all ranks' replicas. Each rank
// makes the same calls. A rank may have one replica.
//
// Parts may differ in length along the axes of the statistics. If a part has no elements while
// training, the call throws ShapeError. Other errors are those of batch_norm and of collectives.
#pragma once

#include <cstdint>

#include <locus/core/tensor.h>
#include <locus/ops/norm.h>

namespace locus {

// One thread makes the call for all replicas of its rank. x[i], gamma[i], beta[i] and the running
// statistics i live on one context. Every result depends on every x: call backward() once for all
// losses, autograd::backward(losses). `number` identifies the call. If `number` differs between
// ranks, every rank throws Error.
Tensors sync_batch_norm(const Tensors& x, const Tensors& gamma, const Tensors& beta,
                        const Tensors& running_mean, const Tensors& running_var,
                        const BatchNormOptions& = {}, uint64_t number = 0, Caller = Caller::here());

// --- Details ---
//
// - Statistics are merged in f64 from those of each part (Chan, Golub and LeVeque). They are as
// accurate as batch_norm's.
// - The statistics take two sums of (C,) over the replicas (ops/collective.h), the gradient two
// more.
// - Results repeat bit by bit. Running statistics have the same bits on every replica.
// - The function is differentiable to any order.

}  // namespace locus
