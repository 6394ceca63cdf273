// Attributes and kernels of the index family, for the host and for nvcc.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/index/take_walk.h>
#include <locus/ops/kernel/copy.h>

namespace locus {

struct PickAttrs {
  int8_t axis = 0;
  uint8_t mode = 0;
  uint8_t keepdims = 0;
  int64_t length = 0;  // pick_grad: the axis's length
};
struct OneHotAttrs {
  int64_t depth = 1;
  double on = 1, off = 0;
  DType dtype = f32;
};
struct MaskFillAttrs {
  Scalar value = 0;
};
struct MaskAttrs {
  int64_t count = 0;  // ones in the mask
};
// Masks are counted in tiles of this many elements. mask_offsets holds the ones before each tile,
// then all ones.
inline constexpr int64_t kMaskTile = 512;
LOCUS_HD constexpr int64_t mask_tiles(int64_t n) { return (n + kMaskTile - 1) / kMaskTile; }

template <class Backend>
constexpr KernelList index_kernels() {
  KernelList list;
  list.add("take", kAllDTypes, Backend::take);
  list.add("put", kAllDTypes, Backend::put);
  list.add("pick", kAllDTypes, Backend::pick);
  list.add("pick_grad", kAllDTypes, Backend::pick_grad);
  list.add("one_hot", kAllDTypes, Backend::one_hot);
  list.add("mask_fill", kAllDTypes, Backend::mask_fill);
  return list;
}

template <class Backend>
constexpr KernelList mask_kernels() {
  KernelList list;
  list.add("mask_offsets", DTypes<bool_>{}, Backend::mask_offsets);
  list.add("mask_indices", DTypes<bool_>{}, Backend::mask_indices);
  list.add("mask_select", kAllDTypes, Backend::mask_select);
  list.add("mask_select_grad", kAllDTypes, Backend::mask_select_grad);
  return list;
}

}  // namespace locus
