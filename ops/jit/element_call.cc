// Calls of ElementwiseKernel.
#include <locus/core/error.h>
#include <locus/ops/jit/element_definition.h>
#include <locus/ops/jit/kernel_call.h>

namespace locus {
namespace jit {
namespace {

Attrs how_of(const Definition& d, const KernelCall& call) {
  if (call.size < -1) throw ValueError(d.name, ": the size is ", call.size, "; expected 0 or more");
  if (call.block_size < 0 || call.block_size > 1024)
    throw ValueError(d.name, ": block_size is ", call.block_size,
                     "; expected 1 to 1024, or 0 for the default");
  return {.size = call.size, .block = call.block_size == 0 ? 256 : call.block_size};
}

Tensor call_of(const Definition* d, std::initializer_list<const Operand*> all) {
  return call(*d, {all.begin(), all.size()}, how_of(*d, {}));
}

}  // namespace
}  // namespace jit

ElementwiseKernel::ElementwiseKernel(std::string in, std::string out, std::string body,
                                     std::string name, const KernelOptions& options,
                                     Caller from) try
    : definition_(&jit::ElementDefinition::of(in, out, body, name, options, false)) {
} catch (const Error&) {
  rethrow_at(from);
}
ElementwiseKernel::ElementwiseKernel(std::string pointers, std::string body, std::string name,
                                     const KernelOptions& options, Caller from) try
    : definition_(&jit::ElementDefinition::of(pointers, "", body, name, options, true)) {
} catch (const Error&) {
  rethrow_at(from);
}

using O = const Operand&;
Tensor ElementwiseKernel::operator()(O a) const { return jit::call_of(definition_, {&a}); }
Tensor ElementwiseKernel::operator()(O a, O b) const { return jit::call_of(definition_, {&a, &b}); }
Tensor ElementwiseKernel::operator()(O a, O b, O c) const {
  return jit::call_of(definition_, {&a, &b, &c});
}
Tensor ElementwiseKernel::operator()(O a, O b, O c, O d) const {
  return jit::call_of(definition_, {&a, &b, &c, &d});
}
Tensor ElementwiseKernel::operator()(O a, O b, O c, O d, O e) const {
  return jit::call_of(definition_, {&a, &b, &c, &d, &e});
}
Tensor ElementwiseKernel::operator()(O a, O b, O c, O d, O e, O f) const {
  return jit::call_of(definition_, {&a, &b, &c, &d, &e, &f});
}
Tensor ElementwiseKernel::operator()(O a, O b, O c, O d, O e, O f, O g) const {
  return jit::call_of(definition_, {&a, &b, &c, &d, &e, &f, &g});
}
Tensor ElementwiseKernel::operator()(O a, O b, O c, O d, O e, O f, O g, O h) const {
  return jit::call_of(definition_, {&a, &b, &c, &d, &e, &f, &g, &h});
}

Tensors ElementwiseKernel::run(std::initializer_list<Operand> in, const KernelCall& call,
                               Caller from) const {
  const jit::Pointers all(in);
  try {
    return jit::run(*definition_, all.span(), jit::how_of(*definition_, call));
  } catch (const Error&) {
    jit::rethrow(all.span(), from);
  }
}

void ElementwiseKernel::into(std::initializer_list<Operand> in, std::initializer_list<Operand> out,
                             const KernelCall& call, Caller from) const {
  const jit::Pointers all(in), outputs(out);
  try {
    jit::write(*definition_, all.span(), outputs.span(), jit::how_of(*definition_, call));
  } catch (const Error&) {
    jit::rethrow(all.span(), from);
  }
}

ElementwiseKernel ElementwiseKernel::with_gradient(const ElementwiseKernel& gradient,
                                                   Caller from) const try {
  using jit::ElementDefinition;
  ElementwiseKernel made = *this;
  made.definition_ =
      &static_cast<const ElementDefinition*>(definition_)->with_gradient(*gradient.definition_);
  return made;
} catch (const Error&) {
  rethrow_at(from);
}

const std::string& ElementwiseKernel::name() const { return definition_->name; }

std::string ElementwiseKernel::source(Context c, std::initializer_list<DType> of_operands,
                                      Caller from) const try {
  return jit::source(*definition_, c, of_operands);
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus
