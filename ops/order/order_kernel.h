// Attributes and keys of the order family, for the host and for nvcc.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/kernel/copy.h>
#include <locus/ops/kernel/ids.h>
#include <locus/ops/kernel/walk.h>

namespace locus {

inline constexpr int kMaxKth = 16;

struct SortAttrs {
  int32_t axis = 0;  // not negative
  uint8_t descending = 0;
};
struct TopkAttrs {
  int32_t axis = 0;
  uint8_t largest = 1;
  int64_t k = 1;
};
struct PartitionAttrs {
  int32_t axis = 0;
  int32_t n = 1;              // positions in use
  int64_t kth[kMaxKth] = {};  // from 0
};
struct ScatterAttrs {
  int32_t axis = 0;
  int64_t length = 1;  // of the result along the axis
};

// Maps the bits of an element to an unsigned number that orders as elements sort: NaN last, -0 as
// 0. W: an unsigned type of the element's width.
template <class W, bool kFloats>
struct KeyMap {
  W sign = 0;      // the sign's bit; 0: none
  W infinity = 0;  // floating: its bits
  W flip = 0;      // all bits: descending

  LOCUS_HD W operator()(W x) const {
    if constexpr (kFloats) {  // without branches, which would depend on the data
      constexpr int kTop = 8 * sizeof(W) - 1;
      const W magnitude = static_cast<W>(x & static_cast<W>(~sign));
      const W negative = static_cast<W>(W{0} - static_cast<W>(x >> kTop));
      const W key = static_cast<W>((x ^ (negative | sign)) + (x == sign));
      const W nan = static_cast<W>(W{0} - static_cast<W>(magnitude > infinity));
      return static_cast<W>((key ^ flip) | nan);
    } else {
      return static_cast<W>(x ^ sign ^ flip);
    }
  }
  // An element that has the key.
  LOCUS_HD W element(W key) const {
    const W k = static_cast<W>(key ^ flip);
    if constexpr (!kFloats) return static_cast<W>(k ^ sign);
    if (key == static_cast<W>(~W{0})) return static_cast<W>(key ^ sign);  // NaN
    return static_cast<W>(k & sign ? k ^ sign : ~k);
  }
};

// Calls f with the KeyMap of a dtype.
[[gnu::always_inline]] inline void by_key(DType d, bool descending, const auto& f) {
  const auto run = [&](auto word, auto floats, uint64_t infinity, bool is_signed) {
    using W = decltype(word);
    KeyMap<W, decltype(floats)::value> key;
    key.sign = is_signed ? static_cast<W>(W{1} << (8 * sizeof(W) - 1)) : W{0};
    key.infinity = static_cast<W>(infinity);
    key.flip = descending ? static_cast<W>(~W{0}) : W{0};
    f(key);
  };
  switch (d) {
    case f32:
      return run(uint32_t{}, std::true_type(), 0x7f800000, true);
    case f64:
      return run(uint64_t{}, std::true_type(), 0x7ff0000000000000, true);
    case f16:
      return run(uint16_t{}, std::true_type(), 0x7c00, true);
    case bf16:
      return run(uint16_t{}, std::true_type(), 0x7f80, true);
    case i32:
      return run(uint32_t{}, std::false_type(), 0, true);
    case i64:
      return run(uint64_t{}, std::false_type(), 0, true);
    default:
      return run(uint8_t{}, std::false_type(), 0, d == i8);
  }
}

template <class Backend>
constexpr KernelList order_kernels() {
  KernelList list;
  list.add("sort", kAllDTypes, Backend::sort);
  list.add("argsort", kAllDTypes, Backend::argsort);
  list.add("topk", kAllDTypes, Backend::topk);
  list.add("partition", kAllDTypes, Backend::partition);
  list.add("argpartition", kAllDTypes, Backend::argpartition);
  list.add("order_select", kAllDTypes, Backend::select);
  list.add("order_scatter", kAllDTypes, Backend::scatter);
  return list;
}

}  // namespace locus
