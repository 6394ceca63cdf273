// CPU kernels of the trigonometric ops.
#include <locus/ops/elementwise_cpu.h>
#include <locus/ops/trigonometry_kernel.h>

namespace locus::LOCUS_ISA {
namespace {
constexpr ElementwiseTable<formula::TrigonometricOps> kTable;
}
extern const KernelTable trigonometry;
const KernelTable trigonometry{kTable.entries, kTable.kSize};
}  // namespace locus::LOCUS_ISA
