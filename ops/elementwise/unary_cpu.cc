// CPU kernels of the unary ops.
#include <locus/ops/elementwise/elementwise_cpu.h>
#include <locus/ops/elementwise/unary_kernel.h>

namespace locus::LOCUS_ISA {
extern constinit const KernelList unary =
    elementwise_kernels(formula::Join<formula::UnaryOps, formula::UnaryGradOps>());
}  // namespace locus::LOCUS_ISA
