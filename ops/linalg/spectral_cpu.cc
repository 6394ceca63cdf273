#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include <locus/ops/linalg/matrices_cpu.h>
#include <locus/ops/linalg/spectral_kernel.h>
#include <locus/ops/linalg/svd_cpu.h>
#include <locus/ops/linalg/symmetric_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

template <class T>
constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();

// The factor, 1 or -1, after which the vector has the sign that linalg.h describes.
double find_sign(const auto& vector) {
  const double threshold = vector.cwiseAbs().maxCoeff() * kLargeFraction;
  for (Eigen::Index i = 0; i < vector.size(); ++i)
    if (std::abs(vector[i]) >= threshold) return vector[i] < 0 ? -1 : 1;
  return 1;
}

// Whether the triangle of a matrix of n x n is finite.
template <class T>
bool is_triangle_finite(const T* a, int64_t n, bool upper) {
  for (int64_t i = 0; i < n; ++i) {
    const T* const row = a + i * n;
    if (!(upper ? are_finite(row + i, n - i) : are_finite(row, i + 1))) return false;
  }
  return true;
}

// Eigenvalues w and, if v is given, eigenvectors of one matrix. Returns whether it succeeded; else
// they are NaN.
template <class T>
bool write_eigh(const T* a, int64_t n, bool upper, T* w, T* v) {
  if (n == 0) return true;
  std::optional<Eigenpairs> pairs;
  if (is_triangle_finite(a, n, upper)) {
    // By columns, the memory is the transposed matrix. The lower triangle is read.
    ColumnMatrix matrix = ConstMap<T>(a, n, n).template cast<double>();
    if (upper) matrix.transposeInPlace();
    matrix.triangularView<Eigen::StrictlyUpper>().setZero();
    pairs = decompose_symmetric(matrix, v != nullptr);
  }
  if (!pairs) {
    std::fill_n(w, n, kNaN<T>);
    if (v) std::fill_n(v, n * n, kNaN<T>);
    return false;
  }
  VectorMap<T>(w, n) = pairs->values.template cast<T>();
  if (!v) return true;
  for (int64_t j = 0; j < n; ++j) {
    const auto vector = pairs->vectors.col(j);
    MatrixMap<T>(v, n, n).col(j) = (vector * find_sign(vector)).template cast<T>();
  }
  return true;
}

// Singular values s and, if u is given, vectors u (m x columns) and vh (rows x n) of one matrix.
// Returns whether it succeeded; else they are NaN.
template <class T>
bool write_svd(const T* a, int64_t m, int64_t n, bool full, T* u, T* s, T* vh) {
  const int64_t k = std::min(m, n), columns = full ? m : k, rows = full ? n : k;
  if (k == 0) {
    if (u) MatrixMap<T>(u, m, columns).setIdentity();
    if (u) MatrixMap<T>(vh, rows, n).setIdentity();
    return true;
  }
  std::optional<SingularFactors> f;
  double scale = 1;
  if (are_finite(a, m * n)) {
    ColumnMatrix matrix = ConstMap<T>(a, m, n).template cast<double>();
    scale = find_scale(matrix);
    matrix /= scale;
    const auto vectors = !u     ? SingularVectors::none
                         : full ? SingularVectors::full
                                : SingularVectors::thin;
    f = std::is_same_v<T, float> ? decompose_by_squares(std::move(matrix), vectors)
                                 : decompose_directly(std::move(matrix), vectors);
  }
  if (!f) {
    std::fill_n(s, k, kNaN<T>);
    if (u) std::fill_n(u, m * columns, kNaN<T>);
    if (u) std::fill_n(vh, rows * n, kNaN<T>);
    return false;
  }
  VectorMap<T>(s, k) = (f->s * scale).template cast<T>();
  if (!u) return true;
  MatrixMap<T> left(u, m, columns), right(vh, rows, n);
  for (int64_t j = 0; j < columns; ++j) {
    const auto vector = f->u.col(j);
    const double sign = find_sign(vector);
    left.col(j) = (vector * sign).template cast<T>();
    if (j < k) right.row(j) = (f->v.col(j).transpose() * sign).template cast<T>();
  }
  for (int64_t j = k; j < rows; ++j) {
    const auto vector = f->v.col(j);
    right.row(j) = (vector.transpose() * find_sign(vector)).template cast<T>();
  }
  return true;
}

struct Backend {
  template <DType D>
  static void eigh(const Call& call) {
    using T = CppTypeOf<D>;
    compute_eigenvalues<T>(call, call.out[1].as<T>(), call.out[2].as<bool>());
  }
  template <DType D>
  static void eigvalsh(const Call& call) {
    compute_eigenvalues<CppTypeOf<D>>(call, nullptr, call.out[1].as<bool>());
  }

  template <DType D>
  static void svd(const Call& call) {
    using T = CppTypeOf<D>;
    const MatrixBatch a(call.in[0].meta), u(call.out[0].meta), vh(call.out[2].meta);
    const bool full = call.attributes<SvdAttrs>().full_matrices;
    const int64_t k = std::min(a.m, a.n);
    for_each_matrix(a.count, a.m, a.n, k, [&](int64_t i) {
      call.out[3].as<bool>()[i] =
          !write_svd(call.in[0].as<const T>() + i * a.size(), a.m, a.n, full,
                     call.out[0].as<T>() + i * u.size(), call.out[1].as<T>() + i * k,
                     call.out[2].as<T>() + i * vh.size());
    });
  }
  template <DType D>
  static void svdvals(const Call& call) {
    using T = CppTypeOf<D>;
    const MatrixBatch a(call.in[0].meta);
    const int64_t k = std::min(a.m, a.n);
    for_each_matrix(a.count, a.m, a.n, k, [&](int64_t i) {
      call.out[1].as<bool>()[i] =
          !write_svd<T>(call.in[0].as<const T>() + i * a.size(), a.m, a.n, false, nullptr,
                        call.out[0].as<T>() + i * k, nullptr);
    });
  }

 private:
  template <class T>
  static void compute_eigenvalues(const Call& call, T* v, bool* failed) {
    const MatrixBatch s(call.in[0].meta);
    const bool upper = call.attributes<EighAttrs>().upper;
    for_each_matrix(s.count, s.n, s.n, s.n, [&](int64_t k) {
      failed[k] = !write_eigh(call.in[0].as<const T>() + k * s.size(), s.n, upper,
                              call.out[0].as<T>() + k * s.n, v ? v + k * s.size() : nullptr);
    });
  }
};

}  // namespace

extern constinit const KernelList spectral = spectral_kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
