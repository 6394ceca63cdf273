#include <locus/ops/reduce/compound.h>
#include <locus/ops/reduce/reduce_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {

extern constinit const KernelList reduce_compound = formula::kernels_of<Engine>(Compound());

}  // namespace locus::LOCUS_ISA_NAMESPACE
