#include <locus/core/recompute.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/error.h>
#include <locus/core/generator.h>
#include <locus/core/memory/storage.h>
#include <locus/core/op.h>
#include <locus/core/tape/grad_memory.h>
#include <locus/core/tape/recompute_reads.h>
#include <locus/core/tape/tape.h>

namespace locus {
namespace {

thread_local bool again = false;
struct SecondRun : NonCopyable {
  SecondRun() : outer(std::exchange(again, true)) {}
  ~SecondRun() { again = outer; }
  const bool outer;
};

struct RecomputedPart {
  std::function<Tensors(const Tensors&)> f;
  std::vector<bool> defined;  // per input; undefined ones are no operands
  bool training;
  Context current;
  std::optional<DType> amp;
  random::Draws draws;
  reads::FirstReads reads;
};
struct RecomputeAttrs {
  RecomputedPart* part;  // the attributes' owner
};

Tensor leaf_of(const Tensor& x) {
  Tensor leaf = alias(x, x.impl().view);
  leaf.impl().graph = std::make_shared<GraphState>();
  leaf.impl().graph->req = GradReq::write;
  return leaf;
}

// `gradient`: like result i of the first run.
void expect_as_before(size_t i, const Tensor& gradient, const Tensor& result) {
  if (!result.defined() || result.context() != gradient.context() ||
      result.shape() != gradient.shape() || result.dtype() != gradient.dtype())
    throw Error("recompute: the function gave ", describe(gradient), " as result ", i,
                " at first and ", describe(result), " now; it must do the same each time");
}

Tensors gradient(const Saved& saved, std::span<const Tensor> dout) {
  if (autograd::is_recording())
    throw Error(
        "backward: the gradient of recompute() has no gradient itself; for create_graph call "
        "the function without recompute()");
  const RecomputedPart& s = *saved.attrs<RecomputeAttrs>().part;
  Tensors in(s.defined.size()), wanted;
  std::vector<size_t> places;
  int operand = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!s.defined[i]) continue;
    const bool needed = saved.needs(operand);
    in[i] = needed ? leaf_of(saved.in(operand)) : saved.in(operand).detach();
    if (needed) {
      wanted.push_back(in[i]);
      places.push_back(static_cast<size_t>(operand));
    }
    ++operand;
  }
  for (; operand < saved.n_in(); ++operand) {
    if (!saved.needs(operand)) continue;
    wanted.push_back(saved.in(operand));
    places.push_back(static_cast<size_t>(operand));
  }
  Tensors out, heads, incoming;
  {
    const autograd::Record record(s.training);
    const ContextScope current(s.current);
    const amp::Scope mixed(s.amp);
    const random::RepeatDraws repeat(s.draws);
    const SecondRun second;
    const reads::Second unchanged(s.reads);
    out = s.f(in);
  }
  if (out.size() != dout.size())
    throw Error("recompute: the function gave ", dout.size(), " results at first and ", out.size(),
                " now; it must do the same each time");
  for (size_t i = 0; i < out.size(); ++i) {
    if (!dout[i].defined()) continue;
    expect_as_before(i, dout[i], out[i]);
    if (!needs_grad(out[i].impl())) continue;
    heads.push_back(out[i]);
    incoming.push_back(dout[i]);
  }
  Tensors gradients(static_cast<size_t>(saved.n_in()));
  if (heads.empty()) return gradients;
  const Tensors made =
      autograd::shared_gradients(heads, wanted, {.head_gradients = incoming, .allow_unused = true});
  for (size_t k = 0; k < made.size(); ++k) gradients[places[k]] = made[k];
  return gradients;
}

const Op& op() {
  static const Op& made = *[] {
    Op* const op = new Op;
    op->name = "recompute";
    op->gradient = &gradient;
    op->keep = Keep::inputs;
    return op;
  }();
  return made;
}

}  // namespace

namespace autograd {

bool is_recomputing() { return again; }

Tensors recompute(std::function<Tensors(const Tensors&)> f, const Tensors& inputs,
                  const Tensors& variables) {
  if (!f) throw ValueError("recompute: the function is null; expected a function");
  if (!is_recording()) return f(inputs);
  const auto part = std::make_shared<RecomputedPart>(
      RecomputedPart{std::move(f), {}, is_training(), current_context(), amp::dtype(), {}, {}});
  for (const Tensor& t : inputs) part->defined.push_back(t.defined());
  for (size_t i = 0; i < variables.size(); ++i)
    detail::expect_tensor("recompute", variables[i], "variable ", i);
  std::vector<Ref> operands;
  for (const Tensor& t : inputs)
    if (t.defined()) operands.emplace_back(t);
  for (size_t i = 0; i < variables.size(); ++i)  // each once
    if (std::none_of(variables.begin(), variables.begin() + static_cast<ptrdiff_t>(i),
                     [&](const Tensor& t) { return t.is(variables[i]); }))
      operands.emplace_back(variables[i]);
  Tensors out;
  {
    const Pause pause(is_training());
    const random::NoteDraws note(part->draws);
    const reads::First noted(part->reads, operands);
    out = part->f(inputs);
  }
  for (Tensor& t : out) t = alias(t, t.impl().view);  // f may return an input
  const RecomputeAttrs attrs{part.get()};
  record(op(), operands, AttrsView::of(attrs, {part}), out);
  return out;
}

}  // namespace autograd
}  // namespace locus
