// The ops pinv and lstsq, for functions and tests: no checks, no waiting. Internal.
#pragma once

#include <locus/core/tensor.h>

namespace locus {

struct RcondAttrs {
  double rcond = 0;  // singular values up to rcond times the largest count as 0
};

namespace linalg {

Tensors pinv_op(const Tensor& a, double rcond);  // {p, failed}
// {x, rank, s, failed}. b is a matrix, with a's batch.
Tensors lstsq_op(const Tensor& a, const Tensor& b, double rcond);
// Which singular values count as more than 0.
Tensor exceeds_cutoff(const Tensor& s, double rcond);

}  // namespace linalg
}  // namespace locus
