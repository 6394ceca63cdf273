// What of the graph a backward pass goes through.
#include <locus/core/backward_pass.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>

#include <locus/core/accumulate.h>
#include <locus/core/capture_check.h>
#include <locus/core/error.h>

namespace locus {
namespace {

// `what` x is in no graph: "the head", "variable 1".
[[noreturn]] void not_in_graph(const char* who, const std::string& what, const Tensor& x) {
  throw Error(who, ": ", what, ", ", describe(x), ", ", why_no_graph(x.impl()));
}

[[noreturn]] void was_freed(const Node& node) {
  throw Error("backward: the graph that leads through ", node.op.name,
              " was freed by an earlier backward() or grad(), which went through it; give the "
              "earlier call retain_graph = true, or record anew");
}

}  // namespace

bool Pass::calls_hook(const GraphState& leaf) { return leaf.hook && !capture::active(); }

void Pass::prepare(const Tensors& heads, const Tensors* variables, const Tensors& gradients) {
  if (heads.empty()) throw Error(who_, ": expected at least one head");
  if (!gradients.empty() && gradients.size() != heads.size())
    throw Error(who_, ": ", heads.size(), " heads and ", gradients.size(),
                " head gradients; expected one each, or none");
  for (size_t i = 0; variables && i < variables->size(); ++i) {
    const Tensor& v = (*variables)[i];
    if (!needs_grad(v.impl())) not_in_graph(who_, text_of("variable ", i), v);
    targets_[target_of(v.impl().graph)].wanted = true;
  }
  Tensors given(heads.size());
  std::vector<int> at;
  for (size_t i = 0; i < heads.size(); ++i) {
    if (!gradients.empty()) given[i] = head_gradient(heads[i], gradients[i]);
    if (!needs_grad(heads[i].impl()))
      not_in_graph(who_, heads.size() == 1 ? "the head" : text_of("head ", i), heads[i]);
    at.push_back(reach(heads[i].impl().graph));
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    const Step& made = steps_[targets_[results_[i]].step];
    const int k = results_[i] - static_cast<int>(made.targets);
    const size_t inputs = made.inputs;
    Node& node = *made.state->node;
    for (size_t n = 0; n < node.in.size(); ++n)
      if (const Node::Input& in = node.in[n];
          in.edge && Node::leads(in, k) && inputs_[inputs + n].target < 0) {
        const int to = reach(in.edge);
        inputs_[inputs + n].target = to;
      }
  }
  std::ranges::sort(walk_, std::greater<>());
  for (const Leaf& leaf : leaves_) {
    if (all_ && !calls_hook(*leaf.state)) autograd::check_adds_to(*leaf.state);  // it knows why
    targets_[leaf.target].direct = direct(leaf, given);
  }
  for (auto next = walk_.rbegin(); next != walk_.rend(); ++next) {
    Step& s = steps_[next->second];
    const std::span<Node::Input> in = s.state->node->in;
    for (size_t n = 0; n < in.size(); ++n) {
      PassInput& input = inputs_[s.inputs + n];
      if (input.target < 0) continue;
      input.needed = needed(input.target);
      s.needed = s.needed || input.needed;
      if (input.needed && targets_[input.target].direct) input.place = &in[n].edge->grad;
    }
  }
  if (all_ && !capture::active()) find_early();
  for (size_t i = 0; i < heads.size(); ++i) {
    Target& target = targets_[at[i]];
    if (!needed(at[i])) continue;
    if (given[i].defined())
      arrive(at[i], given[i]);
    else if (target.step >= 0 && !target.ones && !target.incoming.defined())
      target.ones = true;
    else
      arrive(at[i], filled(heads[i].context(), heads[i].impl().view.meta, 1));
  }
}

// After which step each leaf with a hook has all of its gradient.
void Pass::find_early() {
  if (std::ranges::none_of(leaves_, [](const Leaf& leaf) { return !!leaf.state->hook; })) return;
  for (size_t i = walk_.size(); i-- > 0;) {
    const Step& s = steps_[walk_[i].second];
    const std::span<Node::Input> in = s.state->node->in;
    for (size_t n = 0; n < in.size(); ++n) {
      const int t = inputs_[s.inputs + n].target;
      if (t >= 0 && in[n].edge->hook && !std::exchange(targets_[t].early, true))
        early_.emplace_back(i, Leaf{in[n].edge, t});
    }
  }
  std::ranges::reverse(early_);
}

// On the head's context: cpu and cpu_pinned are one memory.
Tensor Pass::head_gradient(const Tensor& head, const Tensor& g) const {
  if (!g.defined()) return g;
  if (g.shape() != head.shape())
    throw ShapeError(who_, ": head ", describe(head), ", its gradient ", describe(g),
                     "; expected equal shapes");
  const Context a = head.context(), b = g.context();
  if (a == b) return g;
  if (!mix(a, b))
    throw ContextMismatch(who_, ": head ", describe(head), ", its gradient ", describe(g),
                          "; expected both on one context");
  Tensor seen = alias(g, g.impl().view);
  seen.impl().graph = g.impl().graph;
  seen.impl().context = a;
  return seen;
}

int Pass::target_of(const std::shared_ptr<GraphState>& state) {
  Node* const node = state->node;
  int& first = numbers_.of(node ? static_cast<const void*>(node) : state.get());
  if (first < 0) {
    first = static_cast<int>(targets_.size());
    const int made_by = node ? static_cast<int>(steps_.size()) : -1;
    if (node) steps_.push_back({state, targets_.size()});
    for (size_t k = 0; k < (node ? node->out.size() : 1); ++k)
      targets_.push_back({.step = made_by});
  }
  return node ? first + node->number_of(*state) : first;
}

int Pass::reach(const std::shared_ptr<GraphState>& state) {
  const int t = target_of(state);
  Target& target = targets_[t];
  Node* const node = state->node;
  if (node && node->freed && !target.wanted) was_freed(*node);
  if (node && capture::active()) [[unlikely]]
    capture::check_tape(node->order);
  if (++target.edges > 1) return t;
  if (!node) {
    leaves_.push_back({state, t});
  } else if (!node->freed) {
    results_.push_back(t);
    Step& s = steps_[target.step];
    if (std::exchange(s.reached, true)) return t;
    s.inputs = inputs_.size();
    inputs_.resize(inputs_.size() + node->in.size());
    walk_.emplace_back(node->order, target.step);
  }
  return t;
}

bool Pass::needed(int t) const {
  const Target& target = targets_[t];
  return target.wanted || (target.step >= 0 ? steps_[target.step].needed : all_);
}

// Whether a gradient function may write a leaf's gradient where it is to be.
bool Pass::direct(const Leaf& leaf, const Tensors& head_gradients) const {
  const GraphState& state = *leaf.state;
  return all_ && state.placed && state.req == GradReq::write && !autograd::adds_to(state) &&
         targets_[leaf.target].edges == 1 &&
         !(calls_hook(state) && state.hook->before) &&  // it may refuse what is made
         std::none_of(head_gradients.begin(), head_gradients.end(), [&](const Tensor& g) {
           return g.defined() && g.shares_memory_with(state.grad);
         });
}

}  // namespace locus
