// One recording of a compiled function: where its inputs, results and gradients are, and when it
// fits a call. Internal to compile.cc.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/autograd.h>
#include <locus/core/layout.h>
#include <locus/core/op.h>
#include <locus/core/recording.h>
#include <locus/core/stream.h>

namespace locus::compiled {

inline bool same_layout(const View& a, const View& b) {
  return a.meta.dtype == b.meta.dtype && a.meta.rank == b.meta.rank &&
         std::equal(a.meta.shape, a.meta.shape + a.meta.rank, b.meta.shape) &&
         std::equal(a.stride, a.stride + a.meta.rank, b.stride);
}

// What is not in the inputs.
struct Mode {
  bool training = autograd::is_training();
  Context current = current_context();
  uint32_t settings = capture::settings.load(std::memory_order_relaxed);
  friend bool operator==(const Mode&, const Mode&) = default;
};

class Entry : NonCopyable {
 public:
  // Runs f. `own_inputs`: in memory for inputs of its own.
  Entry(const std::function<Tensors(const Tensors&)>& f, const Tensors& in, bool own_inputs,
        Caller from, Tensors& results) {
    capture::Recording recording(from);
    for (const Tensor& t : in) inputs_.push_back(Input(t, own_inputs));
    Tensors given = in;
    for (size_t i = 0; i < in.size(); ++i)
      if (own_inputs) given[i] = inputs_[i].buffer;
    fill(in);
    finish(recording, f(given), in);
    results = outputs(in, false);
  }

  bool fits(const Tensors& in, const Mode& mode) const {
    if (in.size() != inputs_.size() || !(mode == mode_)) return false;
    for (size_t i = 0; i < in.size(); ++i)
      if (!inputs_[i].fits(in[i].impl())) return false;
    return true;
  }
  // The tensors themselves: nothing is to be copied.
  bool has(const Tensors& in) const {
    for (size_t i = 0; i < in.size(); ++i)
      if (!inputs_[i].is(in[i].impl())) return false;
    return true;
  }
  bool copies_inputs() const { return !inputs_.empty() && inputs_[0].buffer.defined(); }
  // Whether these, of the same layout, may be copied to where it reads.
  bool may_copy(const Tensors& in) const {
    return may_copy_ && std::none_of(in.begin(), in.end(), [&](const Tensor& t) {
             return t.impl().graph || writes(*t.impl().storage);
           });
  }
  bool stale() const {
    return std::any_of(generations_.begin(), generations_.end(),
                       [](const auto& g) { return *g.first != g.second; }) ||
           std::any_of(leaves_.begin(), leaves_.end(),
                       [](const auto& l) { return l.first.impl().graph != l.second; });
  }

  Plan& plan() { return *plan_; }
  std::string text() const {  // its key
    std::string inputs = listed(inputs_, [](const Input& i) {
      return text_of(name(i.view.meta.dtype), Shape(i.view.meta), " on ", i.context);
    });
    return text_of(inputs.empty() ? "no inputs" : inputs, mode_.training ? ", training" : "",
                   copies_inputs() ? "; inputs are copied" : "");
  }

  Tensors replay(const Tensors& in, Caller from) {
    fill(in);
    const bool held =
        std::any_of(shown_.begin(), shown_.end(), [](const Shown& s) { return s.held(); });
    if (held && second_ == 0) make_second();
    plan_->replay(from, held ? second_ : 0);
    for (const Gradient& g : gradients_) g.leaf->fresh = g.fresh;
    return outputs(in, held);
  }

 private:
  struct Input {
    Input(const Tensor& t, bool own) : view(t.impl().view), context(t.context()) {
      const TensorImpl& impl = t.impl();
      before = graph = impl.graph.get();
      if (own)
        buffer = make_tensor(context, view, current_stream(context));
      else
        storage = impl.storage;
    }
    bool fits(const TensorImpl& t) const {
      return t.context == context && same_layout(t.view, view);
    }
    bool is(const TensorImpl& t) const {
      return t.storage == storage && t.view.data == view.data && t.graph.get() == graph;
    }

    View view;
    Context context;
    const GraphState *before, *graph;  // the function may attach a gradient
    std::shared_ptr<Storage> storage;  // of the first call's, else
    Tensor buffer;
  };
  // Memory of the plan's that results are in.
  struct Shown {
    std::shared_ptr<Storage> storage, second;
    // Whether nobody has what was lent any more. Apart: the last tensor may go after the entry.
    std::shared_ptr<std::atomic<bool>> back = std::make_shared<std::atomic<bool>>(true);
    int results = 0;
    bool kept = false;  // by the function too, beyond the call: never lent

    bool held() const { return !back->load(std::memory_order_acquire); }
  };
  struct Result {
    TensorImpl seen;
    size_t shown;
    Tensor outside;  // defined: it is this one, each time
    int input = -1;  // it is seen there, each time
  };
  struct Gradient {
    std::shared_ptr<GraphState> leaf;
    bool fresh;
  };

  // Those of one context that are row-major in one launch.
  void fill(const Tensors& in) {
    static const OpRef<NoAttrs> copy_several("copy_several");
    if (!copies_inputs()) return;
    const capture::Aside aside;
    const autograd::Pause pause;
    std::vector<Ref> from, to;
    for (size_t i = 0; i < in.size(); ++i) {
      const Tensor& buffer = inputs_[i].buffer;
      if (in[i].contiguous() && in[i].context() == in[0].context()) {
        from.emplace_back(in[i]);
        to.emplace_back(buffer);
      } else {
        in[i].copyto(buffer);
      }
    }
    if (!from.empty())
      invoke_into(copy_several, std::span<const Ref>(from), std::span<const Ref>(to));
  }

  // The input whose buffer this is, or -1.
  int input_in(const Storage& storage) const {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].buffer.defined() && inputs_[i].buffer.impl().storage.get() == &storage)
        return static_cast<int>(i);
    return -1;
  }
  // Other than results, when they are lent: memory that replays change.
  bool writes(const Storage& storage) const {
    return plan_->writes(storage) &&
           std::none_of(shown_.begin(), shown_.end(),
                        [&](const Shown& s) { return !s.kept && s.storage.get() == &storage; });
  }

  void finish(capture::Recording& r, Tensors out, const Tensors& in) {
    Plan& plan = *r.plan;
    const auto is_gradient = [&](const Storage& s) {
      return std::any_of(r.written.begin(), r.written.end(),
                         [&](const auto& leaf) { return leaf->grad.impl().storage.get() == &s; });
    };
    for (const Tensor& t : out) {
      const TensorImpl& impl = t.impl();
      const int input = input_in(*impl.storage);
      if (input < 0 && (!plan.owns(*impl.storage) || is_gradient(*impl.storage))) {
        results_.push_back({{}, 0, t.detach()});
        continue;
      }
      const TensorImpl seen{impl.view, impl.context, impl.contiguous, nullptr, nullptr};
      if (input >= 0) {
        results_.push_back({seen, 0, {}, input});
        continue;
      }
      size_t at = 0;
      while (at < shown_.size() && shown_[at].storage != impl.storage) ++at;
      if (at == shown_.size()) shown_.push_back({impl.storage, nullptr});
      ++shown_[at].results;
      results_.push_back({seen, at, {}});
    }
    out.clear();  // and the graph that these were in
    for (Shown& s : shown_) {
      s.kept = s.storage.use_count() > 1 + plan.holds(*s.storage);
      plan.show(s.storage);
    }
    may_copy_ = true;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Input& own = inputs_[i];
      own.graph = in[i].impl().graph.get();
      if (own.buffer.defined()) plan.show(own.buffer.impl().storage);
      may_copy_ = may_copy_ && !own.before && dense(own.view) &&
                  !plan.writes(own.storage ? *own.storage : *own.buffer.impl().storage);
    }
    for (const auto& leaf : r.written) {
      leaf->placed = true;  // whoever else writes it writes it there
      plan.show(leaf->grad.impl().storage);
      gradients_.push_back({leaf, leaf->fresh});
    }
    leaves_ = std::move(r.leaves);
    r.end();
    plan_ = std::move(r.plan);
    for (auto& g : r.generations) generations_.emplace_back(g, *g);
  }

  // `held`: those of an earlier call are, and the second version was replayed.
  Tensors outputs(const Tensors& in, bool held) {
    const autograd::Pause pause;
    std::vector<std::shared_ptr<Storage>> memory;
    for (Shown& s : shown_) {
      if (s.kept || held) {
        const auto& source = s.kept ? s.storage : s.second;
        // Results in one memory stay views of one memory.
        memory.push_back(s.results > 1 ? bytes_of(source).copyto(source->context()).impl().storage
                                       : source);
        continue;
      }
      // Counts by itself, so that it is seen when nobody has it any more.
      s.back->store(false, std::memory_order_relaxed);
      memory.emplace_back(s.storage.get(), [keep = s.storage, back = s.back](Storage*) {
        back->store(true, std::memory_order_release);
      });
    }
    Tensors out;
    for (const Result& r : results_) {
      if (r.outside.defined()) {
        out.push_back(r.outside);
        continue;
      }
      if (r.input >= 0) {
        const auto i = static_cast<size_t>(r.input);
        const TensorImpl& given = in[i].impl();
        out.push_back(seen_in(given.storage, given.view.data, r, inputs_[i].buffer.data_ptr()));
        continue;
      }
      const Shown& s = shown_[r.shown];
      const auto& where = memory[r.shown];
      out.push_back(seen_in(where, where->data(), r, s.storage->data()));
      if ((s.kept || held) && s.results == 1) out.back() = out.back().copyto(r.seen.context);
    }
    return out;
  }
  // The result whose place is as far from `to` as it was from `from`.
  static Tensor seen_in(const std::shared_ptr<Storage>& storage, void* to, const Result& r,
                        const void* from) {
    auto impl = std::make_shared<TensorImpl>(r.seen);
    impl->storage = storage;
    impl->view.data =
        static_cast<std::byte*>(to) +
        (static_cast<const std::byte*>(r.seen.view.data) - static_cast<const std::byte*>(from));
    return Tensor(std::move(impl));
  }

  // A version whose results are never lent.
  void make_second() {
    std::vector<Plan::Move> moves;
    for (Shown& s : shown_) {
      if (s.kept) continue;
      const Context c = s.storage->context();
      s.second =
          std::make_shared<Storage>(c, s.storage->bytes(), current_stream(c), plan_->arena(c));
      moves.emplace_back(s.storage, s.second);
    }
    second_ = plan_->add_version(moves);
  }

  const Mode mode_;
  std::vector<Input> inputs_;
  std::unique_ptr<Plan> plan_;
  std::vector<Result> results_;
  std::vector<Shown> shown_;
  std::vector<Gradient> gradients_;
  std::vector<std::pair<std::shared_ptr<const uint64_t>, uint64_t>> generations_;
  std::vector<std::pair<Tensor, std::shared_ptr<GraphState>>> leaves_;
  bool may_copy_ = false;
  size_t second_ = 0;  // 0: there is none yet
};

}  // namespace locus::compiled
