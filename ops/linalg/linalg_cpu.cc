#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <Eigen/Cholesky>
#include <Eigen/LU>

#include <locus/core/scratch.h>
#include <locus/ops/linalg/linalg_kernel.h>
#include <locus/ops/linalg/matrices_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

template <class T>
bool has_zero_on_diagonal(const T* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (a[i * (n + 1)] == 0) return true;
  return false;
}

template <unsigned kMode>
void solve_in_place(const auto& a, auto& x, bool unit) {
  if (unit)
    a.template triangularView<(kMode | Eigen::UnitDiag)>().solveInPlace(x);
  else
    a.template triangularView<kMode>().solveInPlace(x);
}

struct Backend {
  template <DType D>
  static void cholesky(const Call& call) {
    using T = CppTypeOf<D>;
    const MatrixBatch s(call.in[0].meta);
    const int64_t n = s.n;
    for_each_matrix(s.count, n, n, n, [&](int64_t k) {
      T* const to = call.out[0].as<T>() + k * s.size();
      std::copy_n(call.in[0].as<const T>() + k * s.size(), s.size(), to);
      bool failed = false;
      if (n > 0) {
        MatrixMap<T> l(to, n, n);
        Eigen::Ref<Matrix<T>> in_place(l);
        const Eigen::LLT<Eigen::Ref<Matrix<T>>> factor(in_place);
        failed = factor.info() != Eigen::Success;
        for (int64_t i = 0; i < n; ++i) {
          failed = failed || !(to[i * (n + 1)] > 0);  // also NaN
          std::fill_n(to + i * n + i + 1, n - i - 1, T{0});
        }
        if (failed) std::fill_n(to, s.size(), std::numeric_limits<T>::quiet_NaN());
      }
      call.out[1].as<bool>()[k] = failed;
    });
  }

  template <DType D>
  static void solve(const Call& call) {
    using T = CppTypeOf<D>;
    const MatrixBatch a(call.in[0].meta), b(call.in[1].meta);
    const int64_t n = a.n;
    const bool transpose = call.attributes<SolveAttrs>().transpose;
    const Scratch memory(call, static_cast<size_t>(a.count * a.size()) * sizeof(T));
    for_each_matrix(a.count, n, n, n + b.n, [&](int64_t k) {
      bool failed = false;
      const T* const from = call.in[0].as<const T>() + k * a.size();
      T* const to = call.out[0].as<T>() + k * b.size();
      if (!are_finite(from, a.size())) {
        std::fill_n(to, b.size(), std::numeric_limits<T>::quiet_NaN());
      } else if (n > 0) {
        T* const factor = memory.as<T>() + k * a.size();
        std::copy_n(from, a.size(), factor);
        MatrixMap<T> in_place(factor, n, n);
        Eigen::Ref<Matrix<T>> packed(in_place);
        const Eigen::PartialPivLU<Eigen::Ref<Matrix<T>>> lu(packed);
        failed = has_zero_on_diagonal(factor, n);
        const ConstMap<T> right(call.in[1].as<const T>() + k * b.size(), n, b.n);
        MatrixMap<T> x(to, n, b.n);
        if (failed) x.setConstant(std::numeric_limits<T>::quiet_NaN());
        for_each_block(failed ? 0 : b.n, n, [&](int64_t first, int64_t width) {
          if (transpose)
            x.middleCols(first, width) = lu.transpose().solve(right.middleCols(first, width));
          else
            x.middleCols(first, width) = lu.solve(right.middleCols(first, width));
        });
      }
      call.out[1].as<bool>()[k] = failed;
    });
  }

  template <DType D>
  static void triangular(const Call& call) {
    using T = CppTypeOf<D>;
    const MatrixBatch s(call.in[0].meta), b(call.in[1].meta);
    const int64_t n = s.n;
    const TriangularAttrs& t = call.attributes<TriangularAttrs>();
    for_each_matrix(s.count, n, n, b.n, [&](int64_t k) {
      const T* const from = call.in[0].as<const T>() + k * s.size();
      T* const to = call.out[0].as<T>() + k * b.size();
      const bool failed = !t.unit_diagonal && has_zero_on_diagonal(from, n);
      if (failed) {
        std::fill_n(to, b.size(), std::numeric_limits<T>::quiet_NaN());
      } else if (b.size() > 0) {
        std::copy_n(call.in[1].as<const T>() + k * b.size(), b.size(), to);
        const ConstMap<T> a(from, n, n);
        MatrixMap<T> columns(to, n, b.n);
        for_each_block(b.n, n, [&](int64_t first, int64_t width) {
          auto x = columns.middleCols(first, width);
          if (t.transpose && t.upper)
            solve_in_place<Eigen::Lower>(a.transpose(), x, t.unit_diagonal);
          else if (t.transpose)
            solve_in_place<Eigen::Upper>(a.transpose(), x, t.unit_diagonal);
          else if (t.upper)
            solve_in_place<Eigen::Upper>(a, x, t.unit_diagonal);
          else
            solve_in_place<Eigen::Lower>(a, x, t.unit_diagonal);
        });
      }
      call.out[1].as<bool>()[k] = failed;
    });
  }

  template <DType D>
  static void lu(const Call& call) {
    using T = CppTypeOf<D>;
    const MatrixBatch s(call.in[0].meta);
    const int64_t pivot_count = std::min(s.m, s.n);
    const Scratch swaps(call, static_cast<size_t>(s.count * pivot_count) * sizeof(int64_t));
    for_each_matrix(s.count, s.m, s.n, pivot_count, [&](int64_t k) {
      const T* const from = call.in[0].as<const T>() + k * s.size();
      T* const to = call.out[0].as<T>() + k * s.size();
      int64_t* const exchanged_rows = swaps.as<int64_t>() + k * pivot_count;
      int64_t* const rows = call.out[1].as<int64_t>() + k * s.m;
      int64_t exchanges = 0;
      std::iota(rows, rows + s.m, int64_t{0});
      if (!are_finite(from, s.size())) {
        std::fill_n(to, s.size(), std::numeric_limits<T>::quiet_NaN());
        call.out[2].as<T>()[k] = 1;
        return;
      }
      std::copy_n(from, s.size(), to);
      if (pivot_count > 0)
        Eigen::internal::partial_lu_impl<T, Eigen::RowMajor, int64_t>::blocked_lu(
            s.m, pivot_count, to, s.n, exchanged_rows, exchanges);
      if (s.n > pivot_count && pivot_count > 0) {  // columns on the right of the square part
        Eigen::Map<Matrix<T>, 0, Eigen::OuterStride<>> right(
            to + pivot_count, s.m, s.n - pivot_count, Eigen::OuterStride<>(s.n));
        for (int64_t i = 0; i < pivot_count; ++i) right.row(i).swap(right.row(exchanged_rows[i]));
        const Eigen::Map<const Matrix<T>, 0, Eigen::OuterStride<>> square(
            to, pivot_count, pivot_count, Eigen::OuterStride<>(s.n));
        square.template triangularView<Eigen::UnitLower>().solveInPlace(right);
      }
      for (int64_t i = 0; i < pivot_count; ++i) std::swap(rows[i], rows[exchanged_rows[i]]);
      call.out[2].as<T>()[k] = exchanges % 2 == 0 ? T{1} : T{-1};
    });
  }
};

}  // namespace

extern constinit const KernelList linalg = linalg_kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
