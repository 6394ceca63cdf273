// CUDA kernels of the activations and of their gradients.
#include <locus/ops/elementwise/activation_kernel.h>
#include <locus/ops/elementwise/elementwise_gpu.h>

namespace locus::cuda {
extern constinit const KernelList activation = elementwise_kernels(formula::ActivationOps());
}  // namespace locus::cuda
