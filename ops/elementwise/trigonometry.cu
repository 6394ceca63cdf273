// CUDA kernels of the trigonometric ops.
#include <locus/ops/elementwise/elementwise_gpu.h>
#include <locus/ops/elementwise/trigonometry_kernel.h>

namespace locus::cuda {
extern constinit const KernelList trigonometry = elementwise_kernels(formula::TrigonometricOps());
}  // namespace locus::cuda
