// CUDA kernels of comparisons, logic and where.
#include <locus/ops/compare_kernel.h>
#include <locus/ops/elementwise_gpu.h>

namespace locus::cuda {
namespace {
constexpr ElementwiseTable<formula::CompareOps> kTable;
}
extern const KernelTable compare;
const KernelTable compare{kTable.entries, kTable.kSize};
}  // namespace locus::cuda
