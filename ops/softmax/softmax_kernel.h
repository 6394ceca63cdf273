// What the softmax kernels of every device share.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/kernel/ids.h>
#include <locus/ops/kernel/walk.h>

namespace locus {

struct SoftmaxAttrs {
  int32_t axis = 0;  // not negative
  double temperature = 1;
};

// A class label; kNaN where a floating one is not whole.
LOCUS_HD int64_t label_at(const View& labels, int64_t i) {
  return id_at(labels.data, labels.meta.dtype, i, true);
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
[[noreturn]] void throw_label_out_of_range(int64_t label, DType d, int64_t row, int64_t classes);

}  // namespace locus
