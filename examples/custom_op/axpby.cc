#include "axpby.h"

#include <locus/ops/forms_cpu.h>

using namespace locus;

namespace {

const bool defined = [] {
  define_ops(CustomOps());
#ifdef AXPBY_CUDA
  add_custom_cuda_kernels();
#endif
  return true;
}();

}  // namespace

Tensor axpby(double a, const Operand& x, double b, const Operand& y) {
  return call(Axpby{{}, a, b}, x, y);
}
Tensor sum_abs(const Tensor& x, Caller from) { return reduce(SumAbs(), x, {}, from); }
