#include <locus/ops/elementwise/call.h>

#define LOCUS_FUNCTIONS
#include <locus/ops/elementwise/activation_kernel.h>
#include <locus/ops/elementwise/trigonometry_kernel.h>
#include <locus/ops/elementwise/unary_kernel.h>

namespace locus {

void register_unary() {
  define(formula::ArithmeticOps() + formula::ExponentialOps());
  define(formula::ActivationOps() + formula::TrigonometricOps());
}

}  // namespace locus
