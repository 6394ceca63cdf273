// Results of a recording: the memory that its replays leave them in, and how the program gets them.
// Internal to compile.cc.
//
// Memory of the plan's own is lent, and seen to come back. While the program still has it, a second
// version of the plan writes elsewhere, and copies of that are given.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include <locus/core/arena.h>
#include <locus/core/autograd.h>
#include <locus/core/layout.h>
#include <locus/core/plan.h>
#include <locus/core/stream.h>
#include <locus/core/tape.h>
#include <locus/core/tensor.h>

namespace locus::compiled {

class Results : NonCopyable {
 public:
  // While it is recorded. `input`: the number of the input in the buffer of which it is, else -1.
  void add(const Tensor& t, int input, bool outside) {
    const TensorImpl& impl = t.impl();
    const TensorImpl seen{impl.view, impl.context, impl.contiguous, nullptr, nullptr};
    if (input >= 0) {
      results_.push_back({seen, 0, {}, input});
    } else if (outside) {
      results_.push_back({{}, 0, impl.graph && !impl.graph->node ? t : t.detach()});
    } else {
      size_t at = 0;
      while (at < shown_.size() && shown_[at].storage != impl.storage) ++at;
      if (at == shown_.size()) {
        auto* const origin = static_cast<std::byte*>(impl.storage->data());
        shown_.push_back({impl.storage, nullptr, origin});
      }
      ++shown_[at].results;
      results_.push_back({seen, at, {}});
    }
  }
  // That is the input itself.
  void add_input(int input) { results_.push_back({{}, 0, {}, input, true}); }
  // The program looks for the result last added in `place`, where replays are to leave it, too.
  // Only when the place is free() do they.
  void place_last(const Tensor& place) {
    if (results_.back().outside.defined() || results_.back().input >= 0) return;
    Shown& s = shown_[results_.back().shown];
    const View &from = results_.back().seen.view, &to = place.impl().view;
    if (s.results == 1 && from.data == s.origin && same_layout(from, to) && dense(to))
      s.place = place;
  }
  // The program alone has handles of them now.
  void settle(Plan& plan) {
    for (Shown& s : shown_) {
      s.kept = !plan.made(*s.storage) || s.storage.use_count() > 1 + plan.holds(*s.storage);
      kept_ = kept_ || s.kept;
      if (s.kept) s.place = Tensor();
      if (s.place.defined()) {
        s.second = s.storage;
        s.storage = s.place.impl().storage;
        auto* const there = static_cast<std::byte*>(s.place.data_ptr());
        plan.move({s.second, s.storage, s.origin, there, s.place_bytes(), false});
      }
      plan.show(s.storage);
    }
  }
  // For another plan that uses them.
  void show_in(Plan& plan) const {
    for (const Shown& s : shown_) plan.show(s.storage);
  }

  // Memory that the program has, or had, as its own.
  bool lends(const Storage& storage) const {
    return std::any_of(shown_.begin(), shown_.end(),
                       [&](const Shown& s) { return !s.kept && s.storage.get() == &storage; });
  }
  // Whether one is the input `i`.
  bool gives_input(size_t i) const {
    return std::any_of(results_.begin(), results_.end(),
                       [&](const Result& r) { return r.input == static_cast<int>(i); });
  }
  // Whether the places are free is known at each replay: `is_free(place)`.
  void look(const auto& is_free) {
    for (Shown& s : shown_)
      if (s.place.defined()) s.back->store(is_free(s.place), std::memory_order_relaxed);
  }
  bool held() const {
    return std::any_of(shown_.begin(), shown_.end(),
                       [](const Shown& s) { return !s.back->load(std::memory_order_acquire); });
  }
  // What the second version of `plan` has elsewhere.
  std::vector<Plan::Move> second(Plan& plan) {
    std::vector<Plan::Move> moves;
    for (Shown& s : shown_) {
      if (s.kept) continue;
      if (s.place.defined()) {
        auto* const at = static_cast<std::byte*>(s.place.data_ptr());
        moves.push_back({s.storage, s.second, at, s.origin, s.place_bytes(), false});
        continue;
      }
      // Also what else is in the block before.
      const Context c = s.storage->context();
      const size_t bytes = plan.arena(c)->room(s.origin);
      if (!s.second) s.second = std::make_shared<Storage>(c, bytes, current_stream(c));
      auto* const there = static_cast<std::byte*>(s.second->data());
      moves.push_back({s.storage, s.second, s.origin, there, bytes, true});
    }
    return moves;
  }

  // What is shown and not lent is copied, from where a replay has it; nothing: it is lent.
  struct Copy {
    Tensor from, to;
  };
  // Memory for what a replay gives; `held`: of the second version. Call before it runs: there may
  // be none.
  std::vector<Copy> copies(bool held) const {
    std::vector<Copy> all(held || kept_ ? shown_.size() : 0);
    for (size_t i = 0; i < all.size(); ++i) {
      const Shown& s = shown_[i];
      if (!s.kept && !held) continue;
      const auto& source = s.kept ? s.storage : s.second;
      const Context c = source->context();
      // Results in one memory stay views of one memory.
      if (s.results > 1) {
        all[i].from = bytes_of(source);
      } else {
        const auto only = std::find_if(results_.begin(), results_.end(), [&](const Result& r) {
          return r.shown == i && !r.outside.defined() && r.input < 0;
        });
        all[i].from = seen_in(source, source->data(), *only, s.origin);
      }
      View view = all[i].from.impl().view;
      if (!dense(view)) row_major(view.meta, view.stride);
      all[i].to = make_tensor(c, view, current_stream(c));
    }
    return all;
  }
  // After the replay. `in`: the inputs; `buffer(i)`: where they lay.
  Tensors give(const Tensors& in, const auto& buffer, const std::vector<Copy>& copied) {
    const autograd::Pause pause;
    const auto is_copied = [&](size_t i) { return i < copied.size() && copied[i].to.defined(); };
    std::vector<std::shared_ptr<Storage>> memory;
    for (size_t i = 0; i < shown_.size(); ++i) {
      if (is_copied(i)) {
        copied[i].from.copyto(copied[i].to);
        memory.push_back(copied[i].to.impl().storage);
      } else {
        memory.push_back(lend(shown_[i]));
      }
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
        out.push_back(r.itself ? in[i] : seen_in(given.storage, given.view.data, r, buffer(i)));
        continue;
      }
      const Shown& s = shown_[r.shown];
      const auto& where = memory[r.shown];
      if (is_copied(r.shown) && s.results == 1)
        out.push_back(copied[r.shown].to);
      else if (s.place.defined() && !is_copied(r.shown))
        out.push_back(s.place);
      else
        out.push_back(seen_in(where, where->data(), r, s.origin));
    }
    return out;
  }

 private:
  // Memory of the plan's that results are in.
  struct Shown {
    std::shared_ptr<Storage> storage, second;
    std::byte* origin;  // of the storage that it was recorded in
    // Whether nobody has what was lent any more. Apart: the last tensor may go after the entry.
    std::shared_ptr<std::atomic<bool>> back = std::make_shared<std::atomic<bool>>(true);
    int results = 0;
    bool kept = false;  // by the function too, beyond the call: never lent
    Tensor place = {};

    size_t place_bytes() const { return bytes_of(place.impl().view.meta); }
  };
  struct Result {
    TensorImpl seen;
    size_t shown;
    Tensor outside;  // defined: it is this one, each time
    int input = -1;  // it is seen there, each time
    bool itself = false;
  };

  static std::shared_ptr<Storage> lend(Shown& s) {
    if (s.place.defined()) return s.storage;
    // Counts by itself, so that it is seen when nobody has it any more.
    s.back->store(false, std::memory_order_relaxed);
    return {s.storage.get(), [keep = s.storage, back = s.back](Storage*) {
              back->store(true, std::memory_order_release);
            }};
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

  std::vector<Shown> shown_;
  std::vector<Result> results_;
  bool kept_ = false;  // one of them is
};

}  // namespace locus::compiled
