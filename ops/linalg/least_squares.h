// The ops pinv and lstsq, for functions and tests: no checks, no waiting. Internal.
#pragma once

#include <locus/core/tensor.h>

namespace locus {

struct RcondAttrs {
  double rcond = 0;  // singular values up to rcond times the largest count as 0
};

namespace linalg {

Tensors pseudo_inverse(const Tensor& a, double rcond);  // {p, failed}
// {x, rank, s, failed}. b is a matrix, with a's batch.
Tensors least_squares(const Tensor& a, const Tensor& b, double rcond);
// Which singular values count as more than 0.
Tensor counted(const Tensor& s, double rcond);

}  // namespace linalg
}  // namespace locus
