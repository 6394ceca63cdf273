#include <locus/ops/join/join_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {

extern constinit const KernelList join = join_kernels<Views>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
