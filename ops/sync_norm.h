// Batch normalisation over the replicas of a network: batch_norm (ops/norm.h) whose mean and
// variance are those of all replicas' batches together, as if they were one; where there are ranks
// (core/cluster.h), each of which makes the same calls, of all ranks' replicas, and one replica a
// rank will do. MXNet's contrib.SyncBatchNorm; nn::SyncBatchNorm is it as a layer.
//
// Parts may differ in length along the axes that statistics are taken over. Statistics are merged
// by Chan, Golub and LeVeque's formula from those of each part, in f64, so they are as accurate as
// batch_norm's, with two sums of (C,) over the replicas (ops/collective.h) and two more for the
// gradient. The same bits each time; running statistics have the same bits on every replica.
// Differentiable to any order.
//
// Errors are those of batch_norm and of collectives; while training a part without elements is a
// ShapeError.
#pragma once

#include <locus/core/rendezvous.h>
#include <locus/core/tensor.h>
#include <locus/ops/norm.h>

namespace locus {

// Of all replicas, by one thread: x[i], gamma[i] and the others live on one context each. Results
// depend on every x: backward() is called once for all, autograd::backward(losses). Ranks that come
// to another `place` than others are an Error on all.
Tensors sync_batch_norm(const Tensors& x, const Tensors& gamma, const Tensors& beta,
                        const Tensors& running_mean, const Tensors& running_var,
                        const BatchNormOptions& = {},
                        const Rendezvous::Place& place = {"sync_batch_norm", 0});

// Of one replica, by its thread of a parallel() over all of them (core/parallel.h), where the
// threads meet, again in backward(), which each calls for its own loss, there or in another
// parallel(). `place`: the same for all. Error outside of parallel(), and on every thread when one
// ends without coming, or comes to another place; CaptureError while a compiled function is
// recorded.
Tensor sync_batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                       const Tensor& running_mean, const Tensor& running_var,
                       const BatchNormOptions&, const Rendezvous::Place& place);

// Instead of it, where a thread finds something wrong before: from a catch clause, whose exception
// all threads that come to `place` throw.
[[noreturn]] void sync_batch_norm_failed(const Rendezvous::Place& place);

}  // namespace locus
