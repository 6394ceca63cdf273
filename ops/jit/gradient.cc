// Gradients of kernels: elementwise kernels, whose parameters are matched by name.
#include <algorithm>
#include <list>

#include <locus/core/error.h>
#include <locus/core/saved.h>
#include <locus/ops/create.h>
#include <locus/ops/jit/arguments.h>
#include <locus/ops/jit/kernel_call.h>
#include <locus/ops/reduce/reduce_shape.h>
#include <locus/ops/view.h>

namespace locus::jit {
namespace {

// The number among the call's tensors, or among its numbers.
size_t rank_of(const Specialization& s, size_t k) {
  const auto begin = s.types.begin();
  return static_cast<size_t>(
      std::count_if(begin, begin + static_cast<std::ptrdiff_t>(k),
                    [&](const Specialization::Type& t) { return t.number == s.types[k].number; }));
}

// The number that a call was given: bits_of()'s inverse.
Scalar number_of(uint64_t bits, DType d) {
  return dispatch(
      d, [bits]<class T>(std::type_identity<T>) { return Scalar(number<Compute<T>>(bits)); });
}

}  // namespace

GradientKernel Definition::matched(const Definition& gradient) const {
  const std::string who = text_of(name, ": the gradient kernel ", gradient.name);
  if (pointers || gradient.pointers)
    throw ValueError(who, ": kernels with one list of parameters have no roles of operands; ",
                     "expected two lists, of inputs and outputs");
  const bool raw =
      std::ranges::any_of(parameters, [](const Parameter& p) { return p.raw && p.written; });
  if (raw || gradient.scatters)
    throw ValueError(who, ": an output is raw; expected outputs that are not raw");
  GradientKernel made{&gradient, {}};
  bool any = false;  // the gradient of an output
  for (const Parameter& p : gradient.parameters) {
    const bool of_gradient = p.name.size() > 1 && p.name[0] == 'd';
    const auto find = [&](const std::string& parameter) {
      return static_cast<size_t>(std::ranges::find(parameters, parameter, &Parameter::name) -
                                 parameters.begin());
    };
    GradientKernel::Place place{p.written ? parameters.size() : find(p.name), false};
    if (place.parameter == parameters.size() && of_gradient) place = {find(p.name.substr(1)), true};
    const bool found = place.parameter < parameters.size();
    const bool wrong =
        !found || (place.gradient && p.written == parameters[place.parameter].written);
    if (wrong && p.written)
      throw ValueError(who, ": the output \"", p.text,
                       "\" is the gradient of no input; expected d ", "and the name of one of ",
                       described(0, inputs));
    if (wrong)
      throw ValueError(who, ": the input \"", p.text,
                       "\" is neither an operand nor the gradient of ",
                       "an output; expected names of ", described(0, parameters.size()),
                       ", or d and the name of an output");
    if (place.gradient && (p.raw || parameters[place.parameter].raw))
      throw ValueError(
          who, ": the gradient \"", p.text,
          "\" is raw or belongs to a raw input; expected one of an input that is not raw");
    any = any || (place.gradient && !p.written);
    made.places.push_back(place);
  }
  if (!any)
    throw ValueError(who, ": has no gradient of an output among its inputs; expected d and the ",
                     "name of one of ", described(inputs, parameters.size()));
  return made;
}

std::string Definition::key_with(const Definition& gradient) const {
  const auto address = [](const Definition* d) { return reinterpret_cast<uintptr_t>(d); };
  return text_of("d ", address(this), ' ', address(&gradient));
}

void Definition::set_gradient(Op& op, const Specialization& s) const {
  if (!gradient_.kernel) return;
  op.gradient = &differentiate;
  op.no_gradient = nullptr;
  for (size_t g = 0; g < gradient_.kernel->inputs; ++g) {
    const auto& [k, is_gradient] = gradient_.places[g];
    if (is_gradient || s.types[k].number) continue;
    op.keep = op.keep | (k < inputs ? keep_input(static_cast<int>(rank_of(s, k)))
                                    : keep_output(static_cast<int>(k - inputs)));
  }
}

Tensors Definition::differentiate(const Saved& saved, std::span<const Tensor> dout) {
  const Attrs& attrs = saved.attrs<Attrs>();
  const Specialization& s = *attrs.of;
  const Definition &d = s.definition, &kernel = *d.gradient_.kernel;

  // The shape of all inputs, and that of outputs, with the reduced axes.
  Meta loop;
  broadcast(
      s, [&](size_t j) -> const Meta& { return saved.in_meta(static_cast<int>(j)); }, d.inputs,
      loop);
  const Shape all(loop), of_outputs(reduced(loop, {attrs.reduce.axes, true}, f32));

  std::list<Operand> operands;
  std::list<Tensor> outputs;
  std::vector<const Operand*> in;
  for (size_t g = 0; g < kernel.inputs; ++g) {
    const auto& [k, is_gradient] = d.gradient_.places[g];
    const int out = static_cast<int>(k - d.inputs);
    if (is_gradient) {
      const Tensor& given = dout[k - d.inputs];
      const TensorOptions as{saved.in_context(0), saved.out_meta(out).dtype};
      outputs.push_back(given.defined() ? given.reshape(of_outputs) : zeros(of_outputs, as));
      operands.emplace_back(outputs.back());
    } else if (k >= d.inputs) {
      outputs.push_back(saved.out(out).reshape(of_outputs));
      operands.emplace_back(outputs.back());
    } else if (s.types[k].number) {
      const Scalar v = number_of(attrs.number[rank_of(s, k)], s.types[k].dtype);
      if (v.kind() == Scalar::Kind::floating)
        operands.emplace_back(v.floating());
      else
        operands.emplace_back(v.integer());
    } else {
      operands.emplace_back(saved.in(static_cast<int>(rank_of(s, k))));
    }
    in.push_back(&operands.back());
  }
  const Tensors made = run(kernel, in, {.block = 256});

  Tensors dx(static_cast<size_t>(saved.n_in()));
  for (size_t k = 0; k < d.inputs; ++k) {
    if (s.types[k].number) continue;
    const size_t j = rank_of(s, k);
    const int input = static_cast<int>(j);
    if (!saved.needs(input) || !is_floating(s.types[k].dtype)) continue;
    const auto begin = d.gradient_.places.begin() + static_cast<std::ptrdiff_t>(kernel.inputs);
    const auto found =
        std::find_if(begin, d.gradient_.places.end(),
                     [&](const GradientKernel::Place& p) { return p.parameter == k; });
    if (found == d.gradient_.places.end())
      throw Error(d.name, ": ", d.parameters[k].name, " needs a gradient, and the gradient kernel ",
                  kernel.name, " has no output d", d.parameters[k].name,
                  "; add it, or detach() the input");
    const Tensor& of_loop = made[static_cast<size_t>(found - begin)];
    const Tensor each = of_loop.shape() == all ? of_loop : broadcast_to(of_loop, all);
    dx[j] = sum_to(each, saved.in_shape(input)).astype(saved.in_dtype(input));
  }
  return dx;
}

}  // namespace locus::jit
