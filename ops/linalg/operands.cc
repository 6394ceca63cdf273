#include <locus/ops/linalg/operands.h>

#include <locus/core/error.h>
#include <locus/ops/call_check.h>
#include <locus/ops/copy.h>
#include <locus/ops/elementwise.h>

namespace locus::linalg {

Tensor computed(const char* who, const char* what, const Tensor& x) {
  detail::expect_tensor(who, x, what);
  const DType d = x.dtype();
  if (d == f16 || d == bf16)
    throw DTypeError(who, ": ", what, " ", describe(x), ": expected f32 or f64, got ", name(d),
                     "; cast it: ", what, ".astype(f32)");
  return is_floating(d) ? x : cast(x, f64);
}

Tensor matrices(const char* who, const Tensor& x) {
  const Tensor y = computed(who, "a", x);
  if (x.ndim() < 2) throw ShapeError(who, ": a ", describe(x), ": expected at least 2 axes");
  return y;
}

Tensor squares(const char* who, const Tensor& x) {
  const Tensor y = matrices(who, x);
  if (x.shape()[x.ndim() - 1] != x.shape()[x.ndim() - 2])
    throw ShapeError(who, ": a ", describe(x), ": expected square matrices");
  return y;
}

}  // namespace locus::linalg
