// The order in which an epoch's samples come: the same for every loader, context and machine.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <locus/core/caller.h>

namespace locus::data {

enum class LastBatch : uint8_t { keep, discard, rollover };

// Which batch of a loader comes next, as plain numbers. The first five say of which loader.
struct LoaderState {
  int64_t samples = 0, batch_size = 0;
  bool shuffle = false;
  LastBatch last_batch = LastBatch::keep;
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t position = 0;  // batches of that epoch that were handed out
  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

// SplitMix64 (Steele, Lea and Flood, 2014): small, and the same everywhere, unlike std::shuffle.
class Mixer {
 public:
  explicit Mixer(uint64_t state) : state_(state) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

// An epoch that was begun.
struct EpochOrder {
  const std::vector<int32_t> samples;
  const int64_t number;
  int64_t given;  // batches handed out: an iterator advances it
  void hand_out(int64_t batch) { given = batch < given ? given : batch + 1; }
};

// IndexError: `what` (++ or *) was called for an iterator of `who` that is at the end.
[[noreturn]] void refuse_end(const char* who, const char* what, Caller from);

// Which part of each batch a loader gives, where several loaders share it.
struct BatchPart {
  int index = 0, count = 1;
};

// An epoch's order depends on the options and the epoch's number alone; of it, begin() gives the
// part's samples. A state is of whole batches: the same for every part.
class SampleOrder {
 public:
  // `who` names the loader in errors: batch_size must be > 0, it and samples < 2^31; every batch
  // must give all parts equally many samples.
  SampleOrder(const char* who, int64_t samples, int64_t batch_size, bool shuffle, LastBatch last,
              uint64_t seed, BatchPart part = {});
  int64_t part_size() const { return state_.batch_size / part_.count; }        // of a whole batch
  int64_t batches() const { return batches(state_.epoch) - state_.position; }  // at next begin()
  std::shared_ptr<EpochOrder> begin();

  LoaderState state() const;
  // ValueError for the state of another loader, or for none; nothing is changed then.
  void check_state(const LoaderState& state) const;
  void set_state(const LoaderState& state);

 private:
  int64_t carried(int64_t epoch) const;
  int64_t deliverable(int64_t epoch) const;
  int64_t batches(int64_t epoch) const;

  std::vector<int32_t> part_of(const std::vector<int32_t>& samples) const;

  const char* who_;
  BatchPart part_;
  LoaderState state_;                      // of what begin() gives
  std::shared_ptr<const EpochOrder> now_;  // begun last
};

}  // namespace locus::data
