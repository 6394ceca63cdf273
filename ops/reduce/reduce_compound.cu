#include <locus/ops/reduce/compound.h>
#include <locus/ops/reduce/reduce_cuda.h>

namespace locus::cuda {

extern constinit const KernelList reduce_compound = formula::kernels_of<Engine>(Compound());

}  // namespace locus::cuda
