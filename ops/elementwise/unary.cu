// CUDA kernels of the unary ops that are arithmetic; activation.cu has the others.
#include <locus/ops/elementwise/elementwise_gpu.h>
#include <locus/ops/elementwise/unary_kernel.h>

namespace locus::cuda {
extern constinit const KernelList unary = elementwise_kernels(formula::ArithmeticOps());
}  // namespace locus::cuda
