#include <locus/ops/gather/gather_kernel.h>
#include <locus/ops/index/scatter_cuda.h>
#include <locus/ops/kernel/copy.h>

namespace locus::cuda {
namespace {

// Inputs: x, values, indices.
struct Backend {
  static void start(const Call& call) {
    if (call.out[0].data != call.in[0].data) Views::copy(call.in[0], call.out[0], call.stream);
  }

  template <class T>
  static void index_add(const Call& call) {
    start(call);
    scatter(call, call.out[0], call.in[1], call.in + 2, call.attributes<TakeAttrs>(),
            combine_places<T, true>);
  }

  static void index_put(const Call& call) {
    start(call);
    by_size(size_of(call.out[0].meta.dtype), [&](auto word) {
      scatter(call, call.out[0], call.in[1], call.in + 2, call.attributes<TakeAttrs>(),
              combine_places<decltype(word), false>);
    });
  }
};

}  // namespace

extern constinit const KernelList gather = gather_kernels<Backend>();

}  // namespace locus::cuda
