// Attributes of the kernels of linear algebra, for the host and for nvcc. A batch of matrices is
// contiguous and row-major. `failed` is bool, with one element per matrix.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>

namespace locus {

struct SolveAttrs {
  bool transpose = false;  // solve a' x = b
};
struct TriangularAttrs {
  bool upper = false, transpose = false, unit_diagonal = false;
};

// `count` matrices of m x n.
struct MatrixBatch {
  int64_t count, m, n;

  LOCUS_HD MatrixBatch(int64_t matrices, int64_t rows, int64_t columns)
      : count(matrices), m(rows), n(columns) {}
  LOCUS_HD explicit MatrixBatch(const Meta& x)
      : count(1), m(x.shape[x.rank - 2]), n(x.shape[x.rank - 1]) {
    for (int i = 0; i < x.rank - 2; ++i) count *= x.shape[i];
  }
  LOCUS_HD int64_t size() const { return m * n; }  // elements of one matrix
};

template <class Backend>
constexpr KernelList linalg_kernels() {
  constexpr DTypes<f32, f64> kTypes;
  KernelList list;
  list.add_each("cholesky", kTypes, [](auto d) { return Backend::template cholesky<d>; });
  list.add_each("solve", kTypes, [](auto d) { return Backend::template solve<d>; });
  list.add_each("solve_triangular", kTypes, [](auto d) { return Backend::template triangular<d>; });
  list.add_each("lu_factor", kTypes, [](auto d) { return Backend::template lu<d>; });
  return list;
}

}  // namespace locus
