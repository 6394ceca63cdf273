// Calls of ReductionKernel.
#include <algorithm>

#include <locus/core/error.h>
#include <locus/ops/jit/kernel_call.h>
#include <locus/ops/jit/reduction_definition.h>
#include <locus/ops/reduce/reduce_shape.h>
#include <locus/ops/reduction_kernels.h>

namespace locus {
namespace jit {
namespace {

using List = std::span<const Operand* const>;

// Refuses an integer behind the inputs: l2(x, 1).
void check_outputs(const Definition& d, List all) {
  for (size_t k = d.inputs; k < all.size(); ++k)
    if (all[k]->is_scalar() && all[k]->scalar().kind() == Scalar::Kind::integer) {
      const int64_t number = all[k]->scalar().integer();
      throw ValueError(d.name, ": operand ", k, " is the number ", number, "; expected ",
                       d.described(0, d.inputs), ", and then tensors for ",
                       d.described(d.inputs, d.parameters.size()),
                       " or nothing; for an axis write {.axis = ", number, '}');
    }
}

// The axes are those of the input with the most axes.
Attrs how_of(const Definition& d, List in, const ReduceOptions& o) {
  check_outputs(d, in);
  const Tensor* widest = nullptr;
  for (size_t k = 0; k < std::min(in.size(), d.inputs); ++k) {
    if (d.parameters[k].raw || in[k]->is_scalar() || !in[k]->tensor().defined()) continue;
    const Tensor& t = in[k]->tensor();
    if (!widest || t.ndim() > widest->ndim()) widest = &t;
  }
  if (in.size() < d.inputs) return {};  // refused later
  if (!widest)
    throw ValueError(d.name,
                     ": no input that is not raw is a tensor; expected one, whose axes are ",
                     "reduced: ", d.described(0, d.inputs));
  return {.reduce = reduce_attrs(*widest, o.axis, o.keepdims, d.name)};
}

Tensors reduce(const Definition& d, List in, const ReduceOptions& o) {
  const Attrs how = how_of(d, in, o);
  if (!o.out.defined()) return run(d, in, how);
  const Operand out(o.out);
  const Operand* const one[] = {&out};
  write(d, in, one, how);
  return {o.out};
}

Tensor call_of(const Definition* d, std::initializer_list<const Operand*> list,
               const ReduceOptions& o) try {
  const List all(list.begin(), list.size());
  if (o.out.defined()) return reduce(*d, all, o)[0];
  return call(*d, all, how_of(*d, all, o));
} catch (const Error&) {
  rethrow_at((*list.begin())->from());
}

}  // namespace
}  // namespace jit

ReductionKernel::ReductionKernel(std::string in, std::string out, std::string map,
                                 std::string reduce, std::string post_map, std::string identity,
                                 std::string name, const KernelOptions& options, Caller from) try
    : definition_(&jit::ReductionDefinition::of(
          in, out, {std::move(map), std::move(reduce), std::move(post_map), std::move(identity)},
          name, options)) {
} catch (const Error&) {
  rethrow_at(from);
}

using O = const Operand&;
using How = const ReduceOptions&;
Tensor ReductionKernel::operator()(O a, How how) const {
  return jit::call_of(definition_, {&a}, how);
}
Tensor ReductionKernel::operator()(O a, O b, How how) const {
  return jit::call_of(definition_, {&a, &b}, how);
}
Tensor ReductionKernel::operator()(O a, O b, O c, How how) const {
  return jit::call_of(definition_, {&a, &b, &c}, how);
}
Tensor ReductionKernel::operator()(O a, O b, O c, O d, How how) const {
  return jit::call_of(definition_, {&a, &b, &c, &d}, how);
}

Tensors ReductionKernel::run(std::initializer_list<Operand> in, const ReduceOptions& how,
                             Caller from) const {
  const jit::Pointers all(in);
  try {
    return jit::reduce(*definition_, all.span(), how);
  } catch (const Error&) {
    jit::rethrow(all.span(), from);
  }
}

void ReductionKernel::into(std::initializer_list<Operand> in, std::initializer_list<Operand> out,
                           const ReduceOptions& how, Caller from) const {
  const jit::Pointers all(in), outputs(out);
  try {
    if (how.out.defined())
      throw ValueError(name(), ": has outputs in a list and .out; expected one of them");
    jit::write(*definition_, all.span(), outputs.span(),
               jit::how_of(*definition_, all.span(), how));
  } catch (const Error&) {
    jit::rethrow(all.span(), from);
  }
}

ReductionKernel ReductionKernel::with_gradient(const ElementwiseKernel& gradient, Caller from) const
    try {
  using jit::ReductionDefinition;
  ReductionKernel made = *this;
  made.definition_ =
      &static_cast<const ReductionDefinition*>(definition_)->with_gradient(*gradient.definition_);
  return made;
} catch (const Error&) {
  rethrow_at(from);
}

const std::string& ReductionKernel::name() const { return definition_->name; }

std::string ReductionKernel::source(Context c, std::initializer_list<DType> of_operands,
                                    Caller from) const try {
  return jit::source(*definition_, c, of_operands);
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus
