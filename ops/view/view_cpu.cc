#include <locus/ops/view/view_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {

extern constinit const KernelList view = view_kernels<Views>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
