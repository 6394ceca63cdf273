// Steps of a Trainer that are replayed (step_records.h).
#include <algorithm>

#include <locus/core/autograd.h>
#include <locus/core/capture_check.h>
#include <locus/core/cluster.h>
#include <locus/core/error.h>
#include <locus/core/grad_memory.h>
#include <locus/core/observe/trace.h>
#include <locus/core/stream.h>
#include <locus/nn/gradient_sums.h>
#include <locus/nn/step_records.h>
#include <locus/nn/trainer.h>
#include <locus/ops/collective.h>

namespace locus::nn {

// Where sums of few bytes by the devices' own kernels, and updates, are all that there is.
void Trainer::find_records() {
  own_.records = nullptr;
  const Group* const group = sums_ && sums_->in_one_bucket() ? sums_->group() : nullptr;
  if (!group || is_host((*group)[0]) || options_.overlap || options_.zero > 0 ||
      !optimizer_->can_replay() || !(StepRecords::anywhere || reach_each_other(*group)))
    return;
  const auto all = static_cast<size_t>(group->size());
  if (std::ranges::all_of(replicas_, [&](const Replicas& r) { return r.end - r.begin == all; }))
    own_.records = std::make_shared<StepRecords>();
}

// Who listens hears of the calls, and other streams than the usual ones are the program's.
bool Trainer::may_replay() const {
  return own_.records && !capture::active() && trace::off() && !in_stream_scope() &&
         cluster::size() == 1;
}

void Trainer::step_again(const std::vector<bool>& fresh, double rescale, Caller from) {
  std::vector<int64_t> counts;
  for (const Slot& s : slots_) counts.push_back(*s.count);
  const auto any = [&](const auto& is_so) {
    for (size_t i = 0; i < slots_.size(); ++i)
      if (fresh[i] && is_so(i)) return true;
    return false;
  };
  const StepRecords::Work work{
      .step =
          [&] {
            if (capture::active())
              for (const Slot& s : slots_) autograd::keep_grad(s.weight);
            update(fresh, rescale, Sums::first, from);
          },
      .left = [&] { return any([&](size_t i) { return autograd::fresh_grad(slots_[i].weight); }); },
      .counted = [&] { return !any([&](size_t i) { return *slots_[i].count == counts[i]; }); },
      .undo = [&, updates = num_update()] { take_back(work.counted(), counts, updates, from); }};
  own_.records->run({rescale, fresh, autograd::summed_grad(slots_[0].weight)}, work, from);
}

// Where a replay began, sums of the first contexts waited for the last one's in vain, and updates
// went by that: only the last is as it was before the step.
void Trainer::take_back(bool begun, const std::vector<int64_t>& counts, int64_t updates,
                        Caller from) {
  optimizer_->set_num_update(updates);
  const Context last = *(sums_->group()->end() - 1);
  const auto take_counts = [&](bool of_last) {
    for (size_t i = 0; i < slots_.size(); ++i)
      if ((slots_[i].context == last) == of_last) *slots_[i].count = counts[i];
  };
  take_counts(true);
  if (begun) {
    const autograd::Pause pause;
    drop_gradients();
    for (const Replicas& r : replicas_)
      for (size_t i = r.begin; i < r.end; ++i)
        if (slots_[i].context != last) make_equal(slots_[r.end - 1], slots_[i], from);
  }
  take_counts(false);  // where that failed they differ, and no step goes on from there
}

}  // namespace locus::nn
