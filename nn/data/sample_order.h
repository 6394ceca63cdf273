// The order of an epoch's samples: the same for every loader, context and machine.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <locus/core/caller.h>

namespace locus::data {

enum class LastBatch : uint8_t { keep, discard, rollover };

// A loader's next batch, as numbers. The first five identify the loader.
struct LoaderState {
  int64_t samples = 0, batch_size = 0;
  bool shuffle = false;
  LastBatch last_batch = LastBatch::keep;
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t position = 0;  // batches of the epoch handed out
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

// A started epoch.
struct EpochOrder {
  const std::vector<int32_t> samples;
  const int64_t number;
  int64_t given;  // batches handed out; iterators advance it
  void hand_out(int64_t batch) { given = batch < given ? given : batch + 1; }
};

// IndexError: `what` (++ or *) of an iterator of `who` at the end.
[[noreturn]] void refuse_end(const char* who, const char* what, Caller from);

// The part of each batch that a loader gives, if several loaders share batches.
struct BatchPart {
  int index = 0, count = 1;
};

// An epoch's order depends only on the options and the epoch's number. begin() gives the part's
// samples. States count whole batches and are the same for every part.
class SampleOrder {
 public:
  // `who` names the loader in errors. batch_size must be > 0; batch_size and samples < 2^31. All
  // parts share each batch equally.
  SampleOrder(const char* who, int64_t samples, int64_t batch_size, bool shuffle, LastBatch last,
              uint64_t seed, BatchPart part = {});
  int64_t part_size() const { return state_.batch_size / part_.count; }        // of a whole batch
  int64_t batches() const { return batches(state_.epoch) - state_.position; }  // at next begin()
  std::shared_ptr<EpochOrder> begin();

  LoaderState state() const;
  // ValueError for another loader's state or an invalid position; changes nothing then.
  void check_state(const LoaderState& state) const;
  void set_state(const LoaderState& state);

 private:
  int64_t carried(int64_t epoch) const;
  int64_t deliverable(int64_t epoch) const;
  int64_t batches(int64_t epoch) const;

  std::vector<int32_t> part_of(const std::vector<int32_t>& samples) const;

  const char* who_;
  BatchPart part_;
  LoaderState state_;                      // of the next begin()
  std::shared_ptr<const EpochOrder> now_;  // started last
};

}  // namespace locus::data
