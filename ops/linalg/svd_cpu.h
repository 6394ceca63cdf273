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

// Products with this vector are checked in place of products of matrices (Freivalds): a fault
// cancels in none of them but by chance. Elements are from 1 to 2.
inline Eigen::VectorXd make_check_vector(Eigen::Index n) {
  constexpr double kGoldenRatio = 1.6180339887498949;
  Eigen::VectorXd x(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const double multiple = static_cast<double>(i + 1) * kGoldenRatio;
    x[i] = 1 + multiple - std::floor(multiple);
  }
  return x;
}

// Whether a vector is 0 up to the rounding of products of length n. false for NaN.
inline bool is_rounding(const Eigen::VectorXd& x, Eigen::Index n, double scale) {
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  return x.cwiseAbs().maxCoeff() <= 8 * static_cast<double>(n) * kEpsilon * scale;
}

inline bool has_orthonormal_columns(const ColumnMatrix& q) {
  const Eigen::VectorXd x = make_check_vector(q.cols()), qx = q * x;
  return is_rounding(q.transpose() * qx - x, q.rows(), 1);
}

// Divide and conquer gives wrong vectors for some matrices of low rank.
inline bool is_accurate(const Eigen::BDCSVD<ColumnMatrix>& f, const ColumnMatrix& a) {
  const auto& s = f.singularValues();
  if (f.info() != Eigen::Success || !s.allFinite()) return false;
  if (!has_orthonormal_columns(f.matrixU()) || !has_orthonormal_columns(f.matrixV())) return false;
  const Eigen::VectorXd x = make_check_vector(a.cols()), ax = a * x;
  const Eigen::VectorXd vx = f.matrixV().leftCols(s.size()).transpose() * x,
                        svx = s.asDiagonal() * vx;
  const Eigen::VectorXd usvx = f.matrixU().leftCols(s.size()) * svx;
  return is_rounding(usvx - ax, std::max(a.rows(), a.cols()), s[0]);
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
