// CUDA kernels of the unary ops that are arithmetic, exponentials and logarithms.
#include <locus/ops/elementwise/elementwise_gpu.h>
#include <locus/ops/elementwise/unary_kernel.h>

namespace locus::cuda {
extern constinit const KernelList unary = elementwise_kernels(formula::UnaryOps());
}  // namespace locus::cuda
