#include <locus/ops/reduce/reduce_cuda.h>

namespace locus::cuda {

extern constinit const KernelList reduce_arg = reduce_arg_kernels<Backend>();

}  // namespace locus::cuda
