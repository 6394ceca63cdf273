#include <locus/nn/data/sample_order.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include <locus/core/base/at_line.h>
#include <locus/nn/options.h>

namespace locus::data {
namespace {

// A number in [0, n): the high half of a 32 x 32-bit product, without biased low parts (Lemire,
// 2019).
uint32_t below(Mixer& mixer, uint32_t n) {
  for (;;) {
    const uint64_t product = (mixer.next() >> 32) * n;
    if (static_cast<uint32_t>(product) >= (0u - n) % n) return static_cast<uint32_t>(product >> 32);
  }
}

std::vector<int32_t> fresh(const LoaderState& s, int64_t epoch) {
  std::vector<int32_t> order(static_cast<size_t>(s.samples));
  std::iota(order.begin(), order.end(), 0);
  if (!s.shuffle) return order;
  Mixer mixer(Mixer(s.seed).next() + static_cast<uint64_t>(epoch));
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[below(mixer, static_cast<uint32_t>(i))]);
  return order;
}

}  // namespace

SampleOrder::SampleOrder(const char* who, int64_t samples, int64_t batch_size, bool shuffle,
                         LastBatch last, uint64_t seed, BatchPart part)
    : who_(who),
      part_(part),
      state_{.samples = samples,
             .batch_size = batch_size,
             .shuffle = shuffle,
             .last_batch = last,
             .seed = seed} {
  options::expect(who, "batch_size", batch_size, batch_size > 0 && batch_size <= INT32_MAX,
                  "1 to 2^31 - 1");
  options::expect(who, "samples", samples, samples >= 0 && samples <= INT32_MAX, "0 to 2^31 - 1");
  options::expect(who, "num_parts", part.count, part.count > 0, "at least 1");
  options::expect(who, "part_index", part.index, part.index >= 0 && part.index < part.count,
                  "0 to num_parts - 1");
  options::expect_enumerator(who, "last_batch", last, LastBatch::rollover,
                             "LastBatch::keep, LastBatch::discard or LastBatch::rollover");
  const int64_t rest = last == LastBatch::keep ? samples % batch_size : 0;
  if (batch_size % part.count != 0)
    throw ValueError(who, ": batch_size ", batch_size, " for ", part.count,
                     " parts, which share each batch; expected a multiple of ", part.count);
  if (rest % part.count != 0)
    throw ValueError(who, ": the last batch has ", rest, " of ", samples, " samples, for ",
                     part.count,
                     " parts, which share each batch equally; use last_batch discard or rollover, "
                     "or another batch_size");
}

std::vector<int32_t> SampleOrder::part_of(const std::vector<int32_t>& samples) const {
  if (part_.count == 1) return samples;
  std::vector<int32_t> mine;
  const auto n = static_cast<int64_t>(samples.size());
  for (int64_t begin = 0; begin < n; begin += state_.batch_size) {
    const int64_t each = std::min(state_.batch_size, n - begin) / part_.count;
    const auto first = samples.begin() + begin + part_.index * each;
    mine.insert(mine.end(), first, first + each);
  }
  return mine;
}

// The number of earlier epochs' samples at an epoch's start.
int64_t SampleOrder::carried(int64_t epoch) const {
  const int64_t b = state_.batch_size;
  return state_.last_batch == LastBatch::rollover ? epoch % b * (state_.samples % b) % b : 0;
}

// The number of samples that the epoch hands out.
int64_t SampleOrder::deliverable(int64_t epoch) const {
  const int64_t available = carried(epoch) + state_.samples;
  return available - (state_.last_batch == LastBatch::keep ? 0 : available % state_.batch_size);
}

int64_t SampleOrder::batches(int64_t epoch) const {
  return deliverable(epoch) / state_.batch_size + (deliverable(epoch) % state_.batch_size != 0);
}

std::shared_ptr<EpochOrder> SampleOrder::begin() {
  std::vector<int32_t> order = fresh(state_, state_.epoch);
  int64_t missing = carried(state_.epoch);
  for (int64_t epoch = state_.epoch - 1; missing > 0; --epoch) {  // sets smaller than a batch
    const std::vector<int32_t> before = fresh(state_, epoch);
    const int64_t n = std::min(missing, state_.samples);
    order.insert(order.begin(), before.end() - n, before.end());
    missing -= n;
  }
  order.resize(static_cast<size_t>(deliverable(state_.epoch)));
  const auto begun =
      std::make_shared<EpochOrder>(EpochOrder{part_of(order), state_.epoch, state_.position});
  ++state_.epoch;
  state_.position = 0;
  now_ = begun;
  return begun;
}

LoaderState SampleOrder::state() const {
  LoaderState state = state_;
  if (now_ && now_->given < batches(now_->number)) {
    state.epoch = now_->number;
    state.position = now_->given;
  }
  return state;
}

void SampleOrder::check_state(const LoaderState& s) const {
  LoaderState same = s;
  same.epoch = state_.epoch;
  same.position = state_.position;
  const auto text = [](const LoaderState& of) {
    constexpr const char* kLast[] = {"keep", "discard", "rollover"};
    return text_of(of.samples, " samples, batch_size ", of.batch_size, ", shuffle ", of.shuffle,
                   ", last_batch ", kLast[static_cast<int>(of.last_batch) % 3], ", seed ", of.seed);
  };
  if (same != state_)
    throw ValueError(who_, ": set_state: a state of ", text(s), "; expected one of ", text(state_));
  if (s.epoch < 0 || s.epoch > INT32_MAX || s.position < 0 ||
      (s.position > 0 && s.position >= batches(s.epoch)))
    throw ValueError(who_, ": set_state: position ", s.position, " of epoch ", s.epoch,
                     "; expected a batch of an epoch from 0 to 2^31 - 1");
}

void SampleOrder::set_state(const LoaderState& s) {
  check_state(s);
  state_ = s;
  now_.reset();
}

void refuse_end(const char* who, const char* what, Caller from) {
  throw IndexError(with_line(
      text_of(who, ": ", what, " of an iterator at the end; compare it with end() first"), from));
}

}  // namespace locus::data
