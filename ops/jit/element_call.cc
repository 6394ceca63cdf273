// Calls of ElementwiseKernel: from operands to the op.
#include <algorithm>

#include <locus/core/base/empty_tensor.h>
#include <locus/core/base/layout.h>
#include <locus/core/call/invoke_check.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/ops/jit/definition.h>
#include <locus/ops/jit/element.h>

namespace locus {
namespace jit {
namespace {

// An array of as many elements as a kernel has operands.
struct RefList {
  alignas(Ref) unsigned char bytes[kMostOperands * sizeof(Ref)];
  size_t n = 0;

  void add(const Tensor& t) { new (bytes + n++ * sizeof(Ref)) Ref(t); }
  std::span<const Ref> span() const { return {reinterpret_cast<const Ref*>(bytes), n}; }
};

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

class Invoked {
 public:
  Invoked(const Definition& d, std::span<const Operand* const> in,
          std::span<const Operand* const> out, const KernelCall& call)
      : d_(d), operands_(d.parameters.size()) {
    check_call(in.size(), out.size(), call);
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
    attrs_.size = call.size;
    attrs_.block = call.block_size == 0 ? 256 : call.block_size;
    attrs_.targets = 0;
    size_t numbers = 0;
    for (k = 0; k < d.parameters.size(); ++k) {
      if (operands_.tensor[k]) {
        if (d.pointers || !out.empty()) target(k);
        refs_.add(*operands_.tensor[k]);
      } else if (operands_.number[k]) {
        attrs_.number[numbers++] = bits_of(d, k, *operands_.number[k], attrs_.of->types[k].dtype);
      }
    }
    std::fill(attrs_.number + numbers, attrs_.number + kMostNumbers, uint64_t{0});
    context_ =
        refs_.n == 0 ? current_context() : detail::common_context(op(), refs_.span(), refs_.n);
    attrs_.of->functions(context_);
  }

  void make(std::span<Tensor> made) const {
    detail::invoke(op(), refs_.span(), AttrsView::of(attrs_), &context_, made);
  }
  void write() {
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

 private:
  const Op& op() const { return attrs_.targets == 0 ? attrs_.of->value : attrs_.of->into; }

  void check_call(size_t in, size_t out, const KernelCall& call) const {
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
    if (call.size < -1)
      throw ValueError(d_.name, ": the size is ", call.size, "; expected 0 or more");
    if (call.block_size < 0 || call.block_size > 1024)
      throw ValueError(d_.name, ": block_size is ", call.block_size,
                       "; expected 1 to 1024, or 0 for the default");
  }

  // Adds tensor parameter k to the targets if it is written. In PyCUDA's form tensors may share
  // memory: only one tensor of each buffer is a target.
  void target(size_t k) {
    const Tensor& t = *operands_.tensor[k];
    if (d_.pointers && !t.contiguous())
      throw ValueError(d_.name, ": ", d_.parameters[k].name, " ", describe(t),
                       " has gaps or another order; expected a contiguous tensor for \"",
                       d_.parameters[k].text, '"');
    if (!d_.parameters[k].written) return;
    if (d_.pointers)
      for (const Ref& r : targets_.span())
        if (r.tensor_->shares_memory_with(t)) return;
    attrs_.targets |= 1u << refs_.n;
    targets_.add(t);
  }

  // Whether a read of tensor t, parameter k, may see what another element has written.
  bool overlaps(size_t k, const Tensor& t) const {
    if (d_.pointers || t.size() == 0) return false;
    const View& v = t.impl().view;
    for (const Ref& r : targets_.span()) {
      const View& w = r.tensor_->impl().view;
      if (!r.tensor_->shares_memory_with(t) || w.meta.size() == 0) continue;
      const ByteRange a = byte_range(v), b = byte_range(w);
      if (a.begin >= b.end || b.begin >= a.end) continue;
      const bool same = v.data == w.data && same_layout(v, w);
      if (!same || d_.parameters[k].raw || d_.raw_outputs) return true;
    }
    return false;
  }

  const Definition& d_;
  Operands operands_;
  Attrs attrs_;
  RefList refs_, targets_;  // tensors by parameter; those that are written
  Context context_;
};

// Throws with the user's line: the first operand's, else the call's.
[[noreturn]] void rethrow(std::span<const Operand* const> in, Caller from) {
  rethrow_at(in.empty() ? from : in[0]->from());
}

class Pointers {
 public:
  explicit Pointers(std::initializer_list<Operand> list) {
    if (list.size() > kMostOperands) extra_.resize(list.size());
    for (const Operand& o : list) data()[n_++] = &o;
  }
  std::span<const Operand* const> span() const {
    return {extra_.empty() ? inline_ : extra_.data(), n_};
  }

 private:
  const Operand** data() { return extra_.empty() ? inline_ : extra_.data(); }

  const Operand* inline_[kMostOperands];
  std::vector<const Operand*> extra_;
  size_t n_ = 0;
};

Tensor call(const Definition& d, std::initializer_list<const Operand*> list) try {
  const std::span<const Operand* const> all(list.begin(), list.size());
  const size_t outputs = d.parameters.size() - d.inputs;
  if (d.pointers) {
    Invoked(d, all, {}, {}).write();
    return {};
  }
  if (all.size() != d.inputs + outputs) {
    if (all.size() != d.inputs)
      throw ValueError(d.name, ": ", all.size(), all.size() == 1 ? " operand" : " operands",
                       "; expected ", d.inputs, " (", d.described(0, d.inputs), "), or ",
                       d.parameters.size(), " with ", d.described(d.inputs, d.parameters.size()));
    const Invoked invoked(d, all, {}, {});
    if (outputs == 1) [[likely]] {
      Tensor made;
      invoked.make({&made, 1});
      return made;
    }
    Tensors made(outputs);
    invoked.make(made);
    return made[0];
  }
  Invoked(d, all.first(d.inputs), all.subspan(d.inputs), {}).write();
  return all[d.inputs]->tensor();
} catch (const Error&) {
  rethrow_at((*list.begin())->from());
}

}  // namespace
}  // namespace jit

ElementwiseKernel::ElementwiseKernel(std::string in, std::string out, std::string body,
                                     std::string name, const KernelOptions& options,
                                     Caller from) try
    : definition_(&jit::Definition::of(in, out, body, name, options, false)) {
} catch (const Error&) {
  rethrow_at(from);
}
ElementwiseKernel::ElementwiseKernel(std::string pointers, std::string body, std::string name,
                                     const KernelOptions& options, Caller from) try
    : definition_(&jit::Definition::of(pointers, "", body, name, options, true)) {
} catch (const Error&) {
  rethrow_at(from);
}

using O = const Operand&;
Tensor ElementwiseKernel::operator()(O a) const { return jit::call(*definition_, {&a}); }
Tensor ElementwiseKernel::operator()(O a, O b) const { return jit::call(*definition_, {&a, &b}); }
Tensor ElementwiseKernel::operator()(O a, O b, O c) const {
  return jit::call(*definition_, {&a, &b, &c});
}
Tensor ElementwiseKernel::operator()(O a, O b, O c, O d) const {
  return jit::call(*definition_, {&a, &b, &c, &d});
}
Tensor ElementwiseKernel::operator()(O a, O b, O c, O d, O e) const {
  return jit::call(*definition_, {&a, &b, &c, &d, &e});
}
Tensor ElementwiseKernel::operator()(O a, O b, O c, O d, O e, O f) const {
  return jit::call(*definition_, {&a, &b, &c, &d, &e, &f});
}
Tensor ElementwiseKernel::operator()(O a, O b, O c, O d, O e, O f, O g) const {
  return jit::call(*definition_, {&a, &b, &c, &d, &e, &f, &g});
}
Tensor ElementwiseKernel::operator()(O a, O b, O c, O d, O e, O f, O g, O h) const {
  return jit::call(*definition_, {&a, &b, &c, &d, &e, &f, &g, &h});
}

Tensors ElementwiseKernel::run(std::initializer_list<Operand> in, const KernelCall& call,
                               Caller from) const {
  const jit::Pointers all(in);
  try {
    jit::Invoked invoked(*definition_, all.span(), {}, call);
    Tensors made(definition_->parameters.size() - definition_->inputs);
    if (definition_->pointers)
      invoked.write();
    else
      invoked.make(made);
    return made;
  } catch (const Error&) {
    jit::rethrow(all.span(), from);
  }
}

void ElementwiseKernel::into(std::initializer_list<Operand> in, std::initializer_list<Operand> out,
                             const KernelCall& call, Caller from) const {
  const jit::Pointers all(in), outputs(out);
  try {
    if (outputs.span().empty())
      throw ValueError(
          name(), ": no outputs; expected ",
          definition_->pointers
              ? "a call of run(): all pointers are in one list"
              : definition_->described(definition_->inputs, definition_->parameters.size()));
    jit::Invoked(*definition_, all.span(), outputs.span(), call).write();
  } catch (const Error&) {
    jit::rethrow(all.span(), from);
  }
}

const std::string& ElementwiseKernel::name() const { return definition_->name; }

std::string ElementwiseKernel::source(Context c, std::initializer_list<DType> of_operands,
                                      Caller from) const try {
  const jit::Parameters& all = definition_->parameters;
  if (of_operands.size() != definition_->inputs && of_operands.size() != all.size())
    throw ValueError(name(), ": ", of_operands.size(), " dtypes; expected ", definition_->inputs,
                     " or ", all.size(), ": ", definition_->described(0, all.size()));
  // Operands without elements.
  Tensors tensors;
  const Scalar zero = 0;
  jit::Operands operands(all.size());
  tensors.reserve(all.size());
  for (const DType d : of_operands) {
    const size_t k = tensors.size();
    tensors.push_back(allocate(cpu(0), make_meta(d, Shape{0})));
    if (definition_->pointers && !all[k].pointer)
      operands.number[k] = &zero;
    else
      operands.tensor[k] = &tensors[k];
  }
  return definition_->find(operands).text(device(c).kernels() == DeviceType::gpu);
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus
