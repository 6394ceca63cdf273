#include <locus/ops/reduce/reduce_cuda.h>

namespace locus::cuda {

extern constinit const KernelList reduce = reduce_kernels<Backend>();

}  // namespace locus::cuda
