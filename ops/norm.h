// Normalization: (x - mean) / sqrt(var + epsilon) * gamma + beta, with the biased variance. The
// functions differ in the elements that share one mean and variance.
//
//   const Tensor y = layer_norm(x, gamma, beta);      // x (N, C); gamma, beta (C,)
//
// One axis of x holds the C channels; gamma and beta are (C,). x is f32, f64, f16 or bf16; other
// dtypes are cast to f64. The result has x's shape and floating dtype. gamma and beta are f64 for
// f64 x, else f32; other dtypes are cast.
//
// Normalizations are differentiable to any order in x, gamma and beta. If x lacks the axis or gamma
// or beta is not (C,), they throw ShapeError. If epsilon is negative or not finite, they throw
// ValueError.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

struct BatchNormOptions {
  int axis = 1;  // the axis of the channels; -1: channels last
  double momentum = .9;
  double epsilon = 1e-5;  // Gluon's; MXNet's operator has 1e-3
  bool use_global_stats = false;
};
// Normalizes each channel over all other axes (Ioffe and Szegedy, 2015). While training
// (autograd::is_training()), the statistics are those of x, and the forward pass writes
//   running = momentum running + (1 - momentum) statistic
// into running_mean and running_var, outside the graph. Otherwise, or with use_global_stats, the
// statistics are running_mean and running_var.
//
// If running_mean or running_var is not (C,), batch_norm throws ShapeError. While training:
// - running_mean and running_var are both f32 or both f64, else DTypeError. In inference, other
//   dtypes are cast.
// - momentum is in [0, 1], else ValueError.
// - If the call is recorded and a running statistic is a recorded result or has a gradient,
//   batch_norm throws Error.
// - If a channel has one value, its variance is 0 and its result is beta (PyTorch: an error).
// - If x is empty, the running statistics do not change.
//
// The running variance is biased, as in MXNet. PyTorch's running variance is unbiased, and its
// momentum is 1 - momentum. gamma is used; MXNet's operator needs fix_gamma = False for that.
// MXNet's backward() updates the running statistics; here the forward pass does.
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& = {}, Caller = Caller::here());

struct LayerNormOptions {
  int axis = -1;
  double epsilon = 1e-5;
};
// Normalizes along the axis of the channels (Ba, Kiros and Hinton, 2016). If that axis is not the
// last, x is copied.
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const LayerNormOptions& = {}, Caller = Caller::here());
// x / sqrt(mean(x^2) + epsilon) * gamma (Zhang and Sennrich, 2019). PyTorch's default epsilon is
// the machine epsilon of the dtype.
Tensor rms_norm(const Tensor& x, const Tensor& gamma, const LayerNormOptions& = {},
                Caller = Caller::here());

struct GroupNormOptions {
  int num_groups = 1;  // divides C
  double epsilon = 1e-5;
};
// Normalizes each group of C / num_groups channels of each sample (Wu and He, 2018). x is (N, C,
// ...). gamma and beta have one value per channel, as in Gluon 2 and PyTorch (MXNet 1: per group).
// If num_groups does not divide C, group_norm throws ShapeError.
Tensor group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const GroupNormOptions& = {}, Caller = Caller::here());

struct InstanceNormOptions {
  int axis = 1;           // the axis of the channels; 0, the batch, is a ShapeError
  double epsilon = 1e-5;  // Gluon's; MXNet's operator has 1e-3
};
// Normalizes each channel of each sample (Ulyanov, Vedaldi and Lempitsky, 2016). x is (N, C, ...).
Tensor instance_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                     const InstanceNormOptions& = {}, Caller = Caller::here());

// --- Details ---
//
// - Statistics are those of the distances from one element (Chan, Golub and LeVeque). They are
//   accurate however far the mean is from 0.
// - The mean and the variance are f64. The variance holds the squares of all f32 and 16-bit x. f64
//   x must lie within 1e154 of their mean.
// - If an element is NaN or infinite, all results that share its statistics are NaN. In rms_norm,
//   finite elements beside an infinite one give 0.
// - Results repeat bit by bit, for any number of threads.
// - The plain backward pass is one op of two or three launches. With create_graph it is composed of
//   other ops, in f64.

}  // namespace locus
