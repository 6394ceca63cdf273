// Reductions of many tensors at once, to one f64 each or one for all, in an order that depends only
// on the shapes. And clipping.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/optim/optim_kernel.h>

namespace locus {

struct SumSquares {
  static constexpr bool kEach = true;  // one result per tensor
  static constexpr double kInit = 0;
  template <class A>
  LOCUS_HD static double of(A x) {
    return static_cast<double>(x) * static_cast<double>(x);
  }
  LOCUS_HD static double combine(double a, double b) { return a + b; }
};

struct AllFinite {
  static constexpr bool kEach = false;
  static constexpr double kInit = 1;
  template <class A>
  LOCUS_HD static double of(A x) {
    return x - x == A(0) ? 1.0 : 0.0;
  }
  LOCUS_HD static double combine(double a, double b) { return a < b ? a : b; }
};

struct MultiClipAttrs {
  double max_norm = -1;  // limits the norm of all elements together; negative: no limit
  double limit = -1;     // then limits each element to [-limit, limit]; negative: no limit
};
// The factor of all elements; 1 if the norm is not finite. 1e-8 is MXNet's.
LOCUS_HD double clip_factor(const double* norm, const MultiClipAttrs& a) {
  if (!norm || *norm - *norm != 0) return 1;
  const double factor = a.max_norm / (*norm + 1e-8);
  return factor < 1 ? factor : 1;
}

template <class Backend>
constexpr KernelList optim_multi_kernels() {
  KernelList list;
  list.add_each("multi_sum_sq", kFloatDTypes,
                [](auto d) { return Backend::template reduce<CppTypeOf<d>, SumSquares>; });
  list.add_each("multi_all_finite", kFloatDTypes,
                [](auto d) { return Backend::template reduce<CppTypeOf<d>, AllFinite>; });
  list.add_each("multi_clip", kFloatDTypes,
                [](auto d) { return Backend::template clip<CppTypeOf<d>>; });
  return list;
}

}  // namespace locus
