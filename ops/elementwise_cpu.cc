// CPU kernels of the binary ops.
#include <locus/ops/elementwise_cpu.h>

namespace locus::LOCUS_ISA {
namespace {
constexpr ElementwiseTable<formula::BinaryOps> kTable;
}
extern const KernelTable elementwise;
const KernelTable elementwise{kTable.entries, kTable.kSize};
}  // namespace locus::LOCUS_ISA
