// CUDA kernels of the unary ops that are exponentials, logarithms and activations, and of the
// activations' gradients.
#include <locus/ops/elementwise/elementwise_gpu.h>
#include <locus/ops/elementwise/unary_kernel.h>

namespace locus::cuda {
extern constinit const KernelList activation = elementwise_kernels(
    formula::Join<formula::ExponentialOps,
                  formula::Join<formula::ActivationOps, formula::UnaryGradOps>>());
}  // namespace locus::cuda
