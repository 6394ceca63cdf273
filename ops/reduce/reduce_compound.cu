#include <locus/ops/reduce/reduce_cuda.h>

namespace locus::cuda {

extern constinit const KernelList reduce_compound = reduce_compound_kernels<Backend>();

}  // namespace locus::cuda
