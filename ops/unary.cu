// CUDA kernels of the unary ops that are arithmetic; activation.cu has the others.
#include <locus/ops/elementwise_gpu.h>
#include <locus/ops/unary_kernel.h>

namespace locus::cuda {
namespace {
constexpr ElementwiseTable<formula::ArithmeticOps> kTable;
}
extern const KernelTable unary;
const KernelTable unary{kTable.entries, kTable.kSize};
}  // namespace locus::cuda
