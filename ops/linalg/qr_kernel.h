// QR decompositions by Householder reflections, for the host and for nvcc. A batch of matrices is
// contiguous and row-major. Ops: qr (results q, r), qr_r (result r, of the reduced form).
//
// Kernels scale each column by a power of 2 before they factor. The scale is exact, changes only
// the same column of r, and keeps squares from overflowing and from vanishing.
#pragma once

#include <cmath>

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/linalg/linalg_kernel.h>

namespace locus {

struct QrAttrs {
  bool complete = false;  // q is square
};

// The power of 2 by which a column is divided. `largest` is the column's largest absolute value.
template <class T>
LOCUS_HD T column_scale(T largest) {
  if (!(largest > 0)) return T{1};
  constexpr int kMaxExponent = sizeof(T) == 4 ? 126 : 1022;  // the inverse is a normal number, too
  const int exponent = std::ilogb(largest);
  return std::ldexp(T{1}, exponent > kMaxExponent    ? kMaxExponent
                          : exponent < -kMaxExponent ? -kMaxExponent
                                                     : exponent);
}

// The sizes of a decomposition of m x n matrices: q is m x columns, r is rows x n.
struct QrSizes {
  int64_t count, m, n;
  int64_t reflections;    // the smaller of m and n
  int64_t columns, rows;  // 0 columns: without q

  LOCUS_HD QrSizes(const MatrixBatch& s, bool complete, bool with_q)
      : count(s.count),
        m(s.m),
        n(s.n),
        reflections(m < n ? m : n),
        columns(!with_q    ? 0
                : complete ? m
                           : reflections),
        rows(complete ? m : reflections) {}
  LOCUS_HD int64_t width() const { return n > columns ? n : columns; }  // columns of work memory
};

template <class Backend>
constexpr KernelList qr_kernels() {
  constexpr DTypes<f32, f64> kTypes;
  KernelList list;
  list.add_each("qr", kTypes, [](auto d) { return Backend::template qr<d>; });
  list.add_each("qr_r", kTypes, [](auto d) { return Backend::template qr_r<d>; });
  return list;
}

}  // namespace locus
