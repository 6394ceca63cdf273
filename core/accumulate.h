// Accumulate: gradients of several backward passes that add up, as those of one large batch do.
//
//   const autograd::Accumulate accumulate;
//   for (const auto& [x, y] : parts) {
//     Tensor l;
//     { autograd::Record record;  l = loss(net(x), y); }
//     l.backward();
//   }
//
// Unlike GradReq::add nothing has to be zeroed before, and parameters are left as they are. With
// both it is an Error to add to what a Trainer has made the sum over replicas, up to its step() or
// discard(); behind that a sum is begun by a new Accumulate, or with GradReq::add by zero_grad().
#pragma once

#include <memory>
#include <unordered_map>

#include <locus/core/base/mutex.h>
#include <locus/core/noncopyable.h>

namespace locus {

struct GraphState;

namespace autograd {

// While it lives, the first backward() of this thread that reaches a leaf with GradReq::write
// overwrites its gradient, and later ones add to it. A scope inside of another one is part of it,
// and so is what parallel() (core/parallel.h) runs for this thread.
// What a compiled function's own backward() does is as it was when it was recorded.
class [[nodiscard]] Accumulate : NonCopyable {
 public:
  Accumulate();
  ~Accumulate();

  // Internal to core: the scope of this thread, or null; and, while a Worker lives, that of the one
  // that it works for.
  static Accumulate* here();
  class Worker : NonCopyable {
   public:
    explicit Worker(Accumulate* whole);
    ~Worker();

   private:
    Accumulate* const outer_;
  };

 private:
  friend bool adds_to(const GraphState& leaf);
  friend void gradient_written(const std::shared_ptr<GraphState>& leaf);
  friend void gradient_dropped(const GraphState& leaf);
  Mutex mutex_;  // threads of a parallel()
  std::unordered_map<const GraphState*, std::weak_ptr<GraphState>> written_
      LOCUS_GUARDED_BY(mutex_);
};

// Internal to core: whether backward() adds to the leaf's gradient; it has one now.
bool adds_to(const GraphState& leaf);
// Error where it would add to a sum over replicas, which would be summed with that once more.
void check_adds_to(const GraphState& leaf);
void gradient_written(const std::shared_ptr<GraphState>& leaf);
// It has none from now on.
void gradient_dropped(const GraphState& leaf);

}  // namespace autograd
}  // namespace locus
