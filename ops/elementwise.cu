// CUDA kernels of the binary ops.
#include <locus/ops/elementwise_gpu.h>

namespace locus::cuda {
namespace {
constexpr ElementwiseTable<formula::BinaryOps> kTable;
}
extern const KernelTable elementwise;
const KernelTable elementwise{kTable.entries, kTable.kSize};
}  // namespace locus::cuda
