#include <locus/ops/convolution/gathered_launch.h>

namespace locus::cuda {

template void multiply_gathered(const Call&, const GatheredProducts&, GatheredMemory<float>, int);
template void multiply_gathered(const Call&, const GatheredProducts&, GatheredMemory<double>, int);

}  // namespace locus::cuda
