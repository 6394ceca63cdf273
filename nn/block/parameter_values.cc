// Writes, loads, moves and casts the values of a Parameter.
#include <algorithm>

#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/nn/block/parameter_state.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>

namespace locus::nn {

void Parameter::zero_grad(Caller from) const try {
  const UserLine user_line(from);
  if (grad_req() == GradReq::null) return;
  for (const Tensor& t : state().replicas) t.zero_grad(from);
} catch (const Error&) {
  rethrow_at(from);
}

void Parameter::set_data(const Tensor& values, Caller from) const try {
  const UserLine user_line(from);
  State& s = state();
  if (!values.defined())
    detail::throw_empty(text_of("Parameter '", s.name, "'"), "the argument of set_data");
  if (!initialized()) {
    if (!deferred() || s.whole) refuse({});
    complete(values.shape());
    ++s.origin;
    return create(values, s.contexts, from);
  }
  if (values.shape() != s.shape)
    throw ShapeError("Parameter '", s.name, "': set_data with ", describe(values),
                     "; expected shape ", s.shape);
  const autograd::Pause pause;
  ++s.origin;
  for (const Tensor& t : s.replicas) values.copyto(t, {}, from);
} catch (const Error&) {
  rethrow_at(from);
}

void Parameter::load(const Tensor& values, const Contexts& contexts, Caller from) const {
  State& s = state();
  if (s.whole) {
    complete(values.shape());
    s.whole->forget();
    const Tensor mine = s.whole->part(values, s.index);
    ++s.origin;
    return initialized() ? set_data(mine, from) : create(mine, {s.whole->context(s.index)}, from);
  }
  if (initialized() && s.contexts == contexts.list())
    set_data(values, from);
  else
    place(values, contexts, from);
}

void Parameter::check_stays(const Contexts& contexts) const {
  const State& s = state();
  if (!s.whole || contexts.list() == std::vector{s.whole->context(s.index)}) return;
  throw Error("Parameter '", s.name, "', ", s.part_text(), ", cannot be put on [",
              listed(contexts.list()),
              "]. Save the network, and load it into one that was made for other contexts.");
}

void Parameter::place(const Tensor& values, const Contexts& contexts, Caller from) const try {
  const UserLine user_line(from);
  if (const State& s = state(); s.whole)
    throw Error("Parameter '", s.name, "', ", s.part_text(),
                ", cannot be placed; expected set_data() with the values of the whole");
  for (const Context& c : contexts) device(c);
  complete(values.shape());
  ++state().origin;
  create(values, contexts.list(), from);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor Parameter::mean_on_cpu(Caller from) const try {
  const UserLine user_line(from);
  if (!initialized()) refuse({});
  const State& s = state();
  const autograd::Pause pause;
  if (s.replicas.size() == 1) return s.replicas[0].copyto(cpu(), {}, from);
  // The mean of equal values, infinities too, is that value.
  Tensor mean = locus::cast(s.replicas[0].copyto(cpu(), {}, from), f64);
  for (size_t i = 1; i < s.replicas.size(); ++i) {
    const Tensor next = locus::cast(s.replicas[i].copyto(cpu(), {}, from), f64);
    mean = where(next == mean, mean, mean + (next - mean) / static_cast<double>(i + 1));
  }
  return locus::cast(mean, dtype());
} catch (const Error&) {
  rethrow_at(from);
}

void Parameter::reset_ctx(const Contexts& contexts, Caller from) const try {
  const UserLine user_line(from);
  check_stays(contexts);
  for (const Context& c : contexts) device(c);  // on error, nothing has changed
  State& s = state();
  if (initialized()) {
    create(mean_on_cpu(from), contexts.list(), from);
  } else if (deferred()) {
    s.contexts = contexts.list();
    s.caller = from;
  } else {
    refuse({});
  }
} catch (const Error&) {
  rethrow_at(from);
}

void Parameter::cast(DType dtype) const {
  State& s = state();
  if (s.options.dtype == dtype) return;
  if (!is_floating(dtype))
    throw DTypeError("Parameter '", s.name, "': cast to ", locus::name(dtype),
                     "; expected a floating dtype");
  s.options.dtype = dtype;
  if (initialized()) {
    const autograd::Pause pause;
    Tensors replicas;
    for (const Tensor& t : s.replicas) {
      replicas.push_back(locus::cast(t, dtype));
      if (grad_req() != GradReq::null) replicas.back().attach_grad(grad_req());
    }
    s.replicas = std::move(replicas);
  }
  ++s.generation;
}

}  // namespace locus::nn
