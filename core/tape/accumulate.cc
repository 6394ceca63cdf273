#include <locus/core/accumulate.h>

#include <utility>

#include <locus/core/error.h>
#include <locus/core/tape/tape.h>

namespace locus::autograd {
namespace {

thread_local Accumulate* current = nullptr;  // the outermost

}  // namespace

Accumulate::Accumulate() {
  if (!current) current = this;
}
Accumulate::~Accumulate() {
  if (current == this) current = nullptr;
}

Accumulate* Accumulate::here() { return current; }
Accumulate::Worker::Worker(Accumulate* whole) : outer_(std::exchange(current, whole)) {}
Accumulate::Worker::~Worker() { current = outer_; }

bool adds_to(const GraphState& leaf) {
  if (leaf.req == GradReq::add || !current) return leaf.req == GradReq::add;
  const MutexLock lock(current->mutex_);
  const auto at = current->written_.find(&leaf);
  return at != current->written_.end() && !at->second.expired();  // else of another leaf
}

void check_adds_to(const GraphState& leaf) {
  if (leaf.fresh != GraphState::summed || !adds_to(leaf)) return;
  const Meta& meta = leaf.grad.impl().view.meta;
  throw Error(
      "backward: cannot add to a gradient, ", name(meta.dtype), Shape(meta), " on ",
      leaf.grad.context(),
      ", that is a sum over replicas or ranks already, made by Trainer::allreduce_grads() or "
      "clip_global_norm(); call backward() before the sum, or Trainer::step(), update() or "
      "discard(), or zero_grad(), after it");
}

void gradient_written(const std::shared_ptr<GraphState>& leaf) {
  if (!current) return;
  const MutexLock lock(current->mutex_);
  current->written_.insert_or_assign(leaf.get(), leaf);
}

void gradient_dropped(const GraphState& leaf) {
  if (!current) return;
  const MutexLock lock(current->mutex_);
  current->written_.erase(&leaf);
}

}  // namespace locus::autograd
