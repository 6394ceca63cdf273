// CPU kernels of the unary ops.
#include <locus/ops/elementwise_cpu.h>
#include <locus/ops/unary_kernel.h>

namespace locus::LOCUS_ISA {
namespace {
constexpr ElementwiseTable<formula::Join<formula::UnaryOps, formula::UnaryGradOps>> kTable;
}
extern const KernelTable unary;
const KernelTable unary{kTable.entries, kTable.kSize};
}  // namespace locus::LOCUS_ISA
