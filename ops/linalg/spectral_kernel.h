// Attributes of eigh, eigvalsh, svd and svdvals, and the rule of their signs, for the host and for
// nvcc. A batch of matrices is contiguous and row-major. `failed` is bool, one element per matrix.
//
// svd of a tall a of f32, by the eigenvalues of a' a in f64: the columns of v are the eigenvectors,
// and a v = u r is a QR decomposition. The columns of a v are orthogonal, so r is diagonal. Its
// elements are the roots of the eigenvalues. Rounding in f64 changes them by about 1e-8 times the
// largest, which is less than the rounding of a to f32. u is orthonormal for any v.
#pragma once

#include <locus/ops/linalg/linalg_kernel.h>

namespace locus {

struct EighAttrs {
  bool upper = false;  // the upper triangle is read
};
struct SvdAttrs {
  bool full_matrices = false;
};

// The first large component of a vector becomes positive. A component is large if its absolute
// value is at least this fraction of the largest one. Components that differ by rounding alone are
// large on every context.
inline constexpr double kLargeFraction = 1 - 0x1p-8;

template <class Backend>
constexpr KernelList spectral_kernels() {
  constexpr DTypes<f32, f64> kTypes;
  KernelList list;
  list.add_each("eigh", kTypes, [](auto d) { return Backend::template eigh<d>; });
  list.add_each("eigvalsh", kTypes, [](auto d) { return Backend::template eigvalsh<d>; });
  list.add_each("svd", kTypes, [](auto d) { return Backend::template svd<d>; });
  list.add_each("svdvals", kTypes, [](auto d) { return Backend::template svdvals<d>; });
  return list;
}

}  // namespace locus
