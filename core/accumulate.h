// Accumulate adds up the gradients of several backward passes, as one large batch would.
//
//   const autograd::Accumulate accumulate;
//   for (const auto& [x, y] : parts) {
//     Tensor l;
//     { autograd::Record record;  l = loss(net(x), y); }
//     l.backward();
//   }
//
// Unlike GradReq::add, Accumulate needs no zero_grad() and changes no parameter. When a Trainer has
// summed a gradient over replicas, adding to the gradient is an Error until step() or discard(),
// also with GradReq::add. Then a new Accumulate, or zero_grad() with GradReq::add, starts a new
// sum.
#pragma once

#include <memory>
#include <unordered_map>

#include <locus/core/base/mutex.h>
#include <locus/core/noncopyable.h>

namespace locus {

struct GraphState;

namespace autograd {

// A thread-local scope. The first backward() in the scope that reaches a leaf with GradReq::write
// overwrites the leaf's gradient, and later ones add. A nested scope, and functions that parallel()
// (core/parallel.h) runs for this thread, belong to the outer scope. A backward() inside a compiled
// function replays as recorded.
class [[nodiscard]] Accumulate : NonCopyable {
 public:
  Accumulate();
  ~Accumulate();

  // Internal to core: this thread's outermost scope, or null. While a Worker lives, the scope of
  // the thread that called parallel().
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
  Mutex mutex_;  // for the threads of a parallel()
  std::unordered_map<const GraphState*, std::weak_ptr<GraphState>> written_
      LOCUS_GUARDED_BY(mutex_);
};

// Internal to core: whether backward() adds to the leaf's gradient or overwrites it.
bool adds_to(const GraphState& leaf);
// Error if backward() would add to a sum over replicas.
void check_adds_to(const GraphState& leaf);
void gradient_written(const std::shared_ptr<GraphState>& leaf);
// The scope forgets the leaf: the next backward() overwrites.
void gradient_dropped(const GraphState& leaf);

}  // namespace autograd
}  // namespace locus
