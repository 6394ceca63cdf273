// Shared by the ops of normalisations.
#pragma once

#include <locus/core/op.h>
#include <locus/ops/elementwise/call.h>
#include <locus/ops/norm/norm_kernel.h>
#include <locus/ops/reduce.h>

namespace locus::norms {

// The dtype of gamma, beta and running statistics.
inline DType parameter_dtype(DType data) { return data == f64 ? f64 : f32; }
inline Tensor parameter(const Tensor& p, const Tensor& x) {
  return p.defined() ? detail::as(p, parameter_dtype(x.dtype())) : p;
}
inline Tensor floating(const Tensor& x) { return detail::as(x, inexact(x.dtype())); }

// 1 / sqrt(variance + epsilon).
Tensor inverse_deviation(const Tensor& variance, double epsilon);

// in[0] is the data; the others have one number per channel.
void check(std::span<const Meta> in, const NormAttrs& a);
// Checks data, gamma, beta and running statistics for batch normalisation in training.
void check_training(std::span<const Meta> in, const BatchNormAttrs& a);
// dy, the data, gamma, and statistics like `stats`.
DType infer_grad(std::span<const Meta> in, const NormGradAttrs& a, const Meta& stats,
                 std::span<Meta> out);

// The data with 4 axes. Statistics are over the axes `over`; gamma is constant along the axes
// `along`.
struct Layout4 {
  Shape data, stats, gamma;
  Axes over, along;
  double n;  // elements of a statistic

  static Layout4 rows(const Meta& data, const NormAttrs& a);
  static Layout4 channels(const Meta& data, const NormAttrs& a);
};
// The gradients of a call, in f64 with the layout's shapes, made of differentiable ops. If `mean`
// is undefined, the statistic is the mean square. `dout`: of the result, the mean (if any) and the
// variance. `given`: statistics do not depend on the data. Undefined: no gradient.
struct Gradients {
  Tensor data, gamma, beta;
};
Gradients composed(const Layout4& at, const Tensor& data, const Tensor& gamma, const Tensor& mean,
                   const Tensor& variance, double epsilon, std::span<const Tensor> dout,
                   bool given);
// A gradient in input i's dtype and shape.
Tensor as_input(const Tensor& gradient, const Saved& saved, int i);

}  // namespace locus::norms
