// Singular values and vectors of one matrix on the host. Eigen computes vectors by divide and
// conquer. The factors are checked. Small matrices, and matrices whose factors are wrong, take
// Eigen's Jacobi method. Values without vectors are eigenvalues of a tridiagonal matrix. Compiled
// once per instruction set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <Eigen/SVD>

#include <locus/ops/linalg/symmetric_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {

// Computes the vector z for which the matrix with first column z and diagonal `diag` has exactly
// the singular values `sing` (Gu and Eisenstat, equation 3.6). `perm` lists the columns that are
// not deflated. shifts(i) + mus(i) is sing(i), with more digits.
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

// Replaces a function of Eigen 3.4.0 that reads perm(-1) if an element of col0 is subnormal.
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

// Computes the singular values s, descending, of a finite matrix. Returns false if the iteration
// does not converge. The matrix has the singular values of its bidiagonal form b. The eigenvalues
// of [0 b; b' 0] are these values and their negatives, and a permutation makes it tridiagonal.
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

// Factors are checked by products with this vector, not by products of matrices (Freivalds). Errors
// cancel only by chance. Elements are from 1 to 2.
inline Eigen::VectorXd make_check_vector(Eigen::Index n) {
  constexpr double kGoldenRatio = 1.6180339887498949;
  Eigen::VectorXd x(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const double multiple = static_cast<double>(i + 1) * kGoldenRatio;
    x[i] = 1 + multiple - std::floor(multiple);
  }
  return x;
}

// Whether x is 0 up to the rounding errors of sums of n terms of size `scale`.
inline bool is_rounding(const Eigen::VectorXd& x, Eigen::Index n, double scale) {
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  return x.cwiseAbs().maxCoeff() <= 8 * static_cast<double>(n) * kEpsilon * scale;
}

inline bool has_orthonormal_columns(const ColumnMatrix& q) {
  const Eigen::VectorXd x = make_check_vector(q.cols()), qx = q * x;
  return is_rounding(q.transpose() * qx - x, q.rows(), 1);
}

// Whether f has orthonormal vectors and, up to rounding, the product a. Divide and conquer gives
// wrong vectors for some matrices of low rank.
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

// Decomposes a finite matrix and calls take(solver). Returns false, without the call, if no method
// succeeds.
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
