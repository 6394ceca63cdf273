#include <locus/ops/kernel/copy.h>
#include <locus/ops/reduce/reduce_cuda.h>
#include <locus/ops/statistics/nan.h>

namespace locus::cuda {
namespace {

struct CountEngine {
  template <class R, DType>
  static constexpr Kernel kernel() {
    return &count;
  }

 private:
  static void count(const Call& call) {
    const DType d = call.in[0].meta.dtype;
    const uint32_t axes = call.attributes<ReduceBy<CountNonzero>>().axes;
    by_size(size_of(d),
            [&](auto word) { launch_reduce<decltype(word)>(call, axes, CountWords(d)); });
  }
};

}  // namespace

extern constinit const KernelList nan_reductions = formula::kernels_of<Engine>(NanReductions());
extern constinit const KernelList counts = formula::kernels_of<CountEngine>(Counts());

}  // namespace locus::cuda
