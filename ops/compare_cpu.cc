// CPU kernels of comparisons, logic and where.
#include <locus/ops/compare_kernel.h>
#include <locus/ops/elementwise_cpu.h>

namespace locus::LOCUS_ISA {
namespace {
constexpr ElementwiseTable<formula::CompareOps> kTable;
}
extern const KernelTable compare;
const KernelTable compare{kTable.entries, kTable.kSize};
}  // namespace locus::LOCUS_ISA
