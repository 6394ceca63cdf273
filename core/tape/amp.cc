#include <locus/core/amp.h>

#include <utility>

#include <locus/core/error.h>
#include <locus/core/op.h>

namespace locus::amp {
namespace {

thread_local std::optional<DType> current;

Tensor cast(const Tensor& x, DType dtype) {
  static const OpRef<CopyAttrs> op("copy");
  return invoke(op, {x}, {dtype});
}

}  // namespace

Scope::Scope(std::optional<DType> dtype) : outer_(current) {
  if (dtype && dtype != f16 && dtype != bf16)
    throw DTypeError("amp::Scope: ", name(*dtype), "; expected f16 or bf16");
  current = dtype;
}
Scope::~Scope() { current = outer_; }

std::optional<DType> dtype() { return current; }

bool narrows(std::initializer_list<const Tensor*> operands) {
  if (!current) [[likely]]
    return false;
  bool any = false;
  for (const Tensor* t : operands) {
    if (!t->defined()) continue;
    if (!is_floating(t->dtype()) || t->dtype() == f64) return false;
    any = any || t->dtype() == f32;
  }
  return any;
}

Tensor narrow(const Tensor& x) {
  return current && x.defined() && x.dtype() == f32 ? cast(x, *current) : x;
}

DType widened(DType d) { return current && (d == f16 || d == bf16) ? f32 : d; }

Tensor widen(const Tensor& x) {
  const DType d = widened(x.dtype());
  return d == x.dtype() ? x : cast(x, d);
}

}  // namespace locus::amp
