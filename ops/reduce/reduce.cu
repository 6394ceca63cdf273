#include <locus/ops/reduce/reduce_cuda.h>
#include <locus/ops/reduce/sum_to.h>

namespace locus::cuda {

extern constinit const KernelList reduce = formula::kernels_of<Engine>(Sums());
extern constinit const KernelList sum_to = sum_to_kernels<Engine>();

}  // namespace locus::cuda
