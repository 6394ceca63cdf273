#include <locus/ops/reduce/extreme.h>
#include <locus/ops/reduce/reduce_cpu.h>
#include <locus/ops/reduce/sum_to.h>

namespace locus::LOCUS_ISA_NAMESPACE {

extern constinit const KernelList reduce = formula::kernels_of<Engine>(Sums());
extern constinit const KernelList reduce_extreme = formula::kernels_of<Engine>(Extremes());
extern constinit const KernelList sum_to = sum_to_kernels<Engine>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
