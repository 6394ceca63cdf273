#include <cuda_runtime.h>

#include <locus/ops/join/join_kernel.h>
#include <locus/ops/kernel/copy_gpu.h>

namespace locus::cuda {
namespace {

struct Backend {
  static void join(const Call& call) {
    int64_t begin = 0;
    for (int i = 0; i < call.n_in; ++i) {
      const int axis = call.attributes<ConcatAttrs>().axis;
      copy_view(call.in[i], next_part(call.out[0], call.in[i], axis, begin), call.stream);
    }
  }
};

}  // namespace

extern constinit const KernelList join = join_kernels<Backend>();

}  // namespace locus::cuda
