// The backward pass.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/accumulate.h>
#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/core/tape/backward_pass.h>
#include <locus/core/tape/grad_memory.h>
#include <locus/core/tape/tape.h>

namespace locus {
namespace {

// Into `out`, if defined.
Tensor add(const Tensor& a, const Tensor& b, const Tensor& out = {}) {
  static const OpRef<BinaryAttrs> op("add");
  return invoke(op, {a, b}, {}, out);
}

Tensor sum_to(const Tensor& x, const Meta& target, const Tensor& out) {
  static const OpRef<SumToAttrs> op("sum_to");
  return invoke(op, {x}, {target}, x.dtype() == target.dtype ? out : Tensor());
}

// Puts a recorded gradient in its variable's graph, even if it does not depend on the variable:
// differentiating again then gives 0.
Tensor linked(const Tensor& gradient, const std::shared_ptr<GraphState>& variable) {
  static const Op& op = *[] {
    Op* made = new Op;
    made->name = "gradient";
    made->gradient = [](const Saved&, std::span<const Tensor> dout) -> Tensors {
      return {dout[0], Tensor()};
    };
    return made;
  }();
  const Tensor stand_in = alias(gradient, gradient.impl().view);
  stand_in.impl().graph = variable;
  Tensor out = alias(gradient, gradient.impl().view);
  const Ref in[] = {gradient, stand_in};
  record(op, in, {}, {&out, 1});
  return out;
}

// Whether x is row-major and no other tensor has its memory.
bool sole(const Tensor& x) {
  return x.handle().use_count() == 1 && x.impl().storage.use_count() == 1 && x.contiguous();
}

[[noreturn]] void throw_not_kept(const Node& node, const Error& why) {
  std::string kept;
  const auto add = [&](const char* what, size_t i) {
    kept += text_of(kept.empty() ? "" : ", ", what, " ", i);
  };
  for (size_t i = 0; i < node.in.size(); ++i)
    if (node.in[i].value.defined()) add("input", i);
  for (size_t k = 0; k < node.out.size(); ++k)
    if (node.out[k].kept.storage) add("result", k);
  throw Error("backward: the gradient of ", node.op.name,
              " uses a tensor that is not there: ", why.what(), "; its Keep has ",
              kept.empty() ? "nothing" : kept,
              ", and saved.in(i), saved.out(i) are empty for others; name what the gradient reads "
              "in .gradient<>(keep_input(i) | keep_output(i)), or in a formula's Reads");
}

// Writes `incoming` to the leaf's gradient, whose handle stays the same. If neither memory is
// shared or placed, takes over the memory, which saves one copy per parameter and step.
void put(GraphState& leaf, Tensor incoming, bool adds) {
  if (!incoming.defined()) {  // reached, but nothing arrived: 0
    if (adds) return;
    incoming = filled(leaf.grad.context(), leaf.grad.impl().view.meta, 0);
  }
  if (incoming.is(leaf.grad)) return;  // written in place already
  if (adds) return void(add(leaf.grad, incoming, leaf.grad));
  TensorImpl &grad = leaf.grad.impl(), &fresh = incoming.impl();
  if (sole(incoming) && !leaf.placed && grad.storage.use_count() <= 1 &&
      fresh.view.meta.dtype == grad.view.meta.dtype && fresh.context == grad.context) {
    grad.storage = std::move(fresh.storage);
    grad.view = fresh.view;
    grad.contiguous = true;
  } else {
    autograd::hold_grad(leaf);
    incoming.copyto(leaf.grad);
  }
}

void write(const std::shared_ptr<GraphState>& state, Tensor incoming) {
  GraphState& leaf = *state;
  if (capture::active()) [[unlikely]]
    capture::wrote(state);
  put(leaf, std::move(incoming), autograd::adds_to(leaf) && leaf.grad.impl().storage);
  // Last: after OutOfMemory the gradient counts as unwritten.
  autograd::gradient_written(state);
  leaf.fresh = GraphState::written;
}

}  // namespace

Tensor filled(Context c, const Meta& m, double value) {
  static const OpRef<FillAttrs> fill("fill");
  return invoke_on(c, fill, FillAttrs{value, m});
}

void Pass::run() {
  auto early = notes_->early.begin();
  for (size_t i = 0; i < notes_->walk.size(); ++i) {
    step(notes_->steps[notes_->walk[i].second]);
    for (; early != notes_->early.end() && early->first == i; ++early) hand_over(early->second);
  }
}

void Pass::write_leaves() {
  for (const Leaf& leaf : notes_->leaves)
    if (!notes_->targets[leaf.target].early) hand_over(leaf);
}

Tensor Pass::captured(const Tensor& variable, bool materialize) {
  const std::shared_ptr<GraphState>& state = variable.impl().graph;
  const int t = target_of(state);
  make_ones(t);
  Tensor found = notes_->targets[t].incoming;
  if (!found.defined() && (materialize || notes_->targets[t].edges > 0))
    found = filled(variable.context(), variable.impl().view.meta, 0);
  return found.defined() && create_ ? linked(found, state) : found;
}

void Pass::make_ones(int t) {
  Target& target = notes_->targets[t];
  if (!std::exchange(target.ones, false)) return;
  const Step& s = notes_->steps[target.step];
  const TensorImpl& result = s.state->node->out[static_cast<size_t>(t) - s.targets].kept;
  target.incoming = filled(result.context, result.view.meta, 1);
}

void Pass::arrive(int t, Tensor gradient) {
  make_ones(t);
  Tensor& sum = notes_->targets[t].incoming;
  if (sum.defined())
    sum = add(sum, gradient);
  else
    sum = std::move(gradient);
}

// Whether head_gradient applies: ones arrive at result 0, and nothing at other results.
bool Pass::is_head(const Step& s) const {
  const Node& node = *s.state->node;
  if (retain_ || !node.op.head_gradient || !notes_->targets[s.targets].ones) return false;
  for (size_t k = 1; k < node.out.size(); ++k)
    if (const Target& t = notes_->targets[s.targets + k]; t.ones || t.incoming.defined())
      return false;
  return true;
}

// Kept results get handles only for this call: the node must not own itself. If the pass is
// recorded, the handles are in the graph.
Tensors Pass::differentiate(const Step& s, bool head) {
  Node& node = *s.state->node;
  notes_->kept.assign(node.out.size(), Tensor());
  for (size_t k = 0; k < node.out.size(); ++k) {
    Node::Output& o = node.out[k];
    if (!o.kept.storage) continue;
    auto handle = std::make_shared<TensorImpl>(o.kept);
    if (create_) handle->graph = std::shared_ptr<GraphState>(s.state, &o.state);
    notes_->kept[k] = Tensor(std::move(handle));
  }
  const bool fused = !create_ && node.op.fused_gradient;
  const Op::Gradient gradient = head    ? node.op.head_gradient
                                : fused ? node.op.fused_gradient
                                        : node.op.gradient;
  try {
    Tensors dx =
        gradient(Saved(node, notes_->inputs.data() + s.inputs, notes_->kept.data()), notes_->dout);
    notes_->kept.clear();
    return dx;
  } catch (const EmptyTensor& e) {
    throw_not_kept(node, e);
  }
}

void Pass::step(const Step& s) {
  Node& node = *s.state->node;
  if (!s.needed) return;
  notes_->dout.clear();
  const bool head = is_head(s);
  bool any = head;
  for (size_t k = 0; k < node.out.size(); ++k) {
    const size_t t = s.targets + k;
    if (!head) make_ones(static_cast<int>(t));
    Tensor& incoming = notes_->targets[t].incoming;
    notes_->dout.push_back(notes_->targets[t].wanted ? incoming : std::move(incoming));
    any = any || notes_->dout.back().defined();
  }
  if (!any) return;
  node.check_versions();
  if (!node.op.gradient)
    throw Error("backward: ", node.op.name, " has no gradient",
                node.op.no_gradient
                    ? std::string(": ") + node.op.no_gradient
                    : "; detach() its inputs, or give the op one: OpDef's .gradient<&f>(keep)");
  Tensors dx = differentiate(s, head);
  if (dx.size() != node.in.size())
    throw Error("backward: the gradient of ", node.op.name, " gave ", dx.size(), " tensors for ",
                node.in.size(),
                " inputs; it must return one per input, in order: Tensor() where "
                "saved.needs(i) is false");
  for (size_t i = 0; i < dx.size(); ++i) {
    const Node::Input& in = node.in[i];
    const PassInput& input = notes_->inputs[s.inputs + i];
    if (!input.needed || !dx[i].defined()) continue;
    const bool same = dx[i].shape() == Shape(in.meta);
    if (!same && !node.op.broadcasts)
      throw ShapeError("backward: the gradient of ", node.op.name, " has shape ", dx[i].shape(),
                       " for input ", i, " of shape ", Shape(in.meta),
                       "; return it in the shape of the input, or declare the op's .broadcasts(), "
                       "which sums it");
    arrive(input.target,
           same ? std::move(dx[i]) : sum_to(dx[i], in.meta, input.place ? *input.place : Tensor()));
  }
  notes_->dout.clear();
  if (!retain_) node.free();
}

void Pass::hand_over(const Leaf& leaf) {
  const auto hook = calls_hook(*leaf.state) ? leaf.state->hook : nullptr;  // may be removed
  if (hook && hook->before) hook->before();
  write(leaf.state, std::move(notes_->targets[leaf.target].incoming));
  if (hook) hook->written();
}

namespace {

// Ignores amp::Scope: gradients have their tensors' dtypes.
class PassMode : public autograd::Mode {
 public:
  explicit PassMode(bool record) : Mode(record ? 1 : 0, -1) {}

 private:
  const amp::Scope as_recorded_{std::nullopt};
};

}  // namespace

namespace autograd {

void backward(const Tensors& heads, const HeadOptions& options, Caller from) try {
  const UserLine user_line(from);
  const PassMode mode(false);
  Pass pass("backward", heads, nullptr, {options.head_gradients, options.retain_graph});
  pass.run();
  pass.write_leaves();
} catch (const Error&) {
  rethrow_at(from);
}

Tensors shared_gradients(const Tensors& heads, const Tensors& variables,
                         const GradOptions& options) {
  const PassMode mode(options.create_graph);
  Pass pass("autograd::grad", heads, &variables, options);
  pass.run();
  Tensors result;
  for (const Tensor& v : variables) {
    result.push_back(pass.captured(v, options.materialize_grads));
    if (!result.back().defined() && !options.allow_unused)
      throw Error("autograd::grad: the heads do not depend on variable ", result.size() - 1, ", ",
                  describe(v), "; allow_unused or materialize_grads takes that");
  }
  return result;
}

Tensors grad(const Tensors& heads, const Tensors& variables, const GradOptions& options,
             Caller from) try {
  const UserLine user_line(from);
  Tensors result = shared_gradients(heads, variables, options);
  const PassMode mode(options.create_graph);
  for (Tensor& g : result)
    if (g.defined() && !sole(g)) g = g.copyto(g.context());
  return result;
} catch (const Error&) {
  rethrow_at(from);
}

Tensors grad(const Tensor& head, const Tensors& variables, const GradOptions& options,
             Caller from) {
  return grad(Tensors{head}, variables, options, from);
}

}  // namespace autograd
}  // namespace locus
