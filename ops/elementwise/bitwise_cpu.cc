// CPU kernels of the bitwise ops.
#include <locus/ops/elementwise/bitwise_kernel.h>
#include <locus/ops/elementwise/elementwise_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
extern constinit const KernelList bitwise = elementwise_kernels(formula::BitwiseOps());
}  // namespace locus::LOCUS_ISA_NAMESPACE
