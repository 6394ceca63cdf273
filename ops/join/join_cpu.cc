#include <locus/ops/join/join_kernel.h>

namespace locus::LOCUS_ISA {

extern constinit const KernelList join = join_kernels<Views>();

}  // namespace locus::LOCUS_ISA
