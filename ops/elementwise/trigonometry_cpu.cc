// CPU kernels of the trigonometric ops.
#include <locus/ops/elementwise/elementwise_cpu.h>
#include <locus/ops/elementwise/trigonometry_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
extern constinit const KernelList trigonometry = elementwise_kernels(formula::TrigonometricOps());
}  // namespace locus::LOCUS_ISA_NAMESPACE
