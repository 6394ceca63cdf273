#include <locus/ops/reduce/reduce_cpu.h>

namespace locus::LOCUS_ISA {

extern constinit const KernelList reduce_arg = reduce_arg_kernels<Backend>();
extern constinit const KernelList reduce_compound = reduce_compound_kernels<Backend>();

}  // namespace locus::LOCUS_ISA
