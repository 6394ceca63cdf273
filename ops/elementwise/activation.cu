// CUDA kernels of the unary ops that are exponentials, logarithms and activations.
#include <locus/ops/elementwise/activation_kernel.h>
#include <locus/ops/elementwise/elementwise_gpu.h>
#include <locus/ops/elementwise/unary_kernel.h>

namespace locus::cuda {
extern constinit const KernelList activation = elementwise_kernels(formula::ActivationOps());
extern constinit const KernelList exponential = elementwise_kernels(formula::ExponentialOps());
}  // namespace locus::cuda
