#include <locus/ops/optim.h>

#include <string>
#include <vector>

#include <locus/core/op.h>
#include <locus/ops/optim/optim_kernel.h>

namespace locus {

namespace {

// Inputs are weight, gradient and states of each tensor, outputs its weight and states.
template <class Rule>
DType infer_update(std::span<const Meta> in, const Live<typename Rule::Numbers>&,
                   std::span<Meta> out) {
  constexpr size_t kOut = 1 + Rule::kStates, kIn = kOut + 1;
  const size_t n = in.size() / kIn;
  if (in.empty() || in.size() != n * kIn || out.size() != n * kOut)
    throw ShapeError("expected weight, gradient and ", Rule::kStates,
                     " states of each tensor, and as many weights and states to write");
  for (size_t i = 0; i < n; ++i) {
    const Meta& w = in[i * kIn];
    for (size_t k = 1; k < kIn; ++k) {
      const Meta& other = in[i * kIn + k];
      const char* what = k == 1 ? "gradient" : "state";
      if (Shape(other) != Shape(w))
        throw ShapeError("tensor ", i, ": expected a ", what, " of the weight's shape ", Shape(w),
                         ", got ", Shape(other));
      if (other.dtype != w.dtype)
        throw DTypeError("tensor ", i, ": expected a ", what, " of the weight's dtype ",
                         name(w.dtype), ", got ", name(other.dtype));
    }
    if (w.dtype != in[0].dtype)
      throw DTypeError("tensor ", i, " is ", name(w.dtype), ", tensor 0 ", name(in[0].dtype),
                       "; expected one dtype in a call");
    for (size_t k = 0; k < kOut; ++k) out[i * kOut + k] = w;
  }
  return in[0].dtype;
}

void need_contiguous(const Op& op, const Tensor& t, const char* what, size_t i) {
  if (!t.contiguous())
    throw Error(op.name, ": ", what, " ", i, " ", describe(t),
                " has gaps or another order; expected a contiguous tensor, since it is updated in "
                "place");
}

// states[k][i] is the k-th state of weight i.
void update(const Op& op, const Tensors& weights, const Tensors& grads,
            std::initializer_list<const Tensors*> states, const auto& numbers) {
  const size_t n = weights.size();
  std::string lengths = text_of(n, " weights, ", grads.size(), " grads");
  bool equal = grads.size() == n;
  for (const Tensors* s : states) {
    lengths += text_of(", ", s->size(), " states");
    equal = equal && s->size() == n;
  }
  if (!equal) throw Error(op.name, ": ", lengths, "; expected as many of each");
  if (n == 0) return;
  std::vector<Ref> in, out;
  in.reserve((2 + states.size()) * n);
  out.reserve((1 + states.size()) * n);
  for (size_t i = 0; i < n; ++i) {
    need_contiguous(op, weights[i], "weight", i);
    in.emplace_back(weights[i]);
    in.emplace_back(grads[i]);
    out.emplace_back(weights[i]);
    for (const Tensors* s : states) {
      need_contiguous(op, (*s)[i], "state", i);
      in.emplace_back((*s)[i]);
      out.emplace_back((*s)[i]);
    }
  }
  invoke_into(op, std::span<const Ref>(in), std::span<const Ref>(out), numbers);
}

template <template <class> class Rule>
void define(const char* name, std::vector<std::string> arguments) {
  OpDef<Live<typename Rule<float>::Numbers>>(name, std::move(arguments))
      .inputs(2 + Rule<float>::kStates, Op::kAny)
      .outputs(Op::kAny)
      .template infer<&infer_update<Rule<float>>>()
      .in_place()
      .no_gradient("updates in place, outside the graph")
      .no_samples("updates in place: tests/optim_test.cc");
}

}  // namespace

void detail::sgd_update(const Tensors& weights, const Tensors& grads, const Tensors& momenta,
                        const Live<SGDUpdate>& numbers) {
  static const OpRef<Live<SGDUpdate>> plain("sgd_update"), momentum("sgd_mom_update");
  if (momenta.empty())
    update(plain, weights, grads, {}, numbers);
  else
    update(momentum, weights, grads, {&momenta}, numbers);
}

void sgd_update(const Tensors& weights, const Tensors& grads, const Tensors& momenta,
                const SGDUpdate& numbers) {
  detail::sgd_update(weights, grads, momenta, Live<SGDUpdate>{numbers});
}

void register_optim() {
  define<SGDRule>("sgd_update", {"weight", "grad"});
  define<SGDMomentumRule>("sgd_mom_update", {"weight", "grad", "mom"});
}

}  // namespace locus
