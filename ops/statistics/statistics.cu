#include <locus/ops/reduce/reduce_cuda.h>
#include <locus/ops/statistics/nan.h>

namespace locus::cuda {

extern constinit const KernelList nan_reductions = formula::kernels_of<Engine>(NanReductions());
extern constinit const KernelList counts = formula::kernels_of<Engine>(Counts());

}  // namespace locus::cuda
