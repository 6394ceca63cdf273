#include <locus/ops/reduce/extreme.h>
#include <locus/ops/reduce/reduce_cuda.h>

namespace locus::cuda {

extern constinit const KernelList reduce_extreme = formula::kernels_of<Engine>(Extremes());

}  // namespace locus::cuda
