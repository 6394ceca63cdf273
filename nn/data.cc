#include <locus/nn/data.h>

#include <algorithm>
#include <numeric>

#include <locus/core/error.h>
#include <locus/ops/create.h>
#include <locus/ops/index.h>
#include <locus/ops/view.h>

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

Dataset::Dataset(Tensor data, Tensor label) : data_(std::move(data)), label_(std::move(label)) {
  if (data_.ndim() == 0 || label_.ndim() == 0 || data_.shape()[0] != label_.shape()[0])
    throw ShapeError("Dataset: data " + describe(data_) + " and label " + describe(label_) +
                     "; expected the same length of axis 0");
}

DataLoader::DataLoader(const Dataset& dataset, const LoaderOptions& options) : options_(options) {
  if (options.batch_size <= 0)
    throw Error("DataLoader: batch_size " + std::to_string(options.batch_size) + "; expected > 0");
  if (dataset.size() > INT32_MAX)
    throw Error("DataLoader: " + std::to_string(dataset.size()) + " samples; expected < 2^31");
  const Context where = options.context ? *options.context : dataset.data().context();
  data_ = dataset.data().as_in_context(where);
  label_ = dataset.label().as_in_context(where);
}

int64_t DataLoader::deliverable(int64_t available) const {
  return options_.last_batch == LastBatch::keep ? available
                                                : available - available % options_.batch_size;
}

int64_t DataLoader::size() const {
  return (deliverable(samples()) + options_.batch_size - 1) / options_.batch_size;
}

DataLoader::Iterator DataLoader::begin() {
  std::vector<int32_t> order = std::move(carried_);
  carried_.clear();
  const std::vector<int32_t> fresh =
      order_of(data_.shape()[0], options_.shuffle, options_.seed, epoch_++);
  order.insert(order.end(), fresh.begin(), fresh.end());
  Iterator first;
  first.loader_ = this;
  first.stop_ = deliverable(static_cast<int64_t>(order.size()));
  if (options_.last_batch == LastBatch::rollover)
    carried_.assign(order.begin() + first.stop_, order.end());
  first.order_ = array(order, {context(), i32});
  return first;
}

Batch DataLoader::Iterator::operator*() const {
  const int64_t end = std::min(position_ + loader_->options_.batch_size, stop_);
  const Tensor ids = order_(Slice(position_, end));
  return {loader_->data_.take(ids), loader_->label_.take(ids)};
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  position_ = std::min(position_ + loader_->options_.batch_size, stop_);
  return *this;
}

}  // namespace locus::data

namespace locus {

Tensors split_and_load(const Tensor& batch, const Contexts& contexts,
                       const SplitAndLoadOptions& options, Caller from) {
  const int axis = normalize_axis(options.batch_axis, batch.ndim(), "split_and_load");
  const int64_t length = batch.shape()[axis], n = static_cast<int64_t>(contexts.size());
  const std::string what = "split_and_load: data with shape " + to_string(batch.shape());
  if (length < n)
    throw ShapeError(what + ": too many slices, " + std::to_string(n) + ", for axis " +
                     std::to_string(axis));
  if (options.even_split && length % n != 0)
    throw ShapeError(what + " cannot be evenly split into " + std::to_string(n) +
                     " slices along axis " + std::to_string(axis) +
                     ". Use a batch size that's multiple of " + std::to_string(n) +
                     " or set even_split=false to allow uneven partitioning of data.");
  Tensors parts;
  int64_t begin = 0;
  for (const Context& c : contexts) {
    const int64_t i = static_cast<int64_t>(parts.size());
    const int64_t end = begin + length / n + (i < length % n ? 1 : 0);
    parts.push_back(slice_axis(batch, axis, Slice(begin, end)).as_in_context(c, from));
    begin = end;
  }
  return parts;
}

}  // namespace locus
