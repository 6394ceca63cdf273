#include <locus/ops/fuse/function.h>

#include <algorithm>
#include <bit>
#include <utility>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/base/text.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/observe/nan_check.h>
#include <locus/core/recompute.h>
#include <locus/core/tape/grad_memory.h>
#include <locus/core/tape/leaves.h>
#include <locus/core/tape/tape.h>
#include <locus/ops/jit/parameters.h>

namespace locus {
namespace fusion {
namespace {

constexpr size_t kMostSignatures = 256;

class Key {
 public:
  void add(auto v) {
    const auto bits = static_cast<uint64_t>(v);
    text_.append(reinterpret_cast<const char*>(&bits), sizeof bits);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Whether both have memory in one storage: the first such input, and the bytes between the two.
void add_sharing(const Tensors& in, size_t i, Key& key) {
  for (size_t k = 0; k < i; ++k) {
    if (!in[k].shares_memory_with(in[i])) continue;
    key.add(k);
    key.add(static_cast<const std::byte*>(in[i].impl().view.data) -
            static_cast<const std::byte*>(in[k].impl().view.data));
    return;
  }
  key.add(i);
}

std::string key_of(const Tensors& in, const std::vector<uint64_t>& more, bool record) {
  Key key;
  for (const uint64_t v : more) key.add(v);
  key.add(record);
  key.add(autograd::is_training());
  key.add(autograd::is_recording());
  key.add(autograd::is_recomputing());
  const Context current = current_context();
  key.add(current.type);
  key.add(current.index);
  key.add(amp::dtype() ? static_cast<int>(*amp::dtype()) : -1);
  key.add(capture::settings.load(std::memory_order_relaxed));
  key.add(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const TensorImpl& t = in[i].impl();
    key.add(t.context.type);
    key.add(t.context.index);
    key.add(t.view.meta.dtype);
    key.add(t.view.meta.rank);
    for (int a = 0; a < t.view.meta.rank; ++a) {
      key.add(t.view.meta.shape[a]);
      key.add(t.view.stride[a]);
    }
    key.add(record && needs_grad(t));
    add_sharing(in, i, key);
  }
  return key.take();
}

std::string text_of_inputs(const Tensors& in, bool record) {
  std::string all = listed(in, [&](const Tensor& t) {
    return text_of(name(t.dtype()), t.shape(),
                   record && needs_grad(t.impl()) ? " that needs a gradient" : "");
  });
  return text_of(all, " on ", in[0].context());
}

Context context_of(const Tensors& in) {
  const Context c = in[0].context();
  for (const Tensor& t : in) {
    if (t.context() != c) throw Unfused{"its arguments are on different contexts"};
    if (t.size() == 0) throw Unfused{"an argument has no elements"};
  }
  if (c.type == DeviceType::cpu_pinned) throw Unfused{"its arguments are on cpu_pinned()"};
  return c;
}

// The same memory, as a leaf that needs a gradient or as no part of a graph.
Tensor as_given(const Tensor& x, bool leaf) {
  Tensor given = alias(x, x.impl().view);
  if (!leaf) return given;
  given.impl().graph = std::make_shared<GraphState>();
  given.impl().graph->req = GradReq::write;
  return given;
}

// Which results need a gradient, and which arguments each depends on.
void find_heads(Signature& s, const Tensors& in, const Tensors& out) {
  s.reached.resize(in.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i].defined() || !needs_grad(out[i].impl())) continue;
    const auto leaves = leaves_of(out[i]);
    for (size_t k = 0; k < in.size(); ++k)
      if (leaves.contains(in[k].impl().graph.get()))
        s.reached[k] |= 1u << std::min<size_t>(s.heads.size(), 31);
    s.heads.push_back(i);
  }
}

}  // namespace

uint64_t Signature::next_id() {
  static std::atomic<uint64_t> count{0};
  return ++count;
}

std::shared_ptr<const Signature> Traces::find(const Body& body, const Tensors& in,
                                              const std::vector<uint64_t>& more, bool record) {
  std::string key = key_of(in, more, record);
  std::shared_ptr<Signature> found;
  {
    const MutexLock lock(mutex_);
    auto& at = by_key_[key];
    if (!at) {
      at = std::make_shared<Signature>();
      keys_.push_back(std::move(key));
      if (keys_.size() > kMostSignatures) {
        found = at;
        by_key_.erase(keys_.front());
        keys_.pop_front();
      }
    }
    if (!found) found = at;
  }
  if (found->made.load(std::memory_order_acquire)) [[likely]]
    return found;
  const MutexLock making(found->mutex);
  if (found->made.load(std::memory_order_relaxed)) return found;
  make(*found, body, in, record);
  found->made.store(true, std::memory_order_release);
  const MutexLock lock(mutex_);
  ++traces_;
  kernels_ = found->plan ? found->plan->kernels() : 0;
  return found;
}

void Traces::make(Signature& s, const Body& body, const Tensors& in, bool record) const {
  s.text = text_of_inputs(in, record);
  s.training = autograd::is_training();
  s.current = current_context();
  try {
    trace(s, body, in, record);
    if (record) s.body = body.keep();
    return;
  } catch (const Unfused& unfused) {
    s.why = unfused.why;
  } catch (const CaptureError& error) {
    s.why = error.what();
  } catch (const UnsupportedOnContext& error) {  // it has no compiler
    s.why = error.what();
  }
  s.plan = nullptr;
}

void Traces::trace(Signature& s, const Body& body, const Tensors& in, bool record) const {
  const Context c = context_of(in);
  if (record && amp::dtype()) throw Unfused{"it needs a gradient in an amp::Scope"};
  capture::CallTrace trace(c);
  Tensors given, out;
  for (const Tensor& t : in) given.push_back(as_given(t, record && needs_grad(t.impl())));
  try {
    out = body.run(given);
  } catch (const CaptureError&) {
    throw;
  } catch (const std::exception& error) {
    throw Unfused{text_of("its trace threw: ", error.what())};
  } catch (...) {
    throw Unfused{"its trace threw"};
  }
  trace.end();
  if (!trace.refused().empty()) throw Unfused{trace.refused()};
  Graph graph = Graph::of(trace, given, out, gradients_);
  if (record) find_heads(s, given, out);
  out.clear();
  given.clear();
  if (trace.release()) throw Unfused{"it keeps a tensor that it made"};
  s.plan = std::make_unique<const Plan>(name_, std::move(graph), c);
  if (record && s.plan->others() > 0)
    throw Unfused{
        text_of("it needs a gradient, which would compute other ops again: ", s.plan->text())};
}

std::string Traces::describe(const std::string& what) const {
  std::vector<std::shared_ptr<Signature>> all;
  {
    const MutexLock lock(mutex_);
    for (const std::string& key : keys_) all.push_back(by_key_.at(key));
  }
  std::string text;
  for (const auto& s : all) {
    if (!s->made.load(std::memory_order_acquire)) continue;
    text += text_of(what, s->text, ": ", s->plan ? s->plan->text() : "not fused: " + s->why, '\n');
  }
  return text;
}

FuseStats Traces::stats() const {
  const MutexLock lock(mutex_);
  return {traces_, keys_.size(), kernels_};
}

namespace {

// The gradient of a call, as a function of its arguments and of the gradients of its results.
class GradientBody : public Body {
 public:
  GradientBody(std::shared_ptr<const Signature> of, std::vector<bool> needed,
               std::vector<size_t> heads)
      : of_(std::move(of)), needed_(std::move(needed)), heads_(std::move(heads)) {}

  Tensors run(const Tensors& list) const override {
    const size_t n = needed_.size();
    Tensors in, wanted, heads;
    for (size_t i = 0; i < n; ++i) {
      in.push_back(as_given(list[i], needed_[i]));
      if (needed_[i]) wanted.push_back(in[i]);
    }
    {
      const autograd::Record record(of_->training);
      const ContextScope current(of_->current);
      const Tensors out = of_->body->run(in);
      for (const size_t i : heads_) heads.push_back(out[i]);
    }
    const Tensors incoming(list.begin() + static_cast<ptrdiff_t>(n), list.end());
    return autograd::shared_gradients(heads, wanted,
                                      {.head_gradients = incoming, .allow_unused = true});
  }
  std::shared_ptr<const Body> keep() const override {
    return std::make_shared<GradientBody>(*this);
  }

 private:
  std::shared_ptr<const Signature> of_;
  std::vector<bool> needed_;
  std::vector<size_t> heads_;
};

// What a node of the tape keeps.
struct RecordedCall {
  std::shared_ptr<Function> function;
  std::shared_ptr<const Signature> signature;
};
struct RecordedAttrs {
  const RecordedCall* call;
};

Tensors gradient(const Saved& saved, std::span<const Tensor> dout) {
  const RecordedCall& call = *saved.attrs<RecordedAttrs>().call;
  if (autograd::is_recording())
    throw Error("backward: the gradient of the fused function ", call.function->name,
                " has no gradient itself; for create_graph call the function without fuse()");
  Tensors list, gradients(static_cast<size_t>(saved.n_in()));
  std::vector<bool> needed;
  std::vector<size_t> heads;
  std::vector<uint64_t> key;
  for (int i = 0; i < saved.n_in(); ++i) {
    list.push_back(saved.in(i));
    needed.push_back(saved.needs(i));
    key.push_back(needed.back());
  }
  for (size_t k = 0; k < dout.size(); ++k) {
    key.push_back(dout[k].defined());
    if (!dout[k].defined()) continue;
    list.push_back(dout[k]);
    heads.push_back(call.signature->heads[k]);
  }
  key.push_back(call.signature->id);
  const GradientBody body(call.signature, needed, std::move(heads));
  const auto found = call.function->backward.find(body, list, key, false);
  Tensors made = found->plan ? found->plan->run(list) : body.run(list);
  for (size_t i = 0, next = 0; i < gradients.size(); ++i)
    if (needed[i]) gradients[i] = std::move(made[next++]);
  return gradients;
}

// The op of nodes of functions with this name. Lives until the process ends, as ops do.
const Op& node_op(const std::string& name) {
  struct All {
    Mutex mutex;
    std::map<std::string, std::unique_ptr<Op>> by_name LOCUS_GUARDED_BY(mutex);
  };
  static All& all = *new All;
  const MutexLock lock(all.mutex);
  auto& op = all.by_name[name];
  if (op) return *op;
  op = std::make_unique<Op>();
  op->name = name;
  op->n_out = Op::kAny;
  op->attrs_type = &typeid(RecordedAttrs);
  op->gradient = &gradient;
  op->keep = Keep::inputs;
  return *op;
}

}  // namespace

Function::Function(std::string n)
    : name(std::move(n)),
      forward(name, false),
      backward(name + "_gradient", true),
      op(node_op(name)) {}

Tensors Function::call(const Body& body, const Tensors& in, const std::vector<uint64_t>& key) {
  const bool empty = in.empty() || !std::ranges::all_of(in, &Tensor::defined);
  if (empty || capture::tracing() || checks_nan()) return body.run(in);
  const bool record = autograd::is_recording() &&
                      std::ranges::any_of(in, [](const Tensor& t) { return needs_grad(t.impl()); });
  const auto signature = forward.find(body, in, key, record);
  if (!signature->plan) return body.run(in);
  if (!record) return signature->plan->run(in);
  Tensors out;
  {
    const autograd::Pause pause(autograd::is_training());
    out = signature->plan->run(in);
  }
  if (signature->heads.empty()) return out;
  const std::vector<Ref> operands(in.begin(), in.end());
  Tensors heads;
  for (const size_t i : signature->heads) heads.push_back(out[i]);
  const auto recorded =
      std::make_shared<const RecordedCall>(RecordedCall{shared_from_this(), signature});
  const AttrsOwner owner{recorded};
  locus::record(op, operands, AttrsView::of(RecordedAttrs{recorded.get()}, owner), heads);
  const std::span<Node::Input> arguments = heads[0].impl().graph->node->in;
  for (size_t i = 0; i < in.size(); ++i) arguments[i].results = signature->reached[i];
  return out;
}

std::shared_ptr<Function> make(std::string name, Caller from) try {
  jit::check_kernel_name("fuse", name);
  return std::make_shared<Function>(std::move(name));
} catch (const Error&) {
  rethrow_at(from);
}

Tensors call(Function& f, const Body& body, const Tensors& in, const std::vector<uint64_t>& key,
             Caller from) {
  const UserLine user_line(from);
  return f.call(body, in, key);
}

FuseStats stats(const Function& f) { return f.forward.stats(); }

std::string describe(const Function& f) {
  const std::string lines = f.forward.describe("  ") + f.backward.describe("  gradient: ");
  return f.name + (lines.empty() ? ": not called yet\n" : ":\n" + lines);
}

uint64_t bits_of(double number) { return std::bit_cast<uint64_t>(number); }

}  // namespace fusion
}  // namespace locus
