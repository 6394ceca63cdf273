// CUDA kernels of the special functions.
#include <locus/ops/elementwise/elementwise_gpu.h>
#include <locus/ops/elementwise/special_kernel.h>

namespace locus::cuda {
extern constinit const KernelList special = elementwise_kernels(formula::SpecialOps());
}  // namespace locus::cuda
