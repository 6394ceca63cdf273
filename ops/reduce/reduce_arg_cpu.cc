#include <locus/ops/reduce/position.h>
#include <locus/ops/reduce/reduce_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {

extern constinit const KernelList reduce_arg = formula::kernels_of<Engine>(Positions());

}  // namespace locus::LOCUS_ISA_NAMESPACE
