#include <locus/core/replay/compile_gradient.h>

#include <algorithm>

#include <locus/core/autograd.h>
#include <locus/core/call/invoke_check.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/op.h>
#include <locus/core/replay/compile_copy.h>
#include <locus/core/stream.h>
#include <locus/core/tape/grad_memory.h>
#include <locus/core/tape/leaves.h>

namespace locus::compiled {
namespace {

struct Attrs {
  Gradient* gradient;  // the attributes' owner keeps it
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
    op->n_out = Op::kAny;
    op->gradient = &call_gradient;
    op->keep_of = [](const void* attrs) {
      return static_cast<const Attrs*>(attrs)->gradient->keep();
    };
    return op;
  }();
  return made;
}

}  // namespace

Gradient::Gradient(const capture::Recording& forward, const Tensors& in, const Tensors& out,
                   Mutex& mutex)
    : mutex_(mutex) {
  Tensors heads, variables;
  for (size_t i = 0; i < out.size(); ++i) {
    const TensorImpl& impl = out[i].impl();
    if (!needs_grad(impl)) continue;
    heads_.push_back(i);
    heads.push_back(out[i]);
    incoming_.push_back(allocate(impl.context, impl.view.meta));
    capture::innermost->replay->filled(*incoming_.back().impl().storage);
  }
  for (const auto& [leaf, state] : forward.leaves) {
    if (!state || state->req == GradReq::null) {
      others_.push_back(leaf);
      continue;
    }
    size_t input = 0;
    while (input < in.size() && in[input].impl().graph != state) ++input;
    operands_.push_back({input, input < in.size() ? Tensor() : leaf});
    variables.push_back(leaf);
  }
  if (heads.empty()) return;
  for (size_t i = 0; i < heads.size(); ++i) {
    const auto leaves = leaves_of(heads[i]);
    for (size_t k = 0; k < variables.size(); ++k)
      if (leaves.contains(variables[k].impl().graph.get()))
        operands_[k].heads |= 1u << std::min<size_t>(i, 31);
  }
  {
    const capture::RecordingPause aside;
    const autograd::Pause pause;
    for (const Tensor& t : incoming_) fill(t, 1);
  }
  const Tensors found = autograd::shared_gradients(
      heads, variables, {.head_gradients = incoming_, .allow_unused = true});
  size_t kept = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined()) continue;  // no head depends on it
    results_.push_back(alias(found[i], found[i].impl().view));
    operands_[kept++] = operands_[i];
  }
  operands_.resize(kept);
}

void Gradient::finish(const capture::Recording& forward, capture::Recording& recording) {
  // Later writes to memory that the program or the next call sees wait for reads here.
  for (const auto& seen : forward.made)
    if (const auto storage = seen.lock()) recording.replay->show(storage);
  recording.end();
  replay_ = std::move(recording.replay);
  const auto reads = [&](const Tensor& t) {
    const Storage& s = *t.impl().storage;
    return replay_->uses(s) && !replay_->owns(s);
  };
  std::erase_if(others_, [&](const Tensor& t) { return !reads(t); });
  int k = 0;
  const auto keep = [&](bool read) {
    if (read) keep_ = keep_ | Keep{1u << std::min(k, 31), 0};
    ++k;
  };
  for (const Operand& o : operands_) keep(o.leaf.defined() && reads(o.leaf));
  for (size_t i = 0; i < others_.size(); ++i) keep(true);
}

void Gradient::link(const Tensors& in, const Tensors& out, const AttrsOwner& owner, Caller from) {
  from_ = from;
  std::vector<Ref> operands;
  for (const Operand& o : operands_) operands.emplace_back(o.leaf.defined() ? o.leaf : in[o.input]);
  operands.insert(operands.end(), others_.begin(), others_.end());
  Tensors heads;
  for (const size_t i : heads_) heads.push_back(out[i]);
  const Attrs attrs{this};
  record(op(), operands, AttrsView::of(attrs, owner), heads);
  const std::span<Node::Input> to = heads[0].impl().graph->node->in;
  for (size_t i = 0; i < operands_.size(); ++i) to[i].results = operands_[i].heads;
}

Tensors Gradient::replay(const Saved& saved, std::span<const Tensor> incoming) {
  const MutexLock lock(mutex_);
  const autograd::Pause pause;
  Tensors gradients(static_cast<size_t>(saved.n_in()));
  Tensors made, places;
  bool given_places = false;
  for (size_t i = 0; i < results_.size(); ++i) {
    const auto k = static_cast<int>(i);
    if (!saved.needs(k)) continue;
    Tensor& gradient = gradients[i];
    gradient = saved.place(k);
    given_places = given_places || gradient.defined();
    if (!gradient.defined()) gradient = new_like({results_[i]})[0];
    made.push_back(results_[i]);
    places.push_back(gradient);
  }
  if (given_places) {
    const std::vector<Ref> targets(places.begin(), places.end());
    detail::check_apart(op(), targets, 0);
  }
  Copies given(incoming.size());
  for (size_t i = 0; i < incoming.size(); ++i)
    if (incoming[i].defined())
      given.add(incoming[i], incoming_[i]);
    else
      fill(incoming_[i], 0);
  given.run();
  replay_->replay(from_);
  copy_all(made, places);
  return gradients;
}

}  // namespace locus::compiled
