// 16-bit gathered products, on tensor cores.
#include <locus/ops/convolution/gathered_launch.h>

namespace locus::cuda {

template void multiply_gathered(const Call&, const GatheredProducts&, GatheredMemory<Half>, int);
template void multiply_gathered(const Call&, const GatheredProducts&, GatheredMemory<BFloat16>,
                                int);

}  // namespace locus::cuda
