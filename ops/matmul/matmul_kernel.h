// A product over strided views, for the kernels of matmul and dense. Host and device kernels
// include this, so it holds plain data.
#pragma once

#include <locus/core/kernel_list.h>
#include <locus/ops/kernel/walk.h>
#include <locus/ops/matmul_attrs.h>

namespace locus {

// c[m][n] = sum over k of a[m][k] * b[k][n] for each entry of the batch. Strides count elements and
// may be 0 (broadcast) or negative (flipped). c is row-major without gaps.
struct Product {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  int64_t m = 0, n = 0, k = 0;
  int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0;
  Walk<2> batch;  // of a and b
};

// Both operands have rank 2 or more. Batch axes broadcast from the right.
LOCUS_HD Product make_product(const View& a, const View& b, const View& c, MatmulAttrs attrs) {
  Product p;
  p.a = a.data;
  p.b = b.data;
  p.c = c.data;
  const int ra = a.meta.rank, rb = b.meta.rank, rc = c.meta.rank;
  const int am = attrs.transpose_a ? ra - 1 : ra - 2, ak = attrs.transpose_a ? ra - 2 : ra - 1;
  const int bk = attrs.transpose_b ? rb - 1 : rb - 2, bn = attrs.transpose_b ? rb - 2 : rb - 1;
  p.m = a.meta.shape[am];
  p.k = a.meta.shape[ak];
  p.n = b.meta.shape[bn];
  p.a_m = a.stride[am];
  p.a_k = a.stride[ak];
  p.b_k = b.stride[bk];
  p.b_n = b.stride[bn];
  for (int axis = 0; axis < rc - 2; ++axis) {
    const int ia = axis - (rc - ra), ib = axis - (rc - rb);
    const int64_t sa = ia >= 0 && a.meta.shape[ia] != 1 ? a.stride[ia] : 0;
    const int64_t sb = ib >= 0 && b.meta.shape[ib] != 1 ? b.stride[ib] : 0;
    p.batch.add(c.meta.shape[axis], {sa, sb});
  }
  p.batch.tidy();
  return p;
}

// A matrix whose rows or columns are contiguous, `ld` elements apart, as BLAS requires.
struct Leading {
  int64_t ld = 0;
  bool column_major = false;
  bool ok = false;
};
LOCUS_HD Leading leading(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
  Leading l;
  if ((column_stride == 1 || columns <= 1) && (row_stride >= columns || rows <= 1)) {
    l.ok = true;
    l.ld = rows <= 1 ? columns : row_stride;
  } else if ((row_stride == 1 || rows <= 1) && (column_stride >= rows || columns <= 1)) {
    l.ok = l.column_major = true;
    l.ld = columns <= 1 ? rows : column_stride;
  }
  if (l.ld < 1) l.ld = 1;
  return l;
}

template <class Backend>
constexpr KernelList matmul_kernels() {
  KernelList list;
  list.add_each("matmul", kNumberDTypes, [](auto d) { return Backend::template matmul<d>; });
  return list;
}
template <class Backend>
constexpr KernelList dense_kernels() {
  KernelList list;
  list.add_each("dense", kFloatDTypes, [](auto d) { return Backend::template dense<d>; });
  list.add_each("dense_backward", kFloatDTypes,
                [](auto d) { return Backend::template dense_backward<d>; });
  return list;
}

}  // namespace locus
