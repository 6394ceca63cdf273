#include <locus/ops/reduce/position.h>
#include <locus/ops/reduce/reduce_cuda.h>

namespace locus::cuda {

extern constinit const KernelList reduce_arg = formula::kernels_of<Engine>(Positions());

}  // namespace locus::cuda
