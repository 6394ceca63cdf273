// Singular values and vectors of one matrix on the host, in f64. Compiled once per instruction set.
//
//   f32  decompose_by_squares: by the eigenvalues of a' a
//   f64  decompose_directly: by the implicit QR iteration of a bidiagonal matrix
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include <Eigen/SVD>

#include <locus/ops/linalg/qr_cpu.h>
#include <locus/ops/linalg/symmetric_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {

struct SingularFactors {
  Eigen::VectorXd s;  // descending
  ColumnMatrix u, v;  // singular vectors are columns; empty unless asked for
};
enum class SingularVectors { none, thin, full };

// An upper bidiagonal matrix b with diagonal d and superdiagonal e. `u` and `v`, if given, are
// rotated with b: u b v' stays the same up to rounding.
//
// The method is the implicit QR iteration of Golub and Kahan with the shift of LINPACK's dsvdc. If
// an element of d is negligible, b has a singular value 0. A sweep without shift (Demmel and Kahan)
// moves this value to the end.
class Bidiagonal {
 public:
  Bidiagonal(Eigen::VectorXd d, Eigen::VectorXd e, RotatedColumns* u, RotatedColumns* v)
      : d_(std::move(d)), e_(std::move(e)), u_(u), v_(v) {}

  // Afterwards d are the singular values, in no order and with any sign. Elements must be far from
  // overflow. Returns false if the iteration does not converge.
  bool diagonalize() {
    // Smaller elements of e count as 0. Products of three larger elements do not underflow.
    constexpr double kTiny = 0x1p-300;
    return iterate(d_, e_, kTiny, [&](int64_t start, int64_t end) {
      if (u_) u_->begin_sweep(start, end - start);
      if (v_) v_->begin_sweep(start, end - start);
      if (clear_negligible(start, end))
        sweep_without_shift(start, end);
      else
        sweep(start, end);
    });
  }
  const Eigen::VectorXd& d() const { return d_; }

 private:
  // Sets negligible elements of d to 0. Returns whether there are any.
  bool clear_negligible(int64_t start, int64_t end) {
    constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
    bool any = false;
    for (int64_t i = start; i <= end; ++i) {
      const double beside = (i > start ? std::abs(e_[i - 1]) : 0) + (i < end ? std::abs(e_[i]) : 0);
      if (std::abs(d_[i]) > kEpsilon * beside) continue;
      d_[i] = 0;
      any = true;
    }
    return any;
  }

  void sweep(int64_t start, int64_t end) {
    const double scale = std::max({std::abs(d_[end]), std::abs(d_[end - 1]), std::abs(e_[end - 1]),
                                   std::abs(d_[start]), std::abs(e_[start])});
    const double last = d_[end] / scale, before = d_[end - 1] / scale, beside = e_[end - 1] / scale;
    const double first = d_[start] / scale;
    const double b = ((before + last) * (before - last) + beside * beside) / 2;
    const double product = last * beside * (last * beside);
    double shift = 0;
    if (b != 0 || product != 0)
      shift = product / (b + std::copysign(std::sqrt(b * b + product), b));
    double f = (first + last) * (first - last) + shift, g = first * (e_[start] / scale);
    double c = 1, s = 0;
    for (int64_t i = start; i < end; ++i) {
      const double r = find_rotation(f, g, c, s);
      if (i > start) e_[i - 1] = r;
      if (v_) v_->rotate(c, s);
      f = c * d_[i] + s * e_[i];
      e_[i] = c * e_[i] - s * d_[i];
      g = s * d_[i + 1];
      d_[i + 1] = c * d_[i + 1];
      d_[i] = find_rotation(f, g, c, s);
      if (u_) u_->rotate(c, s);
      f = c * e_[i] + s * d_[i + 1];
      d_[i + 1] = c * d_[i + 1] - s * e_[i];
      if (i < end - 1) {
        g = s * e_[i + 1];
        e_[i + 1] = c * e_[i + 1];
      }
    }
    e_[end - 1] = f;
  }

  void sweep_without_shift(int64_t start, int64_t end) {
    double c = 1, s = 0, left_c = 1, left_s = 0;
    for (int64_t i = start; i < end; ++i) {
      const double r = find_rotation(d_[i] * c, e_[i], c, s);
      if (v_) v_->rotate(c, s);
      if (i > start) e_[i - 1] = left_s * r;
      d_[i] = find_rotation(left_c * r, d_[i + 1] * s, left_c, left_s);
      if (u_) u_->rotate(left_c, left_s);
    }
    const double rest = d_[end] * c;
    d_[end] = rest * left_c;
    e_[end - 1] = rest * left_s;
  }

  Eigen::VectorXd d_, e_;
  RotatedColumns *u_, *v_;
};

// Decomposes a matrix (not empty) whose largest element is near 1. Returns nullopt if the iteration
// does not converge.
inline std::optional<SingularFactors> decompose_directly(ColumnMatrix a, SingularVectors vectors) {
  const bool wide = a.rows() < a.cols();
  if (wide) a.transposeInPlace();
  const int64_t m = a.rows(), n = a.cols(), columns = vectors == SingularVectors::full ? m : n;
  Eigen::internal::UpperBidiagonalization<ColumnMatrix> form(a);
  auto bidiagonal = form.bidiagonal();
  std::optional<RotatedColumns> u, v;
  if (vectors != SingularVectors::none) {
    u.emplace(form.householderU() * ColumnMatrix::Identity(m, columns));
    v.emplace(form.householderV() * ColumnMatrix::Identity(n, n));
  }
  Bidiagonal b(bidiagonal.diagonal(), bidiagonal.diagonal<1>(), u ? &*u : nullptr,
               v ? &*v : nullptr);
  if (!b.diagonalize()) return std::nullopt;

  const Eigen::VectorXd s = b.d().cwiseAbs();
  Order order(columns);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.begin() + n,
            [&](int64_t i, int64_t j) { return s[i] > s[j] || (s[i] == s[j] && i < j); });
  SingularFactors f;
  f.s = s(order.head(n));
  if (!u) return f;
  f.u = u->permuted(order);
  f.v = v->permuted(order.head(n));
  for (int64_t j = 0; j < n; ++j)
    if (b.d()[order[j]] < 0) f.v.col(j) *= -1;
  if (wide) std::swap(f.u, f.v);
  return f;
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
