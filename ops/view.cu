#include <cuda_runtime.h>

#include <locus/ops/copy_gpu.h>
#include <locus/ops/view_kernel.h>

namespace locus::cuda {
namespace {

void slice_grad(const Call& call) {
  const SliceGradAttrs& a = call.attributes<SliceGradAttrs>();
  zero_view(call.out[0], call.stream);
  if (call.in[0].meta.size() == 0) return;
  copy_view(call.in[0], slice_of(call.out[0], call.in[0].meta, a.begin, a.step, a.drop),
            call.stream);
}

const KernelEntry kEntries[] = {
    {"slice_grad", f32, &slice_grad},   {"slice_grad", f64, &slice_grad},
    {"slice_grad", f16, &slice_grad},   {"slice_grad", bf16, &slice_grad},
    {"slice_grad", i32, &slice_grad},   {"slice_grad", i64, &slice_grad},
    {"slice_grad", u8, &slice_grad},    {"slice_grad", i8, &slice_grad},
    {"slice_grad", bool_, &slice_grad},
};

}  // namespace

extern const KernelTable view;
const KernelTable view{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace locus::cuda
