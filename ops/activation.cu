// CUDA kernels of the unary ops that are exponentials, logarithms and activations, and of the
// activations' gradients.
#include <locus/ops/elementwise_gpu.h>
#include <locus/ops/unary_kernel.h>

namespace locus::cuda {
namespace {
constexpr ElementwiseTable<formula::Join<
    formula::ExponentialOps, formula::Join<formula::ActivationOps, formula::UnaryGradOps>>>
    kTable;
}
extern const KernelTable activation;
const KernelTable activation{kTable.entries, kTable.kSize};
}  // namespace locus::cuda
