// CUDA kernels of the trigonometric ops.
#include <locus/ops/elementwise_gpu.h>
#include <locus/ops/trigonometry_kernel.h>

namespace locus::cuda {
namespace {
constexpr ElementwiseTable<formula::TrigonometricOps> kTable;
}
extern const KernelTable trigonometry;
const KernelTable trigonometry{kTable.entries, kTable.kSize};
}  // namespace locus::cuda
