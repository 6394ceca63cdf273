#include <locus/core/compile_gradient.h>

#include <algorithm>
#include <set>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/core/grad_memory.h>

namespace locus::compiled {
namespace {

struct Attrs {
  Gradient* gradient;
};

void fill(const Tensor& t, double value) {
  static const OpRef<FillAttrs> op("fill");
  invoke_into(op, {}, {t}, FillAttrs{value, t.impl().view.meta});
}

Tensors call_gradient(const Saved& saved, std::span<const Tensor> incoming) {
  if (autograd::is_recording())
    throw Error(
        "backward: a compiled function's gradient has no gradient itself; for create_graph "
        "call the function uncompiled (hybridize(false))");
  capture::check("backward", "a compiled function's gradient is a recording of its own");
  return saved.attrs<Attrs>().gradient->replay(saved, incoming);
}

const Op& op() {
  static const Op& made = *[] {
    Op* const op = new Op;
    op->name = "a compiled function";
    op->gradient = &call_gradient;
    op->keep_of = [](const void* attrs) {
      return static_cast<const Attrs*>(attrs)->gradient->keep();
    };
    return op;
  }();
  return made;
}

// The leaves that `head` depends on.
std::set<const GraphState*> leaves_of(const Tensor& head) {
  std::set<const GraphState*> leaves;
  std::set<const Node*> nodes;
  std::vector<const GraphState*> next{head.impl().graph.get()};
  while (!next.empty()) {
    const GraphState* const state = next.back();
    next.pop_back();
    if (!state->node)
      leaves.insert(state);
    else if (nodes.insert(state->node).second)
      for (const Node::Input& in : state->node->in)
        if (in.edge) next.push_back(in.edge.get());
  }
  return leaves;
}

}  // namespace

void copy_all(const Tensors& from, const Tensors& to) {
  static const OpRef<NoAttrs> copy_several("copy_several");
  const capture::Aside aside;
  const autograd::Pause pause;
  std::vector<Ref> sources, targets;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].contiguous() && from[i].context() == from[0].context()) {
      sources.emplace_back(from[i]);
      targets.emplace_back(to[i]);
    } else {
      from[i].copyto(to[i]);
    }
  }
  if (!sources.empty())
    invoke_into(copy_several, std::span<const Ref>(sources), std::span<const Ref>(targets));
}

Tensor as_leaf(const Tensor& x) {
  Tensor leaf = alias(x, x.impl().view);
  leaf.impl().graph = std::make_shared<GraphState>();
  leaf.impl().graph->req = GradReq::write;
  return leaf;
}

Gradient::Gradient(capture::Recording& forward, capture::Recording& recording, const Tensors& in,
                   const Tensors& out, Mutex& turn)
    : turn_(turn) {
  Tensors heads, variables;
  for (size_t i = 0; i < out.size(); ++i) {
    const TensorImpl& impl = out[i].impl();
    if (!impl.graph || !impl.graph->node) continue;  // also a leaf, or an input itself
    View view = impl.view;
    row_major(view.meta, view.stride);
    heads_.push_back({i, impl.storage.get()});
    heads.push_back(out[i]);
    incoming_.push_back(make_tensor(impl.context, view, current_stream(impl.context)));
  }
  for (const auto& [leaf, state] : forward.leaves) {
    if (!state || state->req == GradReq::null) continue;
    size_t input = 0;
    while (input < in.size() && in[input].impl().graph != state) ++input;
    operands_.push_back({input, input < in.size() ? Tensor() : leaf, leaf.impl().storage.get()});
    variables.push_back(leaf);
  }
  if (heads.empty()) return;
  for (size_t i = 0; i < heads.size(); ++i) {
    const auto leaves = leaves_of(heads[i]);
    for (size_t k = 0; k < variables.size(); ++k)
      if (leaves.contains(variables[k].impl().graph.get()))
        operands_[k].heads |= 1u << std::min<size_t>(i, 31);
  }
  find_others(forward, in, out);
  {
    const capture::Aside aside;
    const autograd::Pause pause;
    for (const Tensor& t : incoming_) fill(t, 1);
  }
  const Tensors found = autograd::shared_gradients(
      heads, variables, {.head_gradients = incoming_, .allow_unused = true});
  size_t kept = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const Tensor& t = found[i];
    if (!t.defined()) continue;  // no head depends on it
    size_t same = 0;
    while (same < incoming_.size() && incoming_[same].impl().storage != t.impl().storage) ++same;
    const bool given = same < incoming_.size();
    results_.add(t, given ? static_cast<int>(same) : -1, !recording.plan->owns(*t.impl().storage));
    operands_[kept++] = operands_[i];
    const Tensor& leaf = operands_[i].leaf;
    if (!leaf.defined()) continue;
    {
      const capture::Aside aside;
      autograd::hold_grad(*leaf.impl().graph);
    }
    if (leaf.impl().graph->req == GradReq::write) results_.place_last(leaf.impl().graph->grad);
  }
  operands_.resize(kept);
}

void Gradient::find_others(const capture::Recording& forward, const Tensors& in,
                           const Tensors& out) {
  const auto add = [&](const Tensor& t, int input, int result, const Tensor& outside) {
    if (!needs_grad(t.impl())) others_.push_back({input, result, outside, t.impl().storage.get()});
  };
  for (size_t i = 0; i < in.size(); ++i) add(in[i], static_cast<int>(i), -1, {});
  for (size_t i = 0; i < out.size(); ++i) add(out[i], -1, static_cast<int>(i), {});
  for (const auto& [tensor, state] : forward.leaves) add(tensor, -1, -1, tensor);
}

void Gradient::finish(capture::Recording& recording, const Results& made, const Tensors& buffers) {
  results_.settle(*recording.plan);
  made.show_in(*recording.plan);
  for (const Tensor& t : buffers)
    if (t.defined()) recording.plan->show(t.impl().storage);
  for (const Operand& o : operands_)
    if (o.leaf.defined()) o.leaf.impl().graph->placed = true;  // all write it where it is now
  recording.end();
  plan_ = std::move(recording.plan);
  const auto reads = [&](const Storage& s) { return plan_->uses(s) && !plan_->owns(s); };
  std::erase_if(others_, [&](const Other& o) {
    return o.result < 0 ? !reads(*o.memory) : !plan_->uses(*o.memory);
  });
  int k = 0;
  for (const Operand& o : operands_)
    if (++k; reads(*o.memory)) keep_ = keep_ | keep_input(std::min(k, 31));
  for (size_t i = 0; i < others_.size(); ++i) keep_ = keep_ | keep_input(std::min(++k, 31));
  k = 0;
  for (const Head& h : heads_) {
    if (plan_->uses(*h.memory)) keep_ = keep_ | keep_output(std::min(k, 31));
    ++k;
  }
}

void Gradient::link(const Tensors& in, Tensors& out, std::shared_ptr<Storage> pending,
                    std::vector<Plan::Move> moves, Caller from) {
  moves_ = std::move(moves);
  from_ = from;
  TensorImpl nothing{{.meta = {.rank = 1}}, cpu(), true, std::move(pending), nullptr};
  const Tensor token(std::make_shared<TensorImpl>(std::move(nothing)));
  std::vector<Ref> operands{token};
  for (const Operand& o : operands_) operands.emplace_back(o.leaf.defined() ? o.leaf : in[o.input]);
  for (const Other& o : others_)
    operands.emplace_back(o.input >= 0    ? in[static_cast<size_t>(o.input)]
                          : o.result >= 0 ? out[static_cast<size_t>(o.result)]
                                          : o.outside);
  Tensors heads;
  for (const Head& h : heads_) {
    Tensor& t = out[h.result];
    if (t.handle().use_count() > 1) t = alias(t, t.impl().view);  // the same one at each call
    heads.push_back(t);
  }
  const Attrs attrs{this};
  record(op(), operands, AttrsView::of(attrs), heads);
  const std::span<Node::Input> to = heads[0].impl().graph->node->in;
  for (size_t i = 0; i < operands_.size(); ++i) to[i + 1].results = operands_[i].heads;
}

Tensors Gradient::replay(const Saved& saved, std::span<const Tensor> incoming) {
  const MutexLock lock(turn_);
  const autograd::Pause pause;
  results_.look([&](const Tensor& place) {
    for (int k = 1; k < saved.n_in(); ++k)
      if (const Tensor free = saved.place(k); free.defined() && free.is(place)) return true;
    return false;
  });
  const bool held = results_.held();
  const size_t version = version_for(held);
  const std::vector<Results::Copy> copied = results_.copies(held);
  Tensors given(incoming.begin(), incoming.end());
  Tensors from, to;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].defined()) {
      from.push_back(given[i]);
      to.push_back(incoming_[i]);
    } else {
      fill(incoming_[i], 0);
    }
  }
  copy_all(from, to);
  for (size_t i = 0; i < given.size(); ++i)
    if (results_.gives_input(i) && !(given[i].defined() && given[i].contiguous()))
      given[i] = row_major_copy(incoming_[i], incoming_[i].dtype());
  plan_->replay(from_, version);
  const auto buffer = [&](size_t i) { return incoming_[i].data_ptr(); };
  const Tensors made = results_.give(given, buffer, copied);
  Tensors gradients(1);
  gradients.insert(gradients.end(), made.begin(), made.end());
  gradients.resize(static_cast<size_t>(saved.n_in()));
  return gradients;
}

size_t Gradient::version_for(bool held) {
  if (!held && moves_.empty()) return 0;
  const std::pair key{!moves_.empty(), held};
  if (const auto at = versions_.find(key); at != versions_.end()) return at->second;
  std::vector<Plan::Move> moves = moves_;
  if (held)
    for (const Plan::Move& m : results_.second(*plan_)) moves.push_back(m);
  return versions_.emplace(key, plan_->add_version(moves)).first->second;
}

}  // namespace locus::compiled
