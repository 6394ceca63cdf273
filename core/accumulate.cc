#include <locus/core/accumulate.h>

#include <utility>

#include <locus/core/tape.h>

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
Accumulate::Part::Part(Accumulate* whole) : outer_(std::exchange(current, whole)) {}
Accumulate::Part::~Part() { current = outer_; }

bool adds_to(const GraphState& leaf) {
  if (leaf.req == GradReq::add || !current) return leaf.req == GradReq::add;
  const MutexLock lock(current->mutex_);
  const auto at = current->written_.find(&leaf);
  return at != current->written_.end() && !at->second.expired();  // else another leaf was there
}

void gradient_written(const std::shared_ptr<GraphState>& leaf) {
  if (!current) return;
  const MutexLock lock(current->mutex_);
  current->written_.insert_or_assign(leaf.get(), leaf);
}

}  // namespace locus::autograd
