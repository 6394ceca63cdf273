#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <locus/ops/activation.h>
#include <locus/ops/elementwise/call.h>
#include <locus/ops/special.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>

#define LOCUS_FUNCTIONS
#include <locus/ops/elementwise/activation_kernel.h>
#include <locus/ops/elementwise/special_kernel.h>
#include <locus/ops/elementwise/trigonometry_kernel.h>
#include <locus/ops/elementwise/unary_kernel.h>

namespace locus {

void register_unary() {
  define_with_text(formula::UnaryOps());
  define_with_text(formula::ActivationOps() + formula::TrigonometricOps() + formula::SpecialOps());
}

}  // namespace locus
