#include <locus/ops/jit/kernel_call.h>

#include <locus/core/base/empty_tensor.h>
#include <locus/core/base/layout.h>
#include <locus/core/call/invoke_check.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/ops/jit/element.h>

namespace locus::jit {
namespace {

// The number as an element of dtype d: integers wrap.
uint64_t bits_of(const Definition& definition, size_t k, const Scalar& s, DType d) {
  if (s.beyond_i64() && !is_floating(d) && d != bool_)
    throw ValueError(definition.name, ": ", definition.parameters[k].name, " is ", s.floating(),
                     "; no integer dtype holds it");
  return dispatch(d, [&]<class T>(std::type_identity<T>) {
    const bool floating = s.kind() == Scalar::Kind::floating || s.beyond_i64();
    const T v = floating ? convert<T>(s.floating()) : convert<T>(s.integer());
    return jit::bits_of(convert<Compute<T>>(v));
  });
}

}  // namespace

Invoked::Invoked(const Definition& d, std::span<const Operand* const> in,
                 std::span<const Operand* const> out, const Attrs& how)
    : d_(d), operands_(d.parameters.size()), attrs_(how) {
  check_numbers(in.size(), out.size());
  size_t k = 0;
  for (const auto list : {in, out})
    for (const Operand* const o : list) {
      if (o->is_scalar()) {
        operands_.number[k] = &o->scalar();
      } else {
        operands_.tensor[k] = &o->tensor();
        if (!o->tensor().defined()) detail::throw_empty(d.name, d.parameters[k].name);
      }
      ++k;
    }
  attrs_.of = &d.find(operands_);
  size_t numbers = 0;
  for (k = 0; k < d.parameters.size(); ++k) {
    if (operands_.tensor[k]) {
      if (d.pointers || !out.empty()) target(k);
      refs_.add(*operands_.tensor[k]);
    } else if (operands_.number[k]) {
      attrs_.number[numbers++] = bits_of(d, k, *operands_.number[k], attrs_.of->types[k].dtype);
    }
  }
  context_ = refs_.n == 0 ? current_context() : detail::common_context(op(), refs_.span(), refs_.n);
  attrs_.of->functions(context_);
}

void Invoked::make(std::span<Tensor> made) const {
  detail::invoke(op(), refs_.span(), AttrsView::of(attrs_), &context_, made);
}

void Invoked::write() {
  Tensors copies;
  RefList in;
  size_t j = 0;
  for (size_t k = 0; k < d_.parameters.size(); ++k) {
    const Tensor* const t = operands_.tensor[k];
    if (!t) continue;
    const bool copied = !(attrs_.targets >> j & 1) && overlaps(k, *t);
    if (copied) {
      copies.reserve(refs_.n);  // none moves
      copies.push_back(row_major_copy(*t, t->dtype()));
    }
    in.add(copied ? copies.back() : *t);
    ++j;
  }
  detail::invoke_into(op(), in.span(), AttrsView::of(attrs_), targets_.span());
}

void Invoked::check_numbers(size_t in, size_t out) const {
  const size_t outputs = d_.parameters.size() - d_.inputs;
  if (in != d_.inputs || (out != 0 && out != outputs)) {
    const std::string inputs = d_.described(0, d_.inputs);
    throw ValueError(d_.name, ": ", in, in == 1 ? " input" : " inputs",
                     out == 0 ? "" : text_of(" and ", out, out == 1 ? " output" : " outputs"),
                     "; expected ", d_.inputs, inputs.empty() ? "" : " (" + inputs + ")",
                     d_.pointers ? ""
                                 : text_of(", and no output or ", outputs, " (",
                                           d_.described(d_.inputs, d_.parameters.size()), ")"));
  }
}

void Invoked::target(size_t k) {
  const Tensor& t = *operands_.tensor[k];
  if (d_.pointers && !t.contiguous())
    throw ShapeError(d_.name, ": ", d_.parameters[k].name, " ", describe(t),
                     " has gaps or another order; expected a contiguous tensor for \"",
                     d_.parameters[k].text,
                     "\"; pass contiguous(x), and copy back what the kernel writes");
  if (!d_.parameters[k].written) return;
  if (d_.pointers)
    for (const Ref& r : targets_.span())
      if (r.tensor_->shares_memory_with(t)) return;
  attrs_.targets |= 1u << refs_.n;
  targets_.add(t);
}

bool Invoked::overlaps(size_t k, const Tensor& t) const {
  if (d_.pointers || t.size() == 0) return false;
  const View& v = t.impl().view;
  for (const Ref& r : targets_.span()) {
    const View& w = r.tensor_->impl().view;
    if (!r.tensor_->shares_memory_with(t) || w.meta.size() == 0) continue;
    const ByteRange a = byte_range(v), b = byte_range(w);
    if (a.begin >= b.end || b.begin >= a.end) continue;
    const bool same = v.data == w.data && same_layout(v, w);
    if (!same || d_.parameters[k].raw || d_.scatters) return true;
  }
  return false;
}

Tensor call(const Definition& d, std::span<const Operand* const> all, const Attrs& how) try {
  const size_t outputs = d.parameters.size() - d.inputs;
  if (d.pointers) {
    Invoked(d, all, {}, how).write();
    return {};
  }
  if (all.size() != d.inputs + outputs) {
    if (all.size() != d.inputs)
      throw ValueError(d.name, ": ", all.size(), all.size() == 1 ? " operand" : " operands",
                       "; expected ", d.inputs, " (", d.described(0, d.inputs), "), or ",
                       d.parameters.size(), " with ", d.described(d.inputs, d.parameters.size()));
    const Invoked invoked(d, all, {}, how);
    if (outputs == 1) [[likely]] {
      Tensor made;
      invoked.make({&made, 1});
      return made;
    }
    Tensors made(outputs);
    invoked.make(made);
    return made[0];
  }
  Invoked(d, all.first(d.inputs), all.subspan(d.inputs), how).write();
  return all[d.inputs]->tensor();
} catch (const Error&) {
  rethrow_at(all[0]->from());
}

Tensors run(const Definition& d, std::span<const Operand* const> in, const Attrs& how) {
  Invoked invoked(d, in, {}, how);
  Tensors made(d.parameters.size() - d.inputs);
  if (d.pointers)
    invoked.write();
  else
    invoked.make(made);
  return made;
}

void write(const Definition& d, std::span<const Operand* const> in,
           std::span<const Operand* const> out, const Attrs& how) {
  if (out.empty())
    throw ValueError(d.name, ": no outputs; expected ",
                     d.pointers ? "a call of run(): all pointers are in one list"
                                : d.described(d.inputs, d.parameters.size()));
  Invoked(d, in, out, how).write();
}

std::string source(const Definition& d, Context c, std::initializer_list<DType> of_operands) {
  const Parameters& all = d.parameters;
  if (of_operands.size() != d.inputs && of_operands.size() != all.size())
    throw ValueError(d.name, ": ", of_operands.size(), " dtypes; expected ", d.inputs, " or ",
                     all.size(), ": ", d.described(0, all.size()));
  // Operands without elements.
  Tensors tensors;
  const Scalar zero = 0;
  Operands operands(all.size());
  tensors.reserve(all.size());
  for (const DType t : of_operands) {
    const size_t k = tensors.size();
    tensors.push_back(allocate(cpu(0), make_meta(t, Shape{0})));
    if (d.pointers && !all[k].pointer)
      operands.number[k] = &zero;
    else
      operands.tensor[k] = &tensors[k];
  }
  return d.find(operands).text(device(c).kernels() == DeviceType::gpu);
}

}  // namespace locus::jit
