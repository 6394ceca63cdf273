// KernelList lists the kernels of an op family once, for all device types.
//
// <family>_kernel.h defines a function template over Backend. A Backend is a struct whose static
// members are the kernels of one device type. The template lists each op's kernels and dtypes:
//
//   template <class Backend>
//   constexpr KernelList axpby_kernels() {
//     KernelList list;
//     list.add("axpby", kNumberDTypes, Backend::axpby);  // one kernel for all dtypes
//     list.add_each("axpby_grad", kFloatDTypes,          // one kernel per dtype
//                   [](auto d) { return Backend::template axpby_grad<d>; });
//     return list;
//   }
//
// <family>_cpu.cc and <family>.cu each define a Backend, and its list:
//
//   extern constinit const KernelList axpby = axpby_kernels<Backend>();
//
// The build finds these lines and registers the lists. If a Backend lacks a kernel, the code does
// not compile. An entry for one device type only is written under `if constexpr` on a constant of
// the Backend.
#pragma once

#include <type_traits>

#include <locus/core/kernel.h>

namespace locus {

template <DType... D>
struct DTypes {};
inline constexpr DTypes<f32, f64, f16, bf16> kFloatDTypes;
inline constexpr DTypes<f32, f64, f16, bf16, i32, i64, u8, i8> kNumberDTypes;
inline constexpr DTypes<f32, f64, f16, bf16, i32, i64, u8, i8, bool_> kAllDTypes;

struct KernelEntry {
  const char* op = nullptr;
  Kernel kernels[kNumDTypes] = {};  // null: no kernel
};

// Plain data. Files compiled for another instruction set or by nvcc must run no start-up code.
struct KernelList {
  static constexpr int kCapacity = 40;  // more entries do not compile
  KernelEntry entries[kCapacity] = {};
  int size = 0;

  template <DType... D>
  constexpr void add(const char* op, DTypes<D...>, Kernel kernel) {
    KernelEntry& entry = entry_of(op);
    ((entry.kernels[static_cast<int>(D)] = kernel), ...);
  }
  // kernel_of(d) returns the kernel for dtype d; d is a constant, usable as template argument.
  template <DType... D, class F>
  constexpr void add_each(const char* op, DTypes<D...>, F kernel_of) {
    KernelEntry& entry = entry_of(op);
    ((entry.kernels[static_cast<int>(D)] = kernel_of(std::integral_constant<DType, D>{})), ...);
  }

 private:
  constexpr KernelEntry& entry_of(const char* op) {
    for (int i = 0; i < size; ++i)
      if (std::string_view(entries[i].op) == op) return entries[i];
    if (size == kCapacity) throw kCapacity;  // not a constant, so it does not compile
    entries[size].op = op;
    return entries[size++];
  }
};

}  // namespace locus
