#include <locus/core/autograd.h>

#include <utility>

#include <locus/core/accumulate.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/base/layout.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/core/replay/recording.h>
#include <locus/core/stream.h>
#include <locus/core/tape/grad_memory.h>
#include <locus/core/tape/tape.h>

namespace locus {
namespace {

thread_local bool recording = false, training = false;

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

namespace {

GraphState::Fresh freshness(const Tensor& x) {
  const GraphState* const state = x.impl().graph.get();
  if (!state) return GraphState::used;
  if (capture::active()) [[unlikely]]
    capture::asked_fresh(x);
  return state->fresh;
}

void mark(const Tensor& x, GraphState::Fresh as) {
  if (freshness(x) != GraphState::used) x.impl().graph->fresh = as;
}

}  // namespace

bool fresh_grad(const Tensor& x) { return freshness(x) != GraphState::used; }
bool summed_grad(const Tensor& x) { return freshness(x) == GraphState::summed; }
void mark_used(const Tensor& x) { mark(x, GraphState::used); }
void mark_summed(const Tensor& x) { mark(x, GraphState::summed); }

void set_grad_hook(const Tensor& x, std::function<void()> written, std::function<void()> before) {
  GraphState* const state = x.impl().graph.get();
  if (!state || state->node || state->req == GradReq::null) {
    if (!written) return;
    throw Error("set_grad_hook: ", describe(x), " has no gradient of its own; attach_grad() first");
  }
  state->hook = nullptr;
  if (written)
    state->hook = std::make_shared<const GraphState::Hook>(
        GraphState::Hook{std::move(written), std::move(before)});
}

void release_grad(const Tensor& x) {
  GraphState* const state = x.impl().graph.get();
  if (!state || !state->grad.defined() || state->placed) return;
  capture::check("autograd::release_grad", "memory of what is recorded is kept from call to call");
  const TensorImpl& grad = state->grad.impl();
  View view = grad.view;
  row_major(view.meta, view.stride);
  view.data = nullptr;
  state->grad = Tensor(std::make_shared<TensorImpl>(
      TensorImpl{view, grad.context, true, /*storage=*/nullptr, /*graph=*/nullptr}));
}

void expect_grad_req(std::string_view who, GradReq req) {
  if (req > GradReq::null) [[unlikely]]
    throw ValueError(who, ": grad_req ", static_cast<int>(req),
                     "; expected GradReq::write, GradReq::add or GradReq::null");
}

void drop_grads(const Tensors& leaves) {
  std::vector<bool> written;
  for (const Tensor& x : leaves) {
    written.push_back(fresh_grad(x));
    mark_used(x);
    if (const GraphState* const state = x.impl().graph.get()) gradient_dropped(*state);
  }
  for (size_t i = 0; i < leaves.size(); ++i)
    if (written[i] && leaves[i].impl().graph->req == GradReq::add) leaves[i].zero_grad();
}

void move_grad(const Tensor& x) {
  if (capture::active()) return;
  const Tensor gradient = x.grad();
  const TensorImpl& grad = gradient.impl();
  const StreamView to = current_stream(grad.context);
  grad.storage->before_write(to);
  grad.storage->leave_home(to);
}

void hold_grad(GraphState& leaf) {
  TensorImpl& grad = leaf.grad.impl();
  if (grad.storage) return;
  const Tensor memory = allocate(grad.context, grad.view.meta);
  grad.storage = memory.impl().storage;
  grad.view = memory.impl().view;
}

}  // namespace autograd

void check_in_place(const std::string& who, std::span<const Ref> in, const Tensor& target) {
  if (repeats(target.impl().view)) [[unlikely]]
    throw Error(who, ": the target ", describe(target),
                " is a broadcast view, in which several elements share memory; write into a copy "
                "of it: x.copyto(x.context())");
  if (!autograd::is_recording()) return;
  bool in_graph = needs_grad(target.impl());
  for (const Ref& r : in) in_graph = in_graph || needs_grad(*r.tensor_->handle());
  if (in_graph)
    throw Error(who,
                ": in-place operations (+=, x(...) = y, out=) are not supported on tensors that "
                "are being recorded: target ",
                describe(target), "; write z = x + y instead, or leave the autograd::Record scope");
}

void Tensor::attach_grad(GradReq req, Caller from) const try {
  const UserLine user_line(from);
  detail::expect_tensor("attach_grad", *this);
  autograd::expect_grad_req("attach_grad", req);
  TensorImpl& t = impl();
  if (!is_floating(t.view.meta.dtype))
    throw DTypeError("attach_grad: ", describe(*this), "; expected a floating dtype");
  auto state = std::make_shared<GraphState>();
  state->req = req;
  if (req != GradReq::null) state->grad = allocate(t.context, t.view.meta);
  t.graph = std::move(state);
  if (req != GradReq::null) zero_grad();
} catch (const Error&) {
  rethrow_at(from);
}

void Tensor::attach_grad(const Tensor& place, GradReq req, Caller from) const try {
  const UserLine user_line(from);
  detail::expect_tensor("attach_grad", *this);
  detail::expect_tensor("attach_grad", place, "place");
  autograd::expect_grad_req("attach_grad", req);
  const TensorImpl &t = impl(), &p = place.impl();
  const auto refuse = [&](const char* expected) {
    return text_of("attach_grad: ", describe(*this), ", place ", describe(place), "; expected ",
                   expected);
  };
  if (p.context != t.context) throw ContextMismatch(refuse("both on one context"));
  if (place.shape() != shape()) throw ShapeError(refuse("equal shapes"));
  if (place.dtype() != dtype()) throw DTypeError(refuse("equal dtypes"));
  if (needs_grad(p)) throw Error(refuse("a place that is in no graph"));
  if (repeats(p.view)) throw Error(refuse("a place whose elements have memory of their own"));
  if (p.storage == t.storage) throw Error(refuse("a place in another buffer than the tensor's"));
  attach_grad(GradReq::null);
  impl().graph->req = req;
  impl().graph->placed = true;
  if (req != GradReq::null) impl().graph->grad = place;
} catch (const Error&) {
  rethrow_at(from);
}

bool Tensor::has_grad() const { return impl().graph && impl().graph->grad.defined(); }

Tensor Tensor::grad(Caller from) const try {
  const UserLine user_line(from);
  if (!has_grad()) {
    const GraphState* const state = impl().graph.get();
    if (state && state->node)
      throw Error("grad: ", describe(*this), " is a result of ", state->node->op.name,
                  ", and only tensors with attach_grad() keep their gradients; "
                  "autograd::grad(head, {x}) gives the gradient of a result x");
    throw Error("grad: ", describe(*this), " has no gradient: it ", why_no_graph(impl()));
  }
  if (!impl().graph->grad.impl().storage)
    throw Error("grad: ", describe(*this),
                ": its gradient's memory was released, as a Trainer with zero = 2 does where "
                "another replica has the sum; backward() writes it anew");
  if (capture::active()) [[unlikely]]
    capture::depends_on(*this);
  return impl().graph->grad;
} catch (const Error&) {
  rethrow_at(from);
}

Tensor Tensor::detach(Caller from) const try {
  return impl().graph ? alias(*this, impl().view) : *this;
} catch (const Error&) {
  rethrow_at(from);
}

void Tensor::zero_grad(Caller from) const try {
  const UserLine user_line(from);
  if (has_grad() && !impl().graph->grad.impl().storage) return;  // counts as 0
  const autograd::Pause pause(autograd::is_training());
  grad() = 0;  // writes its memory
  const std::shared_ptr<GraphState>& state = impl().graph;
  if (state->fresh == GraphState::summed) state->fresh = GraphState::written;  // no longer a sum
  if (capture::Recording* const r = capture::recording_on({})) [[unlikely]]
    r->zeroed.push_back(state);
} catch (const Error&) {
  rethrow_at(from);
}

void Tensor::backward(LineOnly line) const { autograd::backward({*this}, {}, line.from); }
void Tensor::backward(const BackwardOptions& o, Caller from) const {
  autograd::HeadOptions options{{}, o.retain_graph};
  if (o.head_gradient.defined()) options.head_gradients = {o.head_gradient};
  autograd::backward({*this}, options, from);
}

}  // namespace locus
