// Normalisation: (x - mean) / sqrt(var + epsilon) * gamma + beta, with the mean and the biased
// variance of different elements in each function. One axis of x is that of the channels, C long;
// gamma and beta are (C,).
//
// x: f32, f64, f16, bf16; others are cast to f64. The result has x's shape and dtype. gamma, beta
// and running statistics are f32, for f64 x f64; others are cast. Statistics are accurate however
// far the mean is from 0: they are those of the distances from an element (Chan, Golub and
// LeVeque), and the mean is kept in f64. The variance is f64, too: it holds the squares of all f32
// and 16-bit x. f64 x are normalised right where their distances from the mean are below 1e154.
// Where an element is NaN or infinite all that share its statistics are NaN (of rms_norm, beside an
// infinite one, 0). Results repeat bit by bit, for any number of threads.
//
// Differentiable to any order with respect to x, gamma and beta. The plain backward pass is one op
// of two or three launches; with create_graph it is composed of others, in f64.
//
// Errors: ShapeError for an axis x has not, or for gamma and beta that are not (C,); ValueError for
// an epsilon that is negative or not finite.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

struct BatchNormOptions {
  int axis = 1;  // of the channels; -1 for channels last
  double momentum = .9;
  double epsilon = 1e-5;  // Gluon's; MXNet's operator has 1e-3
  bool use_global_stats = false;
};
// Statistics of each channel, over all other axes (Ioffe and Szegedy, 2015). While training
// (autograd::is_training()) they are those of x, and
//   running = momentum running + (1 - momentum) statistic
// is written into running_mean and running_var, outside of the graph. Otherwise, or with
// use_global_stats, they are running_mean and running_var.
//
// As in MXNet the running variance is biased, too (PyTorch: unbiased, and its momentum is
// 1 - momentum), and gamma is used (MXNet's operator takes it as 1 unless fix_gamma = False);
// unlike there, where backward() does, it is the forward pass that writes them. One value a channel
// has variance 0: the result is beta (PyTorch: an error). An empty x leaves the running statistics
// as they are. running_mean and running_var: both f32 or both f64, (C,), else DTypeError or
// ShapeError; momentum in [0, 1], else ValueError; while training, which alone uses momentum and
// writes them: recorded ones, results or with a gradient, are then the Error of all that is written
// in place.
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& = {}, Caller = Caller::here());

struct LayerNormOptions {
  int axis = -1;
  double epsilon = 1e-5;
};
// Statistics along one axis, that of the channels (Ba, Kiros and Hinton, 2016). The last axis is
// the fast one: for another x is copied.
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const LayerNormOptions& = {}, Caller = Caller::here());
// x / sqrt(mean(x^2) + epsilon) * gamma (Zhang and Sennrich, 2019). PyTorch's default epsilon is
// that of the dtype.
Tensor rms_norm(const Tensor& x, const Tensor& gamma, const LayerNormOptions& = {},
                Caller = Caller::here());

struct GroupNormOptions {
  int num_groups = 1;  // divides C
  double epsilon = 1e-5;
};
// (N, C, ...): statistics of each sample's groups of C / num_groups channels (Wu and He, 2018).
// gamma and beta are of each channel, as in Gluon 2 and PyTorch (MXNet 1: of each group). A
// num_groups that does not divide C is a ShapeError.
Tensor group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const GroupNormOptions& = {}, Caller = Caller::here());

struct InstanceNormOptions {
  int axis = 1;           // of the channels; not 0, which is the batch
  double epsilon = 1e-5;  // Gluon's; MXNet's operator has 1e-3
};
// (N, C, ...): statistics of each sample's channels (Ulyanov, Vedaldi and Lempitsky, 2016).
Tensor instance_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                     const InstanceNormOptions& = {}, Caller = Caller::here());

}  // namespace locus
