// How a family lists its kernels: once, for every kind of device.
//
// <family>_kernel.h says which op has kernels for which dtypes, in a function template over
// Backend, a struct whose static members are the kernels of one kind of device:
//   template <class Backend>
//   constexpr KernelList axpby_kernels() {
//     KernelList list;
//     list.add("axpby", kNumberDTypes, Backend::axpby);  // one kernel for all of them
//     list.add_each("axpby_grad", kFloatDTypes,          // one kernel a dtype
//                   [](auto d) { return Backend::template axpby_grad<d>; });
//     return list;
//   }
// <family>_cpu.cc and <family>.cu each define a Backend, and a KernelTable of the list made from
// it. A kernel that a Backend lacks does not compile. An entry that only one kind of device is to
// have stands in the list as well, under `if constexpr` on a constant of the Backend.
#pragma once

#include <type_traits>

#include <locus/core/kernel.h>

namespace locus {

template <DType... D>
struct DTypes {};
inline constexpr DTypes<f32, f64, f16, bf16> kFloatDTypes;
inline constexpr DTypes<f32, f64, f16, bf16, i32, i64, u8, i8> kNumberDTypes;
inline constexpr DTypes<f32, f64, f16, bf16, i32, i64, u8, i8, bool_> kAllDTypes;

struct KernelList {
  static constexpr int kCapacity = 64;  // an entry more does not compile
  KernelEntry entries[kCapacity] = {};
  int size = 0;

  template <DType... D>
  constexpr void add(const char* op, DTypes<D...>, Kernel kernel) {
    ((entries[size++] = {op, D, kernel}), ...);
  }
  // kernel_of(d) is the kernel for dtype d, a constant: it can be a template argument.
  template <DType... D, class F>
  constexpr void add_each(const char* op, DTypes<D...>, F kernel_of) {
    ((entries[size++] = {op, D, kernel_of(std::integral_constant<DType, D>{})}), ...);
  }
};

}  // namespace locus
