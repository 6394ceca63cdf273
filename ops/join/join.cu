#include <locus/ops/join/join_kernel.h>

namespace locus::cuda {

extern constinit const KernelList join = join_kernels<Views>();

}  // namespace locus::cuda
