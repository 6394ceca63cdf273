// CUDA kernels of comparisons, logic and where.
#include <locus/ops/elementwise/compare_kernel.h>
#include <locus/ops/elementwise/elementwise_gpu.h>

namespace locus::cuda {
extern constinit const KernelList compare = elementwise_kernels(formula::CompareOps());
}  // namespace locus::cuda
