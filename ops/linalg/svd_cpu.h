// Singular vectors by Eigen's divide and conquer, checked, else by its Jacobi method; values alone
// by eigenvalues. Compiled once per instruction set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <Eigen/Eigenvalues>
#include <Eigen/SVD>

namespace locus::LOCUS_ISA_NAMESPACE {

using Columns = Eigen::MatrixXd;  // f32 is computed in f64, too

// The vector z that makes sing the exact singular values of a matrix of first column z and diagonal
// diag (Gu and Eisenstat, equation 3.6). perm lists the columns that are not deflated. A singular
// value is shifts + mus.
inline void exact_column(const auto& col0, const auto& diag, const auto& perm, const auto& sing,
                         const auto& shifts, const auto& mus, auto& z) {
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
  locus::LOCUS_ISA_NAMESPACE::exact_column(col0, diag, perm, singVals, shifts, mus, zhat);
}

}  // namespace Eigen
#endif

namespace locus::LOCUS_ISA_NAMESPACE {

// The singular values s, descending, of a finite matrix: those of its bidiagonal form b are the
// eigenvalues, not negative, of the tridiagonal matrix that [0 b; b' 0] is after a permutation.
inline bool values_of(Columns a, double* s) {
  if (a.rows() < a.cols()) a.transposeInPlace();
  const Eigen::Index k = a.cols();
  auto form = Eigen::internal::UpperBidiagonalization<Columns>(a).bidiagonal();
  using Vector = Eigen::VectorXd;
  Vector beside(2 * k - 1);
  for (Eigen::Index i = 0; i < k; ++i) beside[2 * i] = form.diagonal()[i];
  for (Eigen::Index i = 1; i < k; ++i) beside[2 * i - 1] = form.diagonal<1>()[i - 1];
  Eigen::SelfAdjointEigenSolver<Columns> solver;
  // The solver's iteration ends if no eigenvalue exceeds 1.
  const double bound =
      std::max(2 * beside.cwiseAbs().maxCoeff(), std::numeric_limits<double>::min());
  solver.computeFromTridiagonal(Vector::Zero(2 * k), beside / bound, Eigen::EigenvaluesOnly);
  if (solver.info() != Eigen::Success || !solver.eigenvalues().allFinite()) return false;
  for (Eigen::Index i = 0; i < k; ++i)
    s[i] = std::max(0., solver.eigenvalues()[2 * k - 1 - i]) * bound;
  return true;
}

// Whether the columns of x are orthonormal up to rounding.
inline bool orthonormal(const Columns& x) {
  const auto n = static_cast<double>(x.rows());
  const Columns product = x.transpose() * x;
  const double most = (product - Columns::Identity(x.cols(), x.cols())).cwiseAbs().maxCoeff();
  return most <= 2 * n * std::numeric_limits<double>::epsilon();  // false for NaN
}

// Divide and conquer gives wrong vectors for some matrices of low rank.
inline bool decomposes(const Eigen::BDCSVD<Columns>& f, const Columns& a) {
  const auto& s = f.singularValues();
  if (f.info() != Eigen::Success || !s.allFinite()) return false;
  if (!orthonormal(f.matrixU()) || !orthonormal(f.matrixV())) return false;
  const Columns left = f.matrixU().leftCols(s.size()) * s.asDiagonal();
  const Columns rest = a - left * f.matrixV().leftCols(s.size()).transpose();
  const auto n = static_cast<double>(std::max(a.rows(), a.cols()));
  return rest.cwiseAbs().maxCoeff() <= n * std::numeric_limits<double>::epsilon() * s[0];
}

// Calls take(solver) with the factors of a finite matrix, and returns true; or returns false.
bool with_factors(const Columns& a, unsigned options, const auto& take) {
  constexpr Eigen::Index kJacobi = 16;
  if (std::min(a.rows(), a.cols()) >= kJacobi) {
    const Eigen::BDCSVD<Columns> solver(a, options);
    if (decomposes(solver, a)) {
      take(solver);
      return true;
    }
  }
  const Eigen::JacobiSVD<Columns> solver(a, options);
  if (solver.info() != Eigen::Success || !solver.singularValues().allFinite()) return false;
  take(solver);
  return true;
}

}  // namespace locus::LOCUS_ISA_NAMESPACE
