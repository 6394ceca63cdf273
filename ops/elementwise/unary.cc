#include <algorithm>

#include <locus/ops/elementwise/call.h>

#define LOCUS_FUNCTIONS
#include <locus/ops/elementwise/activation_kernel.h>
#include <locus/ops/elementwise/trigonometry_kernel.h>
#include <locus/ops/elementwise/unary_kernel.h>

namespace locus {

void register_unary() {
  define(formula::UnaryOps());
  define(formula::ActivationOps() + formula::TrigonometricOps());
}

}  // namespace locus
