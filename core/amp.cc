#include <locus/core/amp.h>

#include <utility>

#include <locus/core/error.h>

namespace locus::amp {
namespace {

thread_local std::optional<DType> current;

}  // namespace

Scope::Scope(DType dtype) : outer_(current) {
  if (dtype != f16 && dtype != bf16)
    throw DTypeError("amp::Scope: ", name(dtype), "; expected f16 or bf16");
  current = dtype;
}
Scope::~Scope() { current = outer_; }

std::optional<DType> dtype() { return current; }

Tensor narrow(const Tensor& x) {
  return current && x.defined() && x.dtype() == f32 ? x.astype(*current) : x;
}

Tensor widen(const Tensor& x) {
  return current && (x.dtype() == f16 || x.dtype() == bf16) ? x.astype(f32) : x;
}

}  // namespace locus::amp
