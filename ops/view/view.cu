#include <locus/ops/view/view_kernel.h>

namespace locus::cuda {

extern constinit const KernelList view = view_kernels<Views>();

}  // namespace locus::cuda
