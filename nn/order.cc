#include <locus/nn/order.h>

#include <numeric>
#include <string>
#include <utility>

#include <locus/core/error.h>

namespace locus::data {
namespace {

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
  // In [0, n): the high half of a 32 x 32-bit product, without the biased low part (Lemire, 2019).
  uint32_t below(uint32_t n) {
    for (;;) {
      const uint64_t product = (next() >> 32) * n;
      if (static_cast<uint32_t>(product) >= (0u - n) % n)
        return static_cast<uint32_t>(product >> 32);
    }
  }

 private:
  uint64_t state_;
};

std::vector<int32_t> order_of(int64_t n, bool shuffle, uint64_t seed, uint64_t epoch) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  if (!shuffle) return order;
  Mixer mixer(Mixer(seed).next() + epoch);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[mixer.below(static_cast<uint32_t>(i))]);
  return order;
}

}  // namespace

Order::Order(const char* who, int64_t samples, int64_t batch_size, bool shuffle, LastBatch last,
             uint64_t seed)
    : samples_(samples), batch_size_(batch_size), shuffle_(shuffle), last_(last), seed_(seed) {
  if (batch_size <= 0) throw ValueError(who, ": batch_size ", batch_size, "; expected > 0");
  if (samples < 0 || samples > INT32_MAX)
    throw ValueError(who, ": ", samples, " samples; expected 0 to 2^31 - 1");
}

// Of all there is, what the next epoch hands out.
int64_t Order::deliverable() const {
  const int64_t available = static_cast<int64_t>(carried_.size()) + samples_;
  return last_ == LastBatch::keep ? available : available - available % batch_size_;
}

int64_t Order::batches() const { return (deliverable() + batch_size_ - 1) / batch_size_; }

std::vector<int32_t> Order::next() {
  const auto stop = static_cast<std::ptrdiff_t>(deliverable());
  std::vector<int32_t> order = std::exchange(carried_, {});
  const std::vector<int32_t> fresh = order_of(samples_, shuffle_, seed_, epoch_++);
  order.insert(order.end(), fresh.begin(), fresh.end());
  if (last_ == LastBatch::rollover) carried_.assign(order.begin() + stop, order.end());
  order.resize(static_cast<size_t>(stop));
  return order;
}

}  // namespace locus::data
