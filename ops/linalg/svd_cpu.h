// Singular values and vectors of one matrix on the host, in f64. Compiled once per instruction set.
//
//   f32          decompose_by_squares: by the eigenvalues of a' a
//   f64          decompose_directly: Eigen's divide and conquer, whose factors are checked. Small
//                matrices, and matrices whose factors are wrong, take Eigen's Jacobi method
//   f64, values  decompose_directly: eigenvalues of a tridiagonal matrix
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include <Eigen/SVD>

#include <locus/ops/linalg/qr_cpu.h>
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

struct SingularFactors {
  Eigen::VectorXd s;  // descending
  ColumnMatrix u, v;  // singular vectors are columns; empty unless asked for
};
enum class SingularVectors { none, thin, full };

// Computes the singular values of a, which are those of its bidiagonal form b. The eigenvalues of
// [0 b; b' 0] are these values and their negatives, and a permutation makes it tridiagonal. Returns
// nullopt if the iteration does not converge.
inline std::optional<SingularFactors> compute_singular_values(ColumnMatrix a) {
  if (a.rows() < a.cols()) a.transposeInPlace();
  const Eigen::Index k = a.cols();
  auto bidiagonal = Eigen::internal::UpperBidiagonalization<ColumnMatrix>(a).bidiagonal();
  Eigen::VectorXd d = Eigen::VectorXd::Zero(2 * k), e(2 * k - 1);
  for (Eigen::Index i = 0; i < k; ++i) e[2 * i] = bidiagonal.diagonal()[i];
  for (Eigen::Index i = 1; i < k; ++i) e[2 * i - 1] = bidiagonal.diagonal<1>()[i - 1];
  if (!diagonalize(d, e, nullptr)) return std::nullopt;
  std::sort(d.begin(), d.end(), std::greater<>());
  return SingularFactors{d.head(k).cwiseMax(0), {}, {}};
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

// Decomposes a matrix (not empty) whose largest element is near 1. Returns nullopt if no method
// succeeds.
inline std::optional<SingularFactors> decompose_directly(const ColumnMatrix& a,
                                                         SingularVectors vectors) {
  if (vectors == SingularVectors::none) return compute_singular_values(a);
  const unsigned options = vectors == SingularVectors::full
                               ? Eigen::ComputeFullU | Eigen::ComputeFullV
                               : Eigen::ComputeThinU | Eigen::ComputeThinV;
  const auto factors_of = [](const auto& f) {
    return SingularFactors{f.singularValues(), f.matrixU(), f.matrixV()};
  };
  constexpr Eigen::Index kJacobi = 16;
  if (std::min(a.rows(), a.cols()) >= kJacobi) {
    const Eigen::BDCSVD<ColumnMatrix> f(a, options);
    if (is_accurate(f, a)) return factors_of(f);
  }
  const Eigen::JacobiSVD<ColumnMatrix> f(a, options);
  if (f.info() != Eigen::Success || !f.singularValues().allFinite()) return std::nullopt;
  return factors_of(f);
}

// a b. Threads share blocks of columns.
inline ColumnMatrix multiply(const auto& a, const ColumnMatrix& b) {
  ColumnMatrix product(a.rows(), b.cols());
  for_each_block(b.cols(), a.rows(), [&](int64_t first, int64_t width) {
    product.middleCols(first, width).noalias() = a * b.middleCols(first, width);
  });
  return product;
}

// Decomposes a matrix (not empty) whose largest element is near 1, as spectral_kernel.h describes.
// Returns nullopt if the iteration does not converge.
inline std::optional<SingularFactors> decompose_by_squares(ColumnMatrix a,
                                                           SingularVectors vectors) {
  const bool wide = a.rows() < a.cols();
  if (wide) a.transposeInPlace();
  const int64_t m = a.rows(), n = a.cols();
  const auto pairs =
      decompose_symmetric(multiply(a.transpose(), a), vectors != SingularVectors::none);
  if (!pairs) return std::nullopt;
  SingularFactors f;
  f.s = pairs->values.reverse().cwiseMax(0).cwiseSqrt();
  if (vectors == SingularVectors::none) return f;

  f.v = pairs->vectors.rowwise().reverse();
  f.u.resize(m, vectors == SingularVectors::full ? m : n);
  ColumnMatrix product = multiply(a, f.v);
  Eigen::VectorXd coefficients(n);
  factor_qr(product, coefficients);
  form_q(product, coefficients, f.u);
  for (int64_t j = 0; j < n; ++j)
    if (product(j, j) < 0) f.u.col(j) *= -1;
  if (wide) std::swap(f.u, f.v);
  return f;
}

}  // namespace locus::LOCUS_ISA_NAMESPACE
