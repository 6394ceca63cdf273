// CPU kernels of the unary ops.
#include <locus/ops/elementwise/activation_kernel.h>
#include <locus/ops/elementwise/elementwise_cpu.h>
#include <locus/ops/elementwise/unary_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
extern constinit const KernelList unary = elementwise_kernels(formula::UnaryOps());
extern constinit const KernelList activation = elementwise_kernels(formula::ActivationOps());
}  // namespace locus::LOCUS_ISA_NAMESPACE
