// Finds the part of the graph that a backward pass uses.
#include <locus/core/tape/backward_pass.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include <locus/core/accumulate.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>

namespace locus {
namespace {

// `what`: "the head", "variable 1".
[[noreturn]] void not_in_graph(const char* who, const std::string& what, const Tensor& x) {
  throw Error(who, ": ", what, ", ", describe(x), ", ", why_no_graph(x.impl()));
}

[[noreturn]] void was_freed(const Node& node) {
  throw Error("backward: the graph that leads through ", node.op.name,
              " was freed by an earlier backward() or grad(), which went through it; give the "
              "earlier call retain_graph = true, or record anew");
}

// Cleared data of the thread's last pass. A plain pointer is never destroyed: a global's destructor
// may differentiate, and runs after destructors of the main thread's thread_local objects.
thread_local PassNotes* spare = nullptr;

struct Spare {
  ~Spare() { keep(nullptr); }
  void keep(PassNotes* notes) const { delete std::exchange(spare, notes); }
};
thread_local const Spare until_thread_ends;

}  // namespace

void Numbers::forget() {
  used_ = 0;
  if (++round_ == 0) *this = {};  // old slots would count again
}

void Numbers::grow() {
  const std::vector<Slot> old =
      std::exchange(slots_, std::vector<Slot>(std::max<size_t>(64, 2 * slots_.size())));
  for (const Slot& slot : old)
    if (slot.round == round_) find(slot.object) = slot;
}

void PassNotes::clear() {
  constexpr size_t kMostKept = 1 << 16;
  if (targets.capacity() > kMostKept) {
    *this = {};
    return;
  }
  numbers.forget();
  targets.clear();
  steps.clear();
  inputs.clear();
  results.clear();
  heads.clear();
  walk.clear();
  leaves.clear();
  early.clear();
  dout.clear();
  kept.clear();
}

Pass::Pass(const char* who, const Tensors& heads, const Tensors* variables,
           const autograd::GradOptions& o)
    : who_(who),
      retain_(o.retain_graph || o.create_graph),
      create_(o.create_graph),
      all_(!variables),
      notes_(std::exchange(spare, nullptr)) {
  if (!notes_) notes_ = std::make_unique<PassNotes>();
  prepare(heads, variables, o.head_gradients);
}

Pass::~Pass() {
  notes_->clear();
  until_thread_ends.keep(notes_.release());
}

bool Pass::calls_hook(const GraphState& leaf) { return leaf.hook && !capture::active(); }

void Pass::prepare(const Tensors& heads, const Tensors* variables, const Tensors& gradients) {
  if (heads.empty()) throw Error(who_, ": expected at least one head");
  if (!gradients.empty() && gradients.size() != heads.size())
    throw Error(who_, ": ", heads.size(), " heads and ", gradients.size(),
                " head gradients; expected one each, or none");
  for (size_t i = 0; variables && i < variables->size(); ++i) {
    const Tensor& v = (*variables)[i];
    if (!needs_grad(v.impl())) not_in_graph(who_, text_of("variable ", i), v);
    notes_->targets[target_of(v.impl().graph)].wanted = true;
  }
  Tensors given(heads.size());
  for (size_t i = 0; i < heads.size(); ++i) {
    detail::expect_tensor(who_, heads[i], "head ", i);
    if (!gradients.empty()) given[i] = head_gradient(heads[i], gradients[i]);
    if (!needs_grad(heads[i].impl()))
      not_in_graph(who_, heads.size() == 1 ? "the head" : text_of("head ", i), heads[i]);
    notes_->heads.push_back(reach(heads[i].impl().graph));
  }
  for (size_t i = 0; i < notes_->results.size(); ++i) {
    const Step& made = notes_->steps[notes_->targets[notes_->results[i]].step];
    const int k = notes_->results[i] - static_cast<int>(made.targets);
    const size_t inputs = made.inputs;
    Node& node = *made.state->node;
    for (size_t n = 0; n < node.in.size(); ++n)
      if (const Node::Input& in = node.in[n];
          in.edge && Node::leads(in, k) && notes_->inputs[inputs + n].target < 0) {
        const int to = reach(in.edge);
        notes_->inputs[inputs + n].target = to;
      }
  }
  if (!std::ranges::is_sorted(notes_->walk, std::greater<>()))  // chains are
    std::ranges::sort(notes_->walk, std::greater<>());
  for (const Leaf& leaf : notes_->leaves) {
    if (all_ && !calls_hook(*leaf.state)) autograd::check_adds_to(*leaf.state);  // hooks check
    notes_->targets[leaf.target].direct = direct(leaf, given);
  }
  for (auto next = notes_->walk.rbegin(); next != notes_->walk.rend(); ++next) {
    Step& s = notes_->steps[next->second];
    const std::span<Node::Input> in = s.state->node->in;
    for (size_t n = 0; n < in.size(); ++n) {
      PassInput& input = notes_->inputs[s.inputs + n];
      if (input.target < 0) continue;
      input.needed = needed(input.target);
      s.needed = s.needed || input.needed;
      if (input.needed && notes_->targets[input.target].direct) input.place = &in[n].edge->grad;
    }
  }
  if (all_ && !capture::active()) find_early();
  for (size_t i = 0; i < heads.size(); ++i) {
    const int t = notes_->heads[i];
    Target& target = notes_->targets[t];
    if (!needed(t)) continue;
    if (given[i].defined())
      arrive(t, given[i]);
    else if (target.step >= 0 && !target.ones && !target.incoming.defined())
      target.ones = true;
    else
      arrive(t, filled(heads[i].context(), heads[i].impl().view.meta, 1));
  }
}

// Finds after which step the gradient of each leaf with a hook is complete.
void Pass::find_early() {
  if (std::ranges::none_of(notes_->leaves, [](const Leaf& leaf) { return !!leaf.state->hook; }))
    return;
  for (size_t i = notes_->walk.size(); i-- > 0;) {
    const Step& s = notes_->steps[notes_->walk[i].second];
    const std::span<Node::Input> in = s.state->node->in;
    for (size_t n = 0; n < in.size(); ++n) {
      const int t = notes_->inputs[s.inputs + n].target;
      if (t >= 0 && in[n].edge->hook && !std::exchange(notes_->targets[t].early, true))
        notes_->early.emplace_back(i, Leaf{in[n].edge, t});
    }
  }
  std::ranges::reverse(notes_->early);
}

// g on the head's context: cpu and cpu_pinned are one memory.
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
  int& first = notes_->numbers.of(node ? static_cast<const void*>(node) : state.get());
  if (first < 0) {
    first = static_cast<int>(notes_->targets.size());
    const int made_by = node ? static_cast<int>(notes_->steps.size()) : -1;
    if (node) notes_->steps.push_back({state, notes_->targets.size()});
    for (size_t k = 0; k < (node ? node->out.size() : 1); ++k)
      notes_->targets.push_back({.step = made_by});
  }
  return node ? first + node->number_of(*state) : first;
}

int Pass::reach(const std::shared_ptr<GraphState>& state) {
  const int t = target_of(state);
  Target& target = notes_->targets[t];
  Node* const node = state->node;
  if (node && node->freed && !target.wanted) was_freed(*node);
  if (node && capture::active()) [[unlikely]]
    capture::check_tape(node->order);
  if (++target.edges > 1) return t;
  if (!node) {
    notes_->leaves.push_back({state, t});
  } else if (!node->freed) {
    notes_->results.push_back(t);
    Step& s = notes_->steps[target.step];
    if (std::exchange(s.reached, true)) return t;
    s.inputs = notes_->inputs.size();
    notes_->inputs.resize(notes_->inputs.size() + node->in.size());
    notes_->walk.emplace_back(node->order, target.step);
  }
  return t;
}

bool Pass::needed(int t) const {
  const Target& target = notes_->targets[t];
  return target.wanted || (target.step >= 0 ? notes_->steps[target.step].needed : all_);
}

// Whether a gradient function may write directly to a leaf's gradient.
bool Pass::direct(const Leaf& leaf, const Tensors& head_gradients) const {
  const GraphState& state = *leaf.state;
  return all_ && state.placed && state.req == GradReq::write && !autograd::adds_to(state) &&
         notes_->targets[leaf.target].edges == 1 &&
         !(calls_hook(state) && state.hook->before) &&  // it may throw
         std::none_of(head_gradients.begin(), head_gradients.end(), [&](const Tensor& g) {
           return g.defined() && g.shares_memory_with(state.grad);
         });
}

}  // namespace locus
