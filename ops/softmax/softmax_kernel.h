// Shared by the softmax kernels of all devices.
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

// A class label; kNaN if it has a fraction.
LOCUS_HD int64_t label_at(const View& labels, int64_t i) {
  return id_at(labels.data, labels.meta.dtype, i, true);
}

enum class SoftmaxMode {
  softmax,
  log_softmax,
  softmax_grad,
  log_softmax_grad,
  loss,
  loss_grad,
  loss_with_grad  // loss, and the gradient for losses that are a head
};

constexpr bool takes_labels(SoftmaxMode m) { return m >= SoftmaxMode::loss; }
template <class Backend, SoftmaxMode kMode>
constexpr void add_softmax(KernelList& list, const char* op) {
  list.add_each(op, kFloatDTypes, [](auto d) -> Kernel {
    if constexpr (takes_labels(kMode))
      return Backend::template cross_entropy<kMode, d>;
    else
      return Backend::template along_axis<kMode, d>;
  });
}
template <class Backend>
constexpr KernelList softmax_kernels() {
  using Mode = SoftmaxMode;
  KernelList list;
  add_softmax<Backend, Mode::softmax>(list, "softmax");
  add_softmax<Backend, Mode::log_softmax>(list, "log_softmax");
  add_softmax<Backend, Mode::softmax_grad>(list, "softmax_grad");
  add_softmax<Backend, Mode::log_softmax_grad>(list, "log_softmax_grad");
  add_softmax<Backend, Mode::loss>(list, "softmax_cross_entropy");
  add_softmax<Backend, Mode::loss_grad>(list, "softmax_cross_entropy_grad");
  add_softmax<Backend, Mode::loss_with_grad>(list, "softmax_cross_entropy_with_grad");
  return list;
}

// In softmax.cc, so that the files of each instruction set stay free of the standard containers.
[[noreturn]] void throw_label_out_of_range(int64_t label, DType d, int64_t row, int64_t classes);

}  // namespace locus
