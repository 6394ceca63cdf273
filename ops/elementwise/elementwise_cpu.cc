// CPU kernels of the binary ops.
#include <locus/ops/elementwise/elementwise_cpu.h>
#include <locus/ops/elementwise/elementwise_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
extern constinit const KernelList elementwise = elementwise_kernels(formula::BinaryOps());
}  // namespace locus::LOCUS_ISA_NAMESPACE
