// What the softmax kernels of every device share.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>

namespace locus {

struct SoftmaxAttrs {
  int32_t axis = 0;  // not negative
  double temperature = 1;
};

// Memory of (outer, n, inner) elements: a softmax runs along n, on outer * inner rows.
struct SoftmaxShape {
  int64_t outer = 1, n = 1, inner = 1;

  LOCUS_HD SoftmaxShape(const Meta& m, int axis) {
    for (int i = 0; i < m.rank; ++i) (i < axis ? outer : i == axis ? n : inner) *= m.shape[i];
  }
  LOCUS_HD int64_t rows() const { return outer * inner; }
};

// Class labels of any of these dtypes; floating ones are cut toward zero. NaN gives -1.
LOCUS_HD constexpr bool is_label_dtype(DType d) {
  return d == u8 || d == i8 || d == i32 || d == i64 || d == f32 || d == f64;
}
template <class F>
LOCUS_HD int64_t whole_label(F v) {
  return v > F(-1) && v < F(1e15) ? static_cast<int64_t>(v) : int64_t{-1};
}
LOCUS_HD int64_t label_at(const View& labels, int64_t i) {
  switch (labels.meta.dtype) {
    case u8:
      return labels.as<const uint8_t>()[i];
    case i8:
      return labels.as<const int8_t>()[i];
    case i32:
      return labels.as<const int32_t>()[i];
    case f32:
      return whole_label(labels.as<const float>()[i]);
    case f64:
      return whole_label(labels.as<const double>()[i]);
    default:
      return labels.as<const int64_t>()[i];
  }
}

enum class SoftmaxMode { softmax, log_softmax, softmax_grad, log_softmax_grad, loss, loss_grad };

template <class Backend>
constexpr KernelList softmax_kernels() {
  using Mode = SoftmaxMode;
  KernelList list;
  list.add_each("softmax", kFloatDTypes,
                [](auto d) { return Backend::template along_axis<Mode::softmax, d>; });
  list.add_each("log_softmax", kFloatDTypes,
                [](auto d) { return Backend::template along_axis<Mode::log_softmax, d>; });
  list.add_each("softmax_grad", kFloatDTypes,
                [](auto d) { return Backend::template along_axis<Mode::softmax_grad, d>; });
  list.add_each("log_softmax_grad", kFloatDTypes,
                [](auto d) { return Backend::template along_axis<Mode::log_softmax_grad, d>; });
  list.add_each("softmax_cross_entropy", kFloatDTypes,
                [](auto d) { return Backend::template cross_entropy<Mode::loss, d>; });
  list.add_each("softmax_cross_entropy_grad", kFloatDTypes,
                [](auto d) { return Backend::template cross_entropy<Mode::loss_grad, d>; });
  return list;
}

// In softmax.cc, so that the files of each instruction set stay free of the standard containers.
[[noreturn]] void throw_label_out_of_range(int64_t label, int64_t row, int64_t classes);
[[noreturn]] void throw_out_of_memory(size_t bytes);

}  // namespace locus
