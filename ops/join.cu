#include <cuda_runtime.h>

#include <locus/ops/copy_gpu.h>
#include <locus/ops/join_kernel.h>

namespace locus::cuda {
namespace {

void concat(const Call& call) {
  const int axis = call.attributes<ConcatAttrs>().axis;
  int64_t begin = 0;
  for (int i = 0; i < call.n_in; ++i) {
    copy_view(call.in[i], concat_part(call.out[0], call.in[i], axis, begin), call.stream);
    begin += call.in[i].meta.shape[axis];
  }
}

const KernelEntry kEntries[] = {
    {"concat", f32, &concat},  {"concat", f64, &concat}, {"concat", f16, &concat},
    {"concat", bf16, &concat}, {"concat", i32, &concat}, {"concat", i64, &concat},
    {"concat", u8, &concat},   {"concat", i8, &concat},  {"concat", bool_, &concat},
};

}  // namespace

extern const KernelTable join;
const KernelTable join{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace locus::cuda
