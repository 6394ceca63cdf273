// QR decomposition by blocks of Householder reflections. Compiled once per instruction set.
#pragma once

#include <algorithm>
#include <cstdint>

#include <Eigen/QR>

#include <locus/ops/linalg/matrices_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {

constexpr int64_t kReflections = 32;  // applied at once

// Replaces a (m x n, not empty, by columns) by r and the vectors of min(m, n) reflections below its
// diagonal. Writes a coefficient for each reflection.
template <class A, class Vector>
void factor_qr(A& a, Vector& coefficients) {
  Eigen::internal::householder_qr_inplace_blocked<A, Vector>::run(a, coefficients, kReflections);
}

// Writes the product of the reflections to q (m x columns, columns >= reflections). The product
// starts with the last reflection, which changes the last rows only.
void form_q(const auto& a, const auto& coefficients, auto& q) {
  q.setIdentity();
  const int64_t m = q.rows(), columns = q.cols(), reflections = coefficients.size();
  for (int64_t k = (reflections - 1) / kReflections * kReflections; k >= 0 && reflections > 0;
       k -= kReflections) {
    const int64_t count = std::min(kReflections, reflections - k);
    auto part = q.block(k, k, m - k, columns - k);
    Eigen::internal::apply_block_householder_on_the_left(part, a.block(k, k, m - k, count),
                                                         coefficients.segment(k, count), true);
  }
}

}  // namespace locus::LOCUS_ISA_NAMESPACE
