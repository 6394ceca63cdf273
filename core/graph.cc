#include <locus/core/graph.h>

#include <algorithm>
#include <atomic>

#include <locus/core/autograd.h>
#include <locus/core/error.h>

namespace locus {
namespace {

std::atomic<uint64_t> next_order{1};

bool keeps_inputs(const Op& op) { return op.keep == Keep::inputs || op.keep == Keep::both; }
bool keeps_outputs(const Op& op) { return op.keep == Keep::outputs || op.keep == Keep::both; }

}  // namespace

Node::~Node() {
  // A chain of nodes is taken down in a loop: recursion would overflow the stack on long ones.
  static thread_local std::vector<std::vector<std::shared_ptr<GraphState>>>* pending = nullptr;
  if (pending) {
    pending->push_back(std::move(edges));
    return;
  }
  std::vector<std::vector<std::shared_ptr<GraphState>>> list;
  pending = &list;
  saved.inputs.clear();
  list.push_back(std::move(edges));
  while (!list.empty()) {
    auto last = std::move(list.back());
    list.pop_back();
    last.clear();
  }
  pending = nullptr;
}

void record(const Op& op, std::span<const Ref> in, const AttrsView& attrs, std::span<Tensor> out) {
  const bool needed = std::any_of(in.begin(), in.end(),
                                  [](const Ref& r) { return needs_grad(*r.tensor_->handle()); });
  if (!needed || (!op.gradient && !is_floating(out[0].dtype()))) return;
  auto node = std::make_shared<Node>(op, Attrs(attrs), static_cast<int>(in.size()));
  const size_t n = in.size();
  node->order = next_order.fetch_add(1, std::memory_order_relaxed);
  node->context = out[0].context();
  Saved& saved = node->saved;
  saved.metas.reserve(n);
  saved.contexts.reserve(n);
  saved.needs_grad.reserve(n);
  node->edges.reserve(n);
  for (const Ref& r : in) {
    const TensorImpl& t = *r.tensor_->handle();
    const bool needs = needs_grad(t);
    saved.metas.push_back(t.view.meta);
    saved.contexts.push_back(t.context);
    saved.needs_grad.push_back(needs);
    node->edges.push_back(needs ? t.graph : nullptr);
    if (!keeps_inputs(op)) continue;
    saved.inputs.push_back(*r.tensor_);
    node->versions.push_back(t.storage->version());
  }
  if (!keeps_inputs(op)) saved.inputs.resize(n);
  for (size_t i = 0; i < out.size(); ++i) {
    TensorImpl& t = out[i].impl();
    node->out_metas.push_back(t.view.meta);
    auto state = std::make_shared<GraphState>();
    state->node = node;
    state->index = static_cast<int>(i);
    t.graph = std::move(state);
    if (!keeps_outputs(op)) continue;
    // The kept output is another handle, so that the node does not own itself; its place in the
    // graph is restored when a gradient function is to be recorded.
    saved.outputs.push_back(alias(out[i], t.view));
    node->versions.push_back(t.storage->version());
  }
  if (!keeps_outputs(op)) saved.outputs.resize(out.size());
}

void check_in_place(const Op& op, std::span<const Ref> in, const Tensor& target) {
  const View& v = target.impl().view;
  const bool empty = v.meta.size() == 0;
  for (int i = 0; i < v.meta.rank && !empty; ++i)
    if (v.stride[i] == 0 && v.meta.shape[i] > 1) [[unlikely]]
      throw Error(op.name + ": the target " + describe(target) +
                  " is a broadcast view, in which several elements share memory; write into a "
                  "copy of it: x.copyto(x.context())");
  if (!autograd::is_recording()) return;
  bool in_graph = needs_grad(target.impl());
  for (const Ref& r : in) in_graph = in_graph || needs_grad(*r.tensor_->handle());
  if (in_graph)
    throw Error(op.name +
                ": in-place operations (+=, x(...) = y, out=) are not supported on tensors "
                "that are being recorded: target " +
                describe(target) +
                "; write z = x + y instead, or leave the autograd::Record scope");
}

}  // namespace locus
