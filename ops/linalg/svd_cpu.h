// Singular vectors by Eigen's divide and conquer, checked, else by its Jacobi method; values alone
// by eigenvalues. Compiled once per instruction set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <Eigen/SVD>

#include <locus/ops/linalg/tridiagonal_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {

// The vector z that makes sing the exact singular values of a matrix of first column z and diagonal
// diag (Gu and Eisenstat, equation 3.6). perm lists the columns that are not deflated. A singular
// value is shifts + mus.
inline void compute_exact_column(const auto& col0, const auto& diag, const auto& perm,
                                 const auto& sing, const auto& shifts, const auto& mus, auto& z) {
  z.setZero();
  const Eigen::Index n = perm.size();
  if (n == 0) return;
  const Eigen::Index last = perm(n - 1);
  for (Eigen::Index q = 0; q < n; ++q) {
    const Eigen::Index k = perm(q);
    const double d = diag(k);
    double product = (sing(last) + d) * (mus(last) + (shifts(last) - d));
    for (Eigen::Index p = 0; p < n; ++p) {
      if (p == q) continue;
      const Eigen::Index i = perm(p), j = p < q ? i : perm(p - 1);
      product *= ((sing(j) + d) / (diag(i) + d)) * ((mus(j) + (shifts(j) - d)) / (diag(i) - d));
    }
    const double size = std::sqrt(product);
    z(k) = col0(k) > 0 ? size : -size;
  }
}

}  // namespace locus::LOCUS_ISA_NAMESPACE

// Eigen 3.4.0 reads perm(-1) here if an element of col0 is subnormal.
#if !EIGEN_VERSION_AT_LEAST(3, 4, 1)
namespace Eigen {

template <>
inline void BDCSVD<MatrixXd>::perturbCol0(const ArrayRef& col0, const ArrayRef& diag,
                                          const IndicesRef& perm, const VectorType& singVals,
                                          const ArrayRef& shifts, const ArrayRef& mus,
                                          ArrayRef zhat) {
  locus::LOCUS_ISA_NAMESPACE::compute_exact_column(col0, diag, perm, singVals, shifts, mus, zhat);
}

}  // namespace Eigen
#endif

namespace locus::LOCUS_ISA_NAMESPACE {

// The singular values s, descending, of a finite matrix: those of its bidiagonal form b are the
// eigenvalues, not negative, of the tridiagonal matrix that [0 b; b' 0] is after a permutation.
inline bool compute_singular_values(ColumnMatrix a, double* s) {
  if (a.rows() < a.cols()) a.transposeInPlace();
  const Eigen::Index k = a.cols();
  auto bidiagonal = Eigen::internal::UpperBidiagonalization<ColumnMatrix>(a).bidiagonal();
  using Vector = Eigen::VectorXd;
  Vector off_diagonal(2 * k - 1);
  for (Eigen::Index i = 0; i < k; ++i) off_diagonal[2 * i] = bidiagonal.diagonal()[i];
  for (Eigen::Index i = 1; i < k; ++i) off_diagonal[2 * i - 1] = bidiagonal.diagonal<1>()[i - 1];
  const TridiagonalSolver solver(Vector::Zero(2 * k), off_diagonal, false);
  if (!solver.succeeded()) return false;
  const Vector values = solver.eigenvalues();
  for (Eigen::Index i = 0; i < k; ++i) s[i] = std::max(0., values[2 * k - 1 - i]);
  return true;
}

// Whether the columns of x are orthonormal up to rounding.
inline bool is_orthonormal(const ColumnMatrix& x) {
  const auto n = static_cast<double>(x.rows());
  const ColumnMatrix product = x.transpose() * x;
  const double deviation =
      (product - ColumnMatrix::Identity(x.cols(), x.cols())).cwiseAbs().maxCoeff();
  return deviation <= 2 * n * std::numeric_limits<double>::epsilon();  // false for NaN
}

// Divide and conquer gives wrong vectors for some matrices of low rank.
inline bool is_accurate(const Eigen::BDCSVD<ColumnMatrix>& f, const ColumnMatrix& a) {
  const auto& s = f.singularValues();
  if (f.info() != Eigen::Success || !s.allFinite()) return false;
  if (!is_orthonormal(f.matrixU()) || !is_orthonormal(f.matrixV())) return false;
  const ColumnMatrix left = f.matrixU().leftCols(s.size()) * s.asDiagonal();
  const ColumnMatrix residual = a - left * f.matrixV().leftCols(s.size()).transpose();
  const auto n = static_cast<double>(std::max(a.rows(), a.cols()));
  return residual.cwiseAbs().maxCoeff() <= n * std::numeric_limits<double>::epsilon() * s[0];
}

// Calls take(solver) with the factors of a finite matrix, and returns true; or returns false.
bool with_factors(const ColumnMatrix& a, unsigned options, const auto& take) {
  constexpr Eigen::Index kJacobi = 16;
  if (std::min(a.rows(), a.cols()) >= kJacobi) {
    const Eigen::BDCSVD<ColumnMatrix> solver(a, options);
    if (is_accurate(solver, a)) {
      take(solver);
      return true;
    }
  }
  const Eigen::JacobiSVD<ColumnMatrix> solver(a, options);
  if (solver.info() != Eigen::Success || !solver.singularValues().allFinite()) return false;
  take(solver);
  return true;
}

}  // namespace locus::LOCUS_ISA_NAMESPACE
