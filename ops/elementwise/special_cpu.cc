// CPU kernels of the special functions.
#include <locus/ops/elementwise/elementwise_cpu.h>
#include <locus/ops/elementwise/special_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
extern constinit const KernelList special = elementwise_kernels(formula::SpecialOps());
}  // namespace locus::LOCUS_ISA_NAMESPACE
