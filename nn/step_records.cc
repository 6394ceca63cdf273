#include <locus/nn/step_records.h>

#include <algorithm>

#include <locus/core/autograd.h>
#include <locus/core/error.h>

namespace locus::nn {
namespace {

constexpr size_t kMostKnown = 4;  // the last batch of an epoch has a size of its own, say

// Whether the exception that is being handled is one of recording, not of the step.
bool of_recording() {
  try {
    throw;
  } catch (const CaptureError&) {
    return true;
  } catch (const OutOfMemory&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

StepRecords::Known& StepRecords::find(const Key& key) {
  const auto found = std::ranges::find(known_, key, &Known::key);
  if (found != known_.end()) {
    known_.splice(known_.begin(), known_, found);
  } else {
    if (known_.size() == kMostKnown) known_.pop_back();
    known_.push_front({.key = key});
  }
  return known_.front();
}

void StepRecords::run(const Key& key, const Work& work, Caller from) {
  Known& now = find(key);
  if (now.never || now.before < kBefore) {
    work.step();
    ++now.before;
    return;
  }
  const autograd::Pause pause;
  const bool again = now.recorded.has_value();
  if (!again)
    now.recorded.emplace([&now](const Tensors&) {
      now.recording = true;
      now.work->step();
      now.done = true;
      return Tensors();
    });
  now.recording = now.done = false;
  now.work = &work;
  try {
    (*now.recorded)({}, from);
  } catch (...) {
    if (!now.recording) {
      if (work.counted()) known_.clear();  // it had begun: the counts come first
      rethrow_behind(work.undo);
    }
    now.recorded.reset();
    now.never = now.done || of_recording();
    if (!now.never) throw;  // the step's own
    if (!now.done && work.left())
      work.step();
    else if (!now.done && !work.counted())
      throw;
    return;
  }
  // Parameters have other gradients than it went by: a program that often gives them others would
  // lose by it.
  if (again && now.recording) {
    now.recorded.reset();
    now.before = 0;
  }
}

}  // namespace locus::nn
