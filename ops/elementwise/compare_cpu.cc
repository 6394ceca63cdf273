// CPU kernels of comparisons, logic and where.
#include <locus/ops/elementwise/compare_kernel.h>
#include <locus/ops/elementwise/elementwise_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
extern constinit const KernelList compare = elementwise_kernels(formula::CompareOps());
}  // namespace locus::LOCUS_ISA_NAMESPACE
