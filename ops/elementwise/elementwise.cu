// CUDA kernels of the binary ops.
#include <locus/ops/elementwise/elementwise_gpu.h>
#include <locus/ops/elementwise/elementwise_kernel.h>

namespace locus::cuda {
extern constinit const KernelList elementwise = elementwise_kernels(formula::BinaryOps());
}  // namespace locus::cuda
