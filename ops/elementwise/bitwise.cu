// CUDA kernels of the bitwise ops.
#include <locus/ops/elementwise/bitwise_kernel.h>
#include <locus/ops/elementwise/elementwise_gpu.h>

namespace locus::cuda {
extern constinit const KernelList bitwise = elementwise_kernels(formula::BitwiseOps());
}  // namespace locus::cuda
