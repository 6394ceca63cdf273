#include <locus/core/autograd.h>

#include <algorithm>
#include <queue>
#include <unordered_map>

#include <locus/core/error.h>
#include <locus/core/graph.h>
#include <locus/core/op.h>
#include <locus/core/storage.h>

namespace locus {
namespace {

thread_local bool recording = false, training = false;

Tensor filled(Context c, const Meta& m, double value) {
  static const Op& fill = get_op("fill");
  return invoke_on(c, fill, FillAttrs{value, m});
}

Tensor add(const Tensor& a, const Tensor& b) {
  static const Op& op = get_op("add");
  return invoke(op, {a, b}, BinaryAttrs{});
}

Tensor sum_to(const Tensor& x, const Meta& target) {
  static const Op& op = get_op("sum_to");
  return invoke(op, {x}, SumToAttrs{target});
}

void accumulate(Tensor& into, const Tensor& x) { into = into.defined() ? add(into, x) : x; }

[[noreturn]] void not_in_graph() {
  throw Error(
      "backward: cannot differentiate a tensor that is not in a computational graph; compute it "
      "under an autograd::Record scope from a tensor with attach_grad(), and set retain_graph to "
      "call "
      "backward() on the same graph again");
}

// One reverse walk. What it owns while walking: the gradients that arrived at each node so far.
class Pass {
 public:
  Pass(bool retain, bool create) : retain_(retain || create), create_(create) {}
  ~Pass() {  // also after an exception: leave no scratch behind
    for (const auto& node : visited_) {
      node->dout.clear();
      node->scheduled = false;
    }
    for (const auto& leaf : leaves_) leaf->incoming = {};
  }

  // A head, with its gradient (undefined: ones).
  void start(const Tensor& head, const Tensor& gradient) {
    const std::shared_ptr<GraphState>& state = head.impl().graph;
    if (!state || !needs_grad(head.impl())) not_in_graph();
    if (state->node && state->node->freed) not_in_graph();
    if (gradient.defined() && gradient.shape() != head.shape())
      throw ShapeError("backward: head " + describe(head) + ", its gradient " + describe(gradient) +
                       "; expected equal shapes");
    if (gradient.defined() && gradient.context() != head.context())
      throw ContextMismatch("backward: head " + describe(head) + ", its gradient " +
                            describe(gradient) + "; expected both on one context");
    arrive(state, gradient.defined() ? gradient : filled(head.context(), head.impl().view.meta, 1));
  }

  // Where to keep the gradients of variables that grad() asked for.
  void capture(const Tensors& variables) {
    for (const Tensor& v : variables) {
      const std::shared_ptr<GraphState>& state = v.impl().graph;
      if (!state || !needs_grad(v.impl())) not_in_graph();
      captured_[state.get()] = {};
    }
    capturing_ = true;
  }
  const Tensor& captured(const Tensor& v) { return captured_[v.impl().graph.get()]; }

  void run() {
    while (!queue_.empty()) {
      const std::shared_ptr<Node> node = queue_.top();
      queue_.pop();
      step(node);
    }
    if (!retain_)
      for (const auto& node : visited_) free(*node);
  }

  // Hands each leaf its sum.
  void write_leaves() {
    for (const auto& leaf : leaves_) write(*leaf);
  }

 private:
  struct Later {
    bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const {
      return a->order < b->order;
    }
  };

  void arrive(const std::shared_ptr<GraphState>& state, const Tensor& gradient) {
    if (capturing_) {
      const auto slot = captured_.find(state.get());
      if (slot != captured_.end()) accumulate(slot->second, gradient);
    }
    if (!state->node) {
      if (!state->incoming.defined()) leaves_.push_back(state);
      accumulate(state->incoming, gradient);
      return;
    }
    Node& node = *state->node;
    if (node.freed) not_in_graph();
    if (!node.scheduled) {
      node.scheduled = true;
      node.dout.assign(node.out_metas.size(), {});
      visited_.push_back(state->node);
      queue_.push(state->node);
    }
    accumulate(node.dout[static_cast<size_t>(state->index)], gradient);
  }

  // The node's gradient function. When it is to be recorded, kept outputs are handed over with
  // their place in the graph, as handles that the node itself does not keep.
  Tensors differentiate(const std::shared_ptr<Node>& node) {
    Tensors& kept = node->saved.outputs;
    if (!create_) return node->op.gradient(node->saved, node->dout);
    const Tensors plain = kept;
    for (size_t i = 0; i < kept.size(); ++i) {
      if (!kept[i].defined()) continue;
      kept[i] = alias(plain[i], plain[i].impl().view);
      auto state = std::make_shared<GraphState>();
      state->node = node;
      state->index = static_cast<int>(i);
      kept[i].impl().graph = std::move(state);
    }
    struct Restore {
      Tensors& kept;
      const Tensors& plain;
      ~Restore() { kept = plain; }
    } restore{kept, plain};
    return node->op.gradient(node->saved, node->dout);
  }

  void step(const std::shared_ptr<Node>& owner) {
    Node& node = *owner;
    for (size_t i = 0; i < node.dout.size(); ++i)
      if (!node.dout[i].defined()) node.dout[i] = filled(node.context, node.out_metas[i], 0);
    check_versions(node);
    if (!node.op.gradient)
      throw Error("backward: " + node.op.name + " has no gradient" +
                  (node.op.no_gradient ? std::string(": ") + node.op.no_gradient : ""));
    const Tensors dx = differentiate(owner);
    if (dx.size() != node.edges.size())
      throw Error("backward: the gradient of " + node.op.name + " gave " +
                  std::to_string(dx.size()) + " tensors for " + std::to_string(node.edges.size()) +
                  " inputs");
    for (size_t i = 0; i < dx.size(); ++i) {
      if (!node.edges[i] || !dx[i].defined()) continue;
      const Meta& wanted = node.saved.metas[i];
      const bool same = dx[i].shape() == Shape(wanted);
      if (!same && !node.op.broadcasts)
        throw ShapeError("backward: the gradient of " + node.op.name + " has shape " +
                         to_string(dx[i].shape()) + " for an input of shape " +
                         to_string(Shape(wanted)));
      arrive(node.edges[i], same ? dx[i] : sum_to(dx[i], wanted));
    }
    if (!retain_) node.dout.clear();
  }

  static void check_versions(const Node& node) {
    size_t k = 0;
    const auto check = [&](const Tensors& kept) {
      for (const Tensor& t : kept)
        if (t.defined() && t.impl().storage->version() != node.versions[k++])
          throw Error("backward: " + node.op.name + " needs " + describe(t) +
                      " as it was when recorded, but it was changed in place since; keep a copy");
    };
    check(node.saved.inputs);
    check(node.saved.outputs);
  }

  static void free(Node& node) {
    node.freed = true;
    node.saved.inputs.clear();
    node.saved.outputs.clear();
    node.edges.clear();
  }

  // The gradient's handle stays the same; its memory is taken over when nobody else holds it, which
  // saves a copy a parameter and step.
  void write(GraphState& leaf) {
    if (leaf.req == GradReq::null) return;
    Tensor incoming = std::move(leaf.incoming);
    leaf.incoming = {};
    leaf.fresh = true;
    TensorImpl& grad = leaf.grad.impl();
    if (create_) {  // the gradient is itself part of a graph: hand over the tensor
      leaf.grad = leaf.req == GradReq::add ? add(leaf.grad, incoming) : incoming;
      return;
    }
    const autograd::Pause pause(training);
    if (leaf.req == GradReq::add) {
      static const Op& op = get_op("add");
      invoke_into(op, {leaf.grad, incoming}, {leaf.grad}, BinaryAttrs{});
      return;
    }
    TensorImpl& fresh = incoming.impl();
    const bool sole = incoming.handle().use_count() == 1 && fresh.storage.use_count() == 1;
    if (sole && fresh.contiguous && grad.storage.use_count() == 1 &&
        fresh.view.meta.dtype == grad.view.meta.dtype) {
      grad.storage = std::move(fresh.storage);
      grad.view = fresh.view;
      grad.contiguous = true;
    } else {
      incoming.copyto(leaf.grad);
    }
  }

  bool retain_, create_, capturing_ = false;
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, Later> queue_;
  std::vector<std::shared_ptr<Node>> visited_;
  std::vector<std::shared_ptr<GraphState>> leaves_;
  std::unordered_map<const GraphState*, Tensor> captured_;
};

class PassMode : public autograd::Mode {
 public:
  explicit PassMode(bool record) : Mode(record ? 1 : 0, -1) {}
};

void start_heads(Pass& pass, const Tensors& heads, const Tensors& gradients) {
  if (heads.empty()) throw Error("backward: expected at least one head");
  if (!gradients.empty() && gradients.size() != heads.size())
    throw Error("backward: " + std::to_string(heads.size()) + " heads and " +
                std::to_string(gradients.size()) + " head gradients; expected one each, or none");
  for (size_t i = 0; i < heads.size(); ++i)
    pass.start(heads[i], gradients.empty() ? Tensor() : gradients[i]);
}

}  // namespace

namespace autograd {

bool is_recording() { return recording; }
bool is_training() { return training; }

Mode::Mode(int record, int train) : recording_(locus::recording), training_(locus::training) {
  if (record >= 0) locus::recording = record != 0;
  if (train >= 0) locus::training = train != 0;
}
Mode::~Mode() {
  locus::recording = recording_;
  locus::training = training_;
}

void backward(const Tensors& heads, const GradOptions& options) {
  const PassMode mode(options.create_graph);
  Pass pass(options.retain_graph, options.create_graph);
  start_heads(pass, heads, options.head_gradients);
  pass.run();
  pass.write_leaves();
}

Tensors grad(const Tensors& heads, const Tensors& variables, const GradOptions& options) {
  const PassMode mode(options.create_graph);
  Pass pass(options.retain_graph, options.create_graph);
  pass.capture(variables);
  start_heads(pass, heads, options.head_gradients);
  pass.run();
  Tensors result;
  for (const Tensor& v : variables) {
    result.push_back(pass.captured(v));
    if (!result.back().defined() && !options.allow_unused)
      throw Error("autograd::grad: the heads do not depend on variable " +
                  std::to_string(result.size() - 1) + ", " + describe(v));
  }
  return result;
}

Tensors grad(const Tensor& head, const Tensors& variables, const GradOptions& options) {
  return grad(Tensors{head}, variables, options);
}

bool fresh_grad(const Tensor& x, bool clear) {
  GraphState* state = x.impl().graph.get();
  if (!state) return false;
  const bool fresh = state->fresh;
  if (clear) state->fresh = false;
  return fresh;
}

}  // namespace autograd

void Tensor::attach_grad(GradReq req) const {
  TensorImpl& t = impl();
  if (!is_floating(t.view.meta.dtype))
    throw DTypeError("attach_grad: " + describe(*this) + "; expected a floating dtype");
  auto state = std::make_shared<GraphState>();
  state->req = req;
  if (req != GradReq::null) state->grad = filled(t.context, t.view.meta, 0);
  t.graph = std::move(state);
}

bool Tensor::has_grad() const { return impl().graph && impl().graph->grad.defined(); }

Tensor Tensor::grad() const {
  if (!has_grad())
    throw Error("grad: " + describe(*this) +
                " has no gradient attached; call attach_grad() before recording");
  return impl().graph->grad;
}

Tensor Tensor::detach() const { return impl().graph ? alias(*this, impl().view) : *this; }

void Tensor::zero_grad() const {
  static const Op& fill = get_op("fill");
  const Tensor g = grad();
  const autograd::Pause pause(autograd::is_training());
  invoke_into(fill, {}, {g}, FillAttrs{0, g.impl().view.meta});
}

void Tensor::backward() const { autograd::backward({*this}); }
void Tensor::backward(const BackwardOptions& o) const {
  autograd::GradOptions options{{}, o.retain_graph, o.create_graph};
  if (o.head_gradient.defined()) options.head_gradients = {o.head_gradient};
  autograd::backward({*this}, options);
}

}  // namespace locus
