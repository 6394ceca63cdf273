#include <locus/ops/reduce/reduce_cpu.h>

namespace locus::LOCUS_ISA {

extern constinit const KernelList reduce = reduce_kernels<Backend>();

}  // namespace locus::LOCUS_ISA
