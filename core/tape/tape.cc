#include <locus/core/tape/tape.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include <locus/core/base/recording_hooks.h>
#include <locus/core/call/invoke_check.h>
#include <locus/core/error.h>
#include <locus/core/tape/reads.h>

namespace locus {
namespace {

std::atomic<uint64_t> next_order{1};

// For std::allocate_shared: allocates `tail` more bytes and stores their address.
template <class T>
struct WithTail {
  using value_type = T;
  size_t tail;
  std::byte** at;

  WithTail(size_t bytes, std::byte** where) : tail(bytes), at(where) {}
  template <class U>
  WithTail(const WithTail<U>& other) : tail(other.tail), at(other.at) {}
  T* allocate(size_t n) {
    auto* block = static_cast<std::byte*>(::operator new(n * sizeof(T) + tail));
    *at = block + n * sizeof(T);
    return reinterpret_cast<T*>(block);
  }
  void deallocate(T* p, size_t) { ::operator delete(p); }
  friend bool operator==(const WithTail&, const WithTail&) { return true; }
};

template <class T>
std::span<T> place(std::byte*& at, size_t n) {
  static_assert(alignof(T) <= 8 && sizeof(T) % 8 == 0);
  T* const first = reinterpret_cast<T*>(at);
  std::uninitialized_value_construct_n(first, n);
  at += n * sizeof(T);
  return {first, n};
}

// For recorded results that depend on no tensor that needs a gradient.
Origin origin_of_recorded(std::span<const Ref> in) {
  Origin origin = Origin::constant;
  for (const Ref& r : in) origin = std::max(origin, r.tensor_->handle()->origin);
  return origin == Origin::unrecorded ? Origin::from_unrecorded : origin;
}

}  // namespace

void mark_unrecorded(const Op& op, std::span<const Ref> in, std::span<Tensor> out) {
  for (Tensor& result : out) result.impl().origin = Origin::unrecorded;
  if (!reads::watched()) [[likely]]
    return;
  for (size_t i = 0; i < in.size(); ++i) {
    const GraphState* const state = in[i].tensor_->handle()->graph.get();
    if (state && needs_grad(*in[i].tensor_->handle()) && !reads::expects(state)) try {
        throw Error(
            "recompute: the function uses this tensor, which needs a gradient, and it is neither "
            "among the inputs nor among the variables; give it as one, or use x.detach()");
      } catch (const Error&) {
        detail::rethrow(op, in, i);
      }
  }
}

std::string why_no_graph(const TensorImpl& x) {
  if (x.graph)
    return "was given GradReq::null; attach_grad() with GradReq::write or add before recording";
  switch (x.origin) {
    case Origin::unrecorded:
      return "was computed from a tensor with attach_grad(), but outside of an autograd::Record "
             "scope; compute it inside of one, and update a parameter in place: w -= step (w = w - "
             "step makes another tensor, which has no gradient)";
    case Origin::from_unrecorded:
      return "was recorded, but from a tensor that was computed from one with attach_grad() "
             "outside "
             "of an autograd::Record scope, such as w after w = w - step, which makes another "
             "tensor without a gradient; update in place (w -= step), or attach_grad() anew";
    case Origin::constant:
      return "was recorded, but no tensor that it is computed from has a gradient; call "
             "attach_grad() on these before the autograd::Record scope (detach() leaves the graph)";
    case Origin::not_differentiable:
      return "depends on tensors with attach_grad() only through an op that has no gradient, such "
             "as a comparison or an index of the largest; differentiate what goes into that op, or "
             "give an op of your own its .gradient<&f>(keep)";
    case Origin::made:
      break;
  }
  return "was not computed in an autograd::Record scope, and has no attach_grad(); compute it in "
         "one from tensors with attach_grad()";
}

uint64_t next_node() { return next_order.load(std::memory_order_relaxed); }

Node::Node(const Op& o, const AttrsView& a, size_t n_in, size_t n_out, std::byte* tail)
    : op(o),
      order(next_order.fetch_add(1, std::memory_order_relaxed)),
      in(place<Input>(tail, n_in)),
      out(place<Output>(tail, n_out)),
      attrs(tail) {
  if (a.size > 0) std::memcpy(attrs, a.data, static_cast<size_t>(a.size));
  if (a.owner) owner = *a.owner;
}

void Node::free() {
  freed = true;
  for (Input& i : in) {
    i.value = Tensor();
    i.edge = nullptr;
  }
  for (Output& o : out) o.kept.storage = nullptr;
  owner = {};
}

int Node::number_of(const GraphState& result) const {
  int k = 0;
  while (&out[static_cast<size_t>(k)].state != &result) ++k;
  return k;
}

void Node::check_versions() const {
  const auto check = [&](const TensorImpl& kept, uint64_t version) {
    if (kept.storage->version() == version) return;
    Tensor changed(std::make_shared<TensorImpl>(kept));
    throw Error("backward: ", op.name, " needs ", describe(changed),
                " as it was when recorded, but it was changed in place since; keep a copy");
  };
  for (const Input& i : in)
    if (i.value.defined()) check(i.value.impl(), i.version);
  for (const Output& o : out)
    if (o.kept.storage) check(o.kept, o.version);
}

Node::~Node() {
  // Destroys a chain of nodes in a loop: recursion would overflow the stack.
  static thread_local std::vector<std::shared_ptr<GraphState>>* pending = nullptr;
  std::vector<std::shared_ptr<GraphState>> list;
  const bool first = pending == nullptr;
  if (first) pending = &list;
  for (Input& i : in)
    if (i.edge) pending->push_back(std::move(i.edge));
  std::destroy(in.begin(), in.end());
  std::destroy(out.begin(), out.end());
  if (!first) return;
  while (!list.empty()) {
    const auto last = std::move(list.back());
    list.pop_back();
  }
  pending = nullptr;
}

int Saved::n_in() const { return static_cast<int>(node_.in.size()); }
const Tensor& Saved::in(int i) const { return node_.in[static_cast<size_t>(i)].value; }
const Tensor& Saved::out(int i) const { return results_[i]; }
const Meta& Saved::in_meta(int i) const { return node_.in[static_cast<size_t>(i)].meta; }
Context Saved::in_context(int i) const { return node_.in[static_cast<size_t>(i)].context; }
const Meta& Saved::out_meta(int i) const {
  return node_.out[static_cast<size_t>(i)].kept.view.meta;
}
bool Saved::needs(int i) const { return inputs_[i].needed; }
Tensor Saved::place(int i) const { return inputs_[i].place ? *inputs_[i].place : Tensor(); }
const void* Saved::attributes() const { return node_.attrs; }

void record(const Op& op, std::span<const Ref> in, const AttrsView& attrs, std::span<Tensor> out) {
  if (capture::active()) [[unlikely]]
    for (const Ref& r : in)
      if (const auto& graph = r.tensor_->handle()->graph; !graph || !graph->node)
        capture::depends_on(*r.tensor_);
  const bool needed = std::any_of(in.begin(), in.end(),
                                  [](const Ref& r) { return needs_grad(*r.tensor_->handle()); });
  if (!needed || (!op.gradient && !is_floating(out[0].dtype()))) {
    const Origin origin = needed ? Origin::not_differentiable : origin_of_recorded(in);
    for (Tensor& t : out) t.impl().origin = origin;
    return;
  }
  const Keep keep = op.keep_of ? op.keep_of(attrs.data) : op.keep;
  std::byte* tail = nullptr;
  const size_t bytes = in.size() * sizeof(Node::Input) + out.size() * sizeof(Node::Output) +
                       static_cast<size_t>(attrs.size);
  const auto node = std::allocate_shared<Node>(WithTail<Node>(bytes, &tail), op, attrs, in.size(),
                                               out.size(), tail);
  for (size_t i = 0; i < in.size(); ++i) {
    Node::Input& to = node->in[i];
    const TensorImpl& t = *in[i].tensor_->handle();
    to.meta = t.view.meta;
    to.context = t.context;
    if (needs_grad(t)) to.edge = t.graph;
    if (!keep.input(static_cast<int>(i))) continue;
    to.value = *in[i].tensor_;
    to.version = t.storage->version();
  }
  for (size_t i = 0; i < out.size(); ++i) {
    Node::Output& from = node->out[i];
    TensorImpl& t = out[i].impl();
    const bool kept = keep.output(static_cast<int>(i));
    from.kept = {t.view, t.context, t.contiguous, kept ? t.storage : nullptr, nullptr, {}};
    from.version = t.storage->version();
    from.state.node = node.get();
    t.graph = std::shared_ptr<GraphState>(node, &from.state);
  }
}

}  // namespace locus
