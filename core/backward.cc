// The backward pass.
#include <algorithm>
#include <utility>

#include <locus/core/accumulate.h>
#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/capture_check.h>
#include <locus/core/error.h>
#include <locus/core/grad_memory.h>
#include <locus/core/op.h>
#include <locus/core/storage.h>
#include <locus/core/tape.h>

namespace locus {
namespace {

Tensor filled(Context c, const Meta& m, double value) {
  static const OpRef<FillAttrs> fill("fill");
  return invoke_on(c, fill, FillAttrs{value, m});
}

// Into `out` when that is defined.
Tensor add(const Tensor& a, const Tensor& b, const Tensor& out = {}) {
  static const OpRef<BinaryAttrs> op("add");
  return invoke(op, {a, b}, {}, out);
}

Tensor sum_to(const Tensor& x, const Meta& target, const Tensor& out) {
  static const OpRef<SumToAttrs> op("sum_to");
  return invoke(op, {x}, {target}, x.dtype() == target.dtype ? out : Tensor());
}

[[noreturn]] void not_in_graph() {
  throw Error(
      "backward: cannot differentiate a tensor that is not in a computational graph; compute it "
      "under an autograd::Record scope from a tensor with attach_grad(), and set retain_graph to "
      "call backward() on the same graph again");
}

// `x` in a graph of its own.
Tensor in_graph(const Tensor& x, std::shared_ptr<GraphState> state) {
  Tensor seen = alias(x, x.impl().view);
  seen.impl().graph = std::move(state);
  return seen;
}

// A gradient that is recorded belongs to its variable's graph also where its value does not depend
// on it, so that differentiating again gives 0.
Tensor linked(const Tensor& gradient, const std::shared_ptr<GraphState>& variable) {
  static const Op& op = *[] {
    Op* made = new Op;
    made->name = "gradient";
    made->gradient = [](const Saved&, std::span<const Tensor> dout) -> Tensors {
      return {dout[0], Tensor()};
    };
    return made;
  }();
  const Tensor stand_in = in_graph(gradient, variable);
  Tensor out = alias(gradient, gradient.impl().view);
  const Ref in[] = {gradient, stand_in};
  record(op, in, {}, {&out, 1});
  return out;
}

// One reverse walk: what is reachable from the heads, what of it is needed, then the gradients.
class Pass {
 public:
  // Without variables: for the leaves.
  Pass(const Tensors& heads, const Tensors* variables, const autograd::GradOptions& o)
      : Pass(o, !variables) {
    prepare(heads, variables, o.head_gradients);
  }
  ~Pass() { clear(); }

  void run() {
    auto early = early_.begin();
    for (size_t i = 0; i < reached_.size(); ++i) {
      step(reached_[i]);
      for (; early != early_.end() && early->first == i; ++early) hand_over(early->second);
    }
  }

  // Those that did not get their sums while it ran.
  void write_leaves() {
    for (const auto& leaf : leaves_)
      if (!leaf->early) hand_over(leaf);
  }

  // What arrived at a variable; undefined when it is not reachable.
  Tensor captured(const Tensor& variable, bool materialize) {
    const std::shared_ptr<GraphState>& state = variable.impl().graph;
    make_ones(*state);
    Tensor found = state->incoming;
    if (!found.defined() && (materialize || state->edges > 0))
      found = filled(variable.context(), variable.impl().view.meta, 0);
    return found.defined() && create_ ? linked(found, state) : found;
  }

 private:
  Pass(const autograd::GradOptions& o, bool all)
      : retain_(o.retain_graph || o.create_graph), create_(o.create_graph), all_(all) {}

  void prepare(const Tensors& heads, const Tensors* variables, const Tensors& gradients) {
    if (heads.empty()) throw Error("backward: expected at least one head");
    if (!gradients.empty() && gradients.size() != heads.size())
      throw Error("backward: ", heads.size(), " heads and ", gradients.size(),
                  " head gradients; expected one each, or none");
    for (size_t i = 0; variables && i < variables->size(); ++i) {
      const TensorImpl& v = (*variables)[i].impl();
      if (!needs_grad(v)) not_in_graph();
      v.graph->wanted = true;
      variables_.push_back(v.graph);
    }
    Tensors given(heads.size());
    for (size_t i = 0; i < heads.size(); ++i) {
      if (!gradients.empty()) given[i] = head_gradient(heads[i], gradients[i]);
      if (!needs_grad(heads[i].impl())) not_in_graph();
      reach(heads[i].impl().graph);
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      const GraphState& result = *results_[i];
      for (Node::Input& in : result.node->in)
        if (in.edge && result.node->leads(in, result) && !std::exchange(in.reached, true))
          reach(in.edge);
    }
    std::sort(reached_.begin(), reached_.end(),
              [](const auto& a, const auto& b) { return a->node->order > b->node->order; });
    for (auto at = reached_.rbegin(); at != reached_.rend(); ++at) {
      Node& node = *(*at)->node;
      for (Node::Input& in : node.in) {
        in.needed = in.reached && needed(*in.edge);
        node.needed = node.needed || in.needed;
      }
    }
    for (const auto& leaf : leaves_) {
      if (all_ && !calls_hook(*leaf)) autograd::check_adds_to(*leaf);  // a hook knows better why
      leaf->direct = direct(*leaf, given);
    }
    if (all_ && !create_ && !capture::active()) find_early();
    for (size_t i = 0; i < heads.size(); ++i) {
      GraphState& state = *heads[i].impl().graph;
      if (!needed(state)) continue;
      if (given[i].defined())
        arrive(state, given[i]);
      else if (state.node && !state.ones && !state.incoming.defined())
        state.ones = true;
      else
        arrive(state, filled(heads[i].context(), heads[i].impl().view.meta, 1));
    }
  }

  // After which step each leaf with a hook has all of its gradient.
  void find_early() {
    if (std::ranges::none_of(leaves_, [](const auto& leaf) { return !!leaf->hook; })) return;
    for (size_t i = reached_.size(); i-- > 0;)
      for (const Node::Input& in : reached_[i]->node->in)
        if (in.reached && in.edge->hook && !std::exchange(in.edge->early, true))
          early_.emplace_back(i, in.edge);
    std::ranges::reverse(early_);
  }

  // On the head's context: cpu and cpu_pinned are one memory.
  static Tensor head_gradient(const Tensor& head, const Tensor& g) {
    if (!g.defined()) return g;
    if (g.shape() != head.shape())
      throw ShapeError("backward: head ", describe(head), ", its gradient ", describe(g),
                       "; expected equal shapes");
    const Context a = head.context(), b = g.context();
    if (a == b) return g;
    if (!mix(a, b))
      throw ContextMismatch("backward: head ", describe(head), ", its gradient ", describe(g),
                            "; expected both on one context");
    Tensor seen = in_graph(g, g.impl().graph);
    seen.impl().context = a;
    return seen;
  }

  void reach(const std::shared_ptr<GraphState>& state) {
    Node* const node = state->node;
    if (node && node->freed && !state->wanted) not_in_graph();
    if (node && capture::active()) [[unlikely]]
      capture::check_tape(node->order);
    ++state->edges;
    if (!node) {
      if (state->edges == 1) leaves_.push_back(state);
    } else if (!node->freed && state->edges == 1) {
      results_.push_back(state.get());
      if (!std::exchange(node->reached, true)) reached_.push_back(state);
    }
  }

  bool needed(const GraphState& state) const {
    return state.wanted || (state.node ? state.node->needed : all_);
  }

  bool calls_hook(const GraphState& leaf) const {
    return leaf.hook && !create_ && !capture::active();
  }

  // Whether a gradient function may write a leaf's gradient where it is to be.
  bool direct(const GraphState& leaf, const Tensors& head_gradients) const {
    return all_ && !create_ && leaf.placed && leaf.req == GradReq::write &&
           !autograd::adds_to(leaf) && leaf.edges == 1 &&
           !(calls_hook(leaf) && leaf.hook->before) &&  // it may refuse what is made
           std::none_of(head_gradients.begin(), head_gradients.end(), [&](const Tensor& g) {
             return g.defined() && g.shares_memory_with(leaf.grad);
           });
  }

  static void make_ones(GraphState& state) {
    if (!std::exchange(state.ones, false)) return;
    for (const Node::Output& o : state.node->out)
      if (&o.state == &state) state.incoming = filled(o.kept.context, o.kept.view.meta, 1);
  }

  static void arrive(GraphState& state, const Tensor& gradient) {
    make_ones(state);
    state.incoming = state.incoming.defined() ? add(state.incoming, gradient) : gradient;
  }

  // Whether it is a head, and nothing more, of an op that knows what to do then, once.
  bool is_head(const Node& node) const {
    return !retain_ && node.op.head_gradient && node.out[0].state.ones &&
           std::none_of(node.out.begin() + 1, node.out.end(), [](const Node::Output& o) {
             return o.state.ones || o.state.incoming.defined();
           });
  }

  // Kept results are handed over as handles for the time of the call: the node must not own itself.
  // When the pass is recorded they have their place in the graph.
  Tensors differentiate(const std::shared_ptr<GraphState>& state, bool head) {
    Node& node = *state->node;
    for (Node::Output& o : node.out) {
      if (!o.kept.storage) continue;
      auto handle = std::make_shared<TensorImpl>(o.kept);
      if (create_) handle->graph = std::shared_ptr<GraphState>(state, &o.state);
      o.value = Tensor(std::move(handle));
    }
    const bool fused = !create_ && node.op.fused_gradient;
    const Op::Gradient gradient = head    ? node.op.head_gradient
                                  : fused ? node.op.fused_gradient
                                          : node.op.gradient;
    Tensors dx = gradient(Saved(node), dout_);
    for (Node::Output& o : node.out) o.value = Tensor();
    return dx;
  }

  void step(const std::shared_ptr<GraphState>& state) {
    Node& node = *state->node;
    if (!node.needed) return;
    dout_.clear();
    const bool head = is_head(node);
    bool any = head;
    for (Node::Output& o : node.out) {
      if (!head) make_ones(o.state);
      dout_.push_back(o.state.wanted ? o.state.incoming : std::move(o.state.incoming));
      any = any || dout_.back().defined();
    }
    if (!any) return;
    node.check_versions();
    if (!node.op.gradient)
      throw Error("backward: ", node.op.name, " has no gradient",
                  node.op.no_gradient ? std::string(": ") + node.op.no_gradient : "");
    const Tensors dx = differentiate(state, head);
    if (dx.size() != node.in.size())
      throw Error("backward: the gradient of ", node.op.name, " gave ", dx.size(), " tensors for ",
                  node.in.size(), " inputs");
    for (size_t i = 0; i < dx.size(); ++i) {
      const Node::Input& in = node.in[i];
      if (!in.needed || !dx[i].defined()) continue;
      const bool same = dx[i].shape() == Shape(in.meta);
      if (!same && !node.op.broadcasts)
        throw ShapeError("backward: the gradient of ", node.op.name, " has shape ", dx[i].shape(),
                         " for an input of shape ", Shape(in.meta));
      arrive(*in.edge,
             same ? dx[i] : sum_to(dx[i], in.meta, Saved(node).place(static_cast<int>(i))));
    }
    dout_.clear();
    if (!retain_) node.free();
  }

  void hand_over(const std::shared_ptr<GraphState>& leaf) {
    const auto hook = calls_hook(*leaf) ? leaf->hook : nullptr;  // it may take itself away
    if (hook && hook->before) hook->before();
    write(leaf);
    if (hook) hook->written();
  }

  // A gradient's handle stays the same. Unless it is to stay where it is, it takes over the memory
  // of what arrived when nobody else holds that, which saves a copy a parameter and step.
  void write(const std::shared_ptr<GraphState>& state) {
    GraphState& leaf = *state;
    Tensor incoming = std::move(leaf.incoming);
    const bool adds = autograd::adds_to(leaf) && leaf.grad.impl().storage;
    if (capture::active()) [[unlikely]]
      capture::wrote(state);
    autograd::gradient_written(state);
    leaf.fresh = GraphState::written;
    if (!incoming.defined()) {  // it was reached, but no gradient depends on it: 0
      if (adds) return;
      incoming = filled(leaf.grad.context(), leaf.grad.impl().view.meta, 0);
    }
    TensorImpl& grad = leaf.grad.impl();
    if (create_) {  // the gradient is itself part of a graph
      if (!adds && !leaf.placed) incoming = incoming.copyto(grad.context);  // its own memory
      const Tensor sum = linked(adds ? add(leaf.grad, incoming) : incoming, state);
      if (!leaf.placed) {
        leaf.grad = sum;
        return;
      }
      const autograd::Pause pause(autograd::is_training());
      sum.copyto(leaf.grad);
      grad.graph = sum.impl().graph;
      return;
    }
    grad.graph = nullptr;
    if (incoming.is(leaf.grad)) return;  // written in place already
    if (adds) return void(add(leaf.grad, incoming, leaf.grad));
    TensorImpl& fresh = incoming.impl();
    const bool sole = incoming.handle().use_count() == 1 && fresh.storage.use_count() == 1;
    if (sole && !leaf.placed && fresh.contiguous && grad.storage.use_count() <= 1 &&
        fresh.view.meta.dtype == grad.view.meta.dtype && fresh.context == grad.context) {
      grad.storage = std::move(fresh.storage);
      grad.view = fresh.view;
      grad.contiguous = true;
    } else {
      autograd::hold_grad(leaf);
      incoming.copyto(leaf.grad);
    }
  }

  static void clear(GraphState& state) {
    state.wanted = state.direct = state.ones = state.early = false;
    state.edges = 0;
    state.incoming = Tensor();
  }
  void clear() {  // also after an exception: leave no scratch behind
    for (const auto& state : reached_) {
      Node& node = *state->node;
      node.reached = node.needed = false;
      for (Node::Input& in : node.in) in.reached = in.needed = false;
      for (Node::Output& out : node.out) {
        clear(out.state);
        out.value = Tensor();
      }
    }
    for (const auto* list : {&leaves_, &variables_})
      for (const auto& state : *list) clear(*state);
  }

  const bool retain_, create_, all_;
  std::vector<GraphState*> results_;  // all that are reached, of nodes
  // A result of each node, in the order of the walk; leaves; the variables that grad() asked for.
  std::vector<std::shared_ptr<GraphState>> reached_, leaves_, variables_;
  std::vector<std::pair<size_t, std::shared_ptr<GraphState>>> early_;
  Tensors dout_;
};

// Gradients have the dtypes of what they are of, also of what was recorded outside of a scope.
class PassMode : public autograd::Mode {
 public:
  explicit PassMode(bool record) : Mode(record ? 1 : 0, -1) {}

 private:
  const amp::Scope as_recorded_{std::nullopt};
};

}  // namespace

namespace autograd {

void backward(const Tensors& heads, const GradOptions& options) {
  const PassMode mode(options.create_graph);
  Pass pass(heads, nullptr, options);
  pass.run();
  pass.write_leaves();
}

Tensors grad(const Tensors& heads, const Tensors& variables, const GradOptions& options) {
  const PassMode mode(options.create_graph);
  Pass pass(heads, &variables, options);
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

Tensors grad(const Tensor& head, const Tensors& variables, const GradOptions& options) {
  return grad(Tensors{head}, variables, options);
}

}  // namespace autograd
}  // namespace locus
