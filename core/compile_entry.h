// One recording of a compiled function: where its inputs, results and gradients are, and when it
// fits a call. Internal to compile.cc.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/accumulate.h>
#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/compile_gradient.h>
#include <locus/core/compile_results.h>
#include <locus/core/error.h>
#include <locus/core/layout.h>
#include <locus/core/recompute.h>
#include <locus/core/recording.h>
#include <locus/core/stream.h>

namespace locus::compiled {

// What is not in the inputs' layout.
struct Mode {
  bool training = autograd::is_training(), graph = autograd::is_recording();
  bool again = autograd::is_recomputing();
  Context current = current_context();
  std::optional<DType> amp = amp::dtype();
  uint32_t settings = capture::settings.load(std::memory_order_relaxed);
  std::vector<bool> needed = {};  // the inputs' gradients, in a graph
  friend bool operator==(const Mode&, const Mode&) = default;

  explicit Mode(const Tensors& in) {
    if (!graph) [[likely]]
      return;
    for (const Tensor& t : in) needed.push_back(needs_grad(t.impl()));
  }
};

class Entry : public std::enable_shared_from_this<Entry>, NonCopyable {
 public:
  // Runs f. `own_inputs`: in memory for inputs of its own.
  Entry(const std::function<Tensors(const Tensors&)>& f, const Tensors& in, const Mode& mode,
        bool own_inputs, Caller from)
      : mode_(mode), from_(from) {
    capture::Recording recording(from);
    recording.graph = mode_.graph;
    for (const Tensor& t : in) inputs_.push_back(Input(t, own_inputs, mode_.graph));
    Tensors given = in;
    for (size_t i = 0; i < in.size(); ++i) {
      if (own_inputs) given[i] = inputs_[i].buffer;
      if (mode_.graph) given[i] = mode_.needed[i] ? as_leaf(given[i]) : given[i].detach();
    }
    fill(in);
    finish(recording, f(given), in, given);
    give_back(in);
  }

  bool fits(const Tensors& in, const Mode& mode) const {
    if (in.size() != inputs_.size() || !(mode == mode_)) return false;
    for (size_t i = 0; i < in.size(); ++i)
      if (!inputs_[i].fits(in[i].impl())) return false;
    return true;
  }
  bool same_key(const Entry& other) const {
    if (!(other.mode_ == mode_) || other.inputs_.size() != inputs_.size()) return false;
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].context != other.inputs_[i].context ||
          !same_layout(inputs_[i].view, other.inputs_[i].view))
        return false;
    return true;
  }
  // The tensors themselves: nothing is to be copied.
  bool has(const Tensors& in) const {
    for (size_t i = 0; i < in.size(); ++i)
      if (!inputs_[i].is(in[i].impl())) return false;
    return true;
  }
  bool copies_inputs() const { return !inputs_.empty() && inputs_[0].buffer.defined(); }
  // Whether these, of the same layout, may be copied to where it reads, and back where it writes.
  bool may_copy(const Tensors& in) const {
    for (size_t i = 0; may_copy_ && i < in.size(); ++i) {
      const TensorImpl& t = in[i].impl();
      const bool written = inputs_[i].written;
      if ((!mode_.graph && t.graph) || (written ? holds(*t.storage) : writes(*t.storage)))
        return false;
      for (size_t k = 0; written && k < in.size(); ++k)
        if (k != i && in[k].impl().storage == t.storage) return false;
    }
    return may_copy_;
  }
  // Whether gradients are new, or not, as those were that the function asked about.
  bool as_fresh() const {
    return std::all_of(asked_.begin(), asked_.end(),
                       [](const auto& a) { return a.leaf->fresh == a.fresh; });
  }
  bool stale() const {
    return std::any_of(generations_.begin(), generations_.end(),
                       [](const auto& g) { return *g.first != g.second; }) ||
           std::any_of(leaves_.begin(), leaves_.end(),
                       [](const auto& l) { return l.tensor.impl().graph != l.state; });
  }
  // A backward() is to come that needs its memory.
  bool pending() const { return pending_.load(std::memory_order_acquire); }

  Plan& plan() { return *plan_; }
  Plan* gradient() { return gradient_ ? &gradient_->plan() : nullptr; }
  std::string text() const {  // its key
    std::string inputs = listed(inputs_, [](const Input& i) {
      return text_of(name(i.view.meta.dtype), Shape(i.view.meta), " on ", i.context);
    });
    return text_of(inputs.empty() ? "no inputs" : inputs, mode_.training ? ", training" : "",
                   mode_.graph ? ", in a graph" : "", copies_inputs() ? "; inputs are copied" : "");
  }

  // Who replays one of the plans, or measures them: backward() may be in another thread.
  Mutex& turn() { return turn_; }

  // What the recorded call gave.
  Tensors first(const Tensors& in) { return give(in, false, results_.copies(false)); }
  Tensors replay(const Tensors& in, Caller from) {
    for (const auto& leaf : added_) autograd::check_adds_to(*leaf);
    from_ = from;
    const bool held = results_.held();
    if (held && second_ == 0) second_ = plan_->add_version(results_.second(*plan_));
    const std::vector<Results::Copy> copied = results_.copies(held);
    fill(in);
    FirstFailure failure;
    failure.run([&] { plan_->replay(from, held ? second_ : 0); });
    failure.run([&] { give_back(in); });  // what was written before it, too
    failure.rethrow();
    for (const capture::Freshness& f : after_) f.leaf->fresh = f.fresh;
    return give(in, held, copied);
  }

 private:
  struct Input {
    Input(const Tensor& t, bool own, bool any_graph)
        : view(t.impl().view), context(t.context()), in_graph(any_graph) {
      const TensorImpl& impl = t.impl();
      if (!in_graph) graph = impl.graph;
      if (own)
        buffer = make_tensor(context, view, current_stream(context));
      else
        storage = impl.storage;
    }
    bool fits(const TensorImpl& t) const {
      return t.context == context && same_layout(t.view, view);
    }
    bool is(const TensorImpl& t) const {
      return t.storage == storage && t.view.data == view.data &&
             (in_graph || (!graph.owner_before(t.graph) && !t.graph.owner_before(graph)));
    }

    View view;
    Context context;
    bool in_graph;                     // whichever that is
    std::weak_ptr<GraphState> graph;   // after the call: the function may attach a gradient
    std::shared_ptr<Storage> storage;  // of the first call's, else
    Tensor buffer;
    bool written = false;  // by the function
  };

  void fill(const Tensors& in) {
    if (copies_inputs()) copy_all(in, buffers());
  }
  Tensors buffers() const {
    Tensors all;
    for (const Input& i : inputs_) all.push_back(i.buffer);
    return all;
  }

  // What was written goes to the inputs themselves.
  void give_back(const Tensors& in) {
    if (!copies_inputs()) return;
    const capture::Aside aside;
    const autograd::Pause pause;
    for (size_t i = 0; i < in.size(); ++i)
      if (inputs_[i].written) inputs_[i].buffer.copyto(in[i]);
  }

  // The input whose buffer this is, or -1.
  int input_in(const Storage& storage) const {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].buffer.defined() && inputs_[i].buffer.impl().storage.get() == &storage)
        return static_cast<int>(i);
    return -1;
  }
  // Other than results, when they are lent: memory that replays change, or read as well.
  bool writes(const Storage& storage) const {
    return plan_->writes(storage) && !results_.lends(storage);
  }
  bool holds(const Storage& storage) const {
    return plan_->holds(storage) && !results_.lends(storage);
  }

  void finish(capture::Recording& r, Tensors out, const Tensors& in, Tensors& given) {
    Plan& plan = *r.plan;
    const auto is_gradient = [&](const Storage& s) {
      return std::any_of(r.written.begin(), r.written.end(),
                         [&](const auto& leaf) { return leaf->grad.impl().storage.get() == &s; });
    };
    for (const Tensor& t : out) {
      if (!t.defined())
        throw Error("Compiled: the function called at ", to_string(from_), " gave an empty tensor");
      const auto same =
          std::find_if(given.begin(), given.end(), [&](const Tensor& g) { return g.is(t); });
      if (same != given.end()) {
        results_.add_input(static_cast<int>(same - given.begin()));
        continue;
      }
      const Storage& s = *t.impl().storage;
      const int input = input_in(s);
      results_.add(t, input, input < 0 && (!plan.owns(s) || is_gradient(s)));
    }
    std::optional<capture::Recording> backward;
    if (mode_.graph) {
      backward.emplace(&r);
      gradient_ = std::make_unique<Gradient>(r, *backward, given, out, turn_);
      if (gradient_->empty()) gradient_ = nullptr;
      for (const Tensor& t : given)
        std::erase_if(r.leaves, [&](const auto& l) {
          return l.tensor.is(t) || (l.state && l.state == t.impl().graph);
        });
    }
    out.clear();  // and the graph that these were in
    given.clear();
    results_.settle(plan);
    may_copy_ = true;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Input& own = inputs_[i];
      if (!mode_.graph) own.graph = in[i].impl().graph;
      if (own.buffer.defined()) plan.show(own.buffer.impl().storage);
      own.written = plan.writes(own.storage ? *own.storage : *own.buffer.impl().storage);
      may_copy_ = may_copy_ && (mode_.graph || !in[i].impl().graph) && dense(own.view);
    }
    for (const auto& leaf : r.written) {
      leaf->placed = true;  // whoever else writes it writes it there
      plan.show(leaf->grad.impl().storage);
      after_.push_back({leaf, leaf->fresh});
    }
    for (const auto& [leaf, before] : r.asked) after_.push_back({leaf, leaf->fresh});
    asked_ = std::move(r.asked);
    added_ = std::move(r.added);
    leaves_ = std::move(r.leaves);
    if (gradient_) gradient_->finish(*backward, results_, buffers());
    backward.reset();
    r.end();
    plan_ = std::move(r.plan);
    for (auto& g : r.generations) generations_.emplace_back(g, *g);
  }

  Tensors give(const Tensors& in, bool held, const std::vector<Results::Copy>& copied) {
    const auto buffer = [&](size_t i) { return inputs_[i].buffer.data_ptr(); };
    Tensors out = results_.give(in, buffer, copied);
    if (!gradient_) return out;
    pending_.store(true, std::memory_order_relaxed);
    std::shared_ptr<Storage> pending(&nothing_, [self = shared_from_this()](Storage*) {
      self->pending_.store(false, std::memory_order_release);
    });
    gradient_->link(in, out, std::move(pending),
                    held ? results_.second(*plan_) : std::vector<Plan::Move>(), from_);
    return out;
  }

  const Mode mode_;
  Mutex turn_;
  Caller from_;
  std::vector<Input> inputs_;
  std::unique_ptr<Plan> plan_;
  Results results_;
  std::vector<std::pair<std::shared_ptr<const uint64_t>, uint64_t>> generations_;
  std::vector<capture::Leaf> leaves_;
  std::vector<std::shared_ptr<GraphState>> added_;
  std::vector<capture::Freshness> asked_, after_;  // what it was recorded for, and leaves
  bool may_copy_ = false;
  size_t second_ = 0;  // the version that is replayed while results are held; 0: there is none yet
  std::unique_ptr<Gradient> gradient_;
  Storage nothing_{cpu(), 0, {}};  // what the graph holds while a backward() is to come
  std::atomic<bool> pending_{false};
};

}  // namespace locus::compiled
