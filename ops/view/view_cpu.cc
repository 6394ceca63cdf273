#include <locus/ops/kernel/copy.h>
#include <locus/ops/view/view_kernel.h>

namespace locus::LOCUS_ISA {
namespace {

struct Backend {
  static void slice_grad(const Call& call) {
    const SlicePlace& at = call.attributes<SliceGradAttrs>();
    zero_view(call.out[0]);
    if (call.in[0].meta.size() == 0) return;
    copy_view(call.in[0], slice_of(call.out[0], call.in[0].meta, at));
  }
};

}  // namespace

extern constinit const KernelList view = view_kernels<Backend>();

}  // namespace locus::LOCUS_ISA
