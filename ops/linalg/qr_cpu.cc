#include <algorithm>
#include <cmath>
#include <limits>

#include <locus/core/scratch.h>
#include <locus/ops/linalg/qr_cpu.h>
#include <locus/ops/linalg/qr_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

// Memory of one decomposition.
template <class T>
struct Work {
  T *factor, *q;  // by columns
  T *scales, *coefficients, *signs;

  static int64_t size(const QrSizes& s) {
    return s.m * (s.n + s.columns) + s.n + s.reflections + std::max(s.reflections, s.columns);
  }
  Work(T* memory, const QrSizes& s)
      : factor(memory),
        q(factor + s.m * s.n),
        scales(q + s.m * s.columns),
        coefficients(scales + s.n),
        signs(coefficients + s.reflections) {}
};

// Copies a matrix by columns, each divided by its scale. Whether all elements are finite.
template <class T>
bool load_scaled(const T* from, const QrSizes& s, const Work<T>& w) {
  std::fill_n(w.scales, s.n, T{0});
  bool finite = true;
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = 0; j < s.n; ++j) {
      const T x = std::abs(from[i * s.n + j]);
      finite = finite && x <= std::numeric_limits<T>::max();
      w.scales[j] = std::max(w.scales[j], x);
    }
  for (int64_t j = 0; j < s.n; ++j) {
    w.scales[j] = column_scale(w.scales[j]);
    const T inverse = 1 / w.scales[j];
    for (int64_t i = 0; i < s.m; ++i) w.factor[j * s.m + i] = from[i * s.n + j] * inverse;
  }
  return finite;
}

template <class T>
void decompose(const T* from, T* q, T* r, const QrSizes& s, const Work<T>& w) {
  const bool finite = load_scaled(from, s, w);
  ColumnMap<T> factor(w.factor, s.m, s.n), columns(w.q, s.m, s.columns);
  VectorMap<T> coefficients(w.coefficients, s.reflections);
  if (finite && s.reflections > 0) factor_qr(factor, coefficients);
  const int64_t signs = std::max(s.reflections, s.columns);
  for (int64_t i = 0; i < signs; ++i)
    w.signs[i] = !finite ? std::numeric_limits<T>::quiet_NaN()
                 : i < s.reflections && w.factor[i * s.m + i] < 0 ? T{-1}
                                                                  : T{1};
  for (int64_t i = 0; i < s.rows; ++i)
    for (int64_t j = 0; j < s.n; ++j)
      r[i * s.n + j] = j < i ? T{0} : w.signs[i] * w.factor[j * s.m + i] * w.scales[j];
  if (s.columns == 0) return;
  if (finite) {
    form_q(factor, coefficients, columns);
  } else {
    std::fill_n(w.q, s.m * s.columns, T{0});
  }
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = 0; j < s.columns; ++j) q[i * s.columns + j] = w.signs[j] * w.q[j * s.m + i];
}

template <class T>
void decompose_each(const Call& call, const QrSizes& s, T* q, T* r) {
  const int64_t size = Work<T>::size(s);
  const Scratch memory(call, static_cast<size_t>(s.count * size) * sizeof(T));
  const T* const from = call.in[0].as<const T>();
  for_each_matrix(s.count, s.m, s.n + s.columns, s.reflections, [&](int64_t k) {
    decompose(from + k * s.m * s.n, q + k * s.m * s.columns, r + k * s.rows * s.n, s,
              Work<T>(memory.as<T>() + k * size, s));
  });
}

struct Backend {
  template <DType D>
  static void qr(const Call& call) {
    using T = CppTypeOf<D>;
    const QrSizes s(MatrixBatch(call.in[0].meta), call.attributes<QrAttrs>().complete, true);
    decompose_each(call, s, call.out[0].as<T>(), call.out[1].as<T>());
  }
  template <DType D>
  static void qr_r(const Call& call) {
    using T = CppTypeOf<D>;
    const QrSizes s(MatrixBatch(call.in[0].meta), false, false);
    decompose_each<T>(call, s, nullptr, call.out[0].as<T>());
  }
};

}  // namespace

extern constinit const KernelList qr = qr_kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
