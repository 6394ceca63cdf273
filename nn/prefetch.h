// Prefetcher: makes and uploads batches while the program uses the one before.
//
//   data::Prefetcher loader(set, {.batch_size = 64, .shuffle = true, .context = gpu(0)});
//   for (auto [image, label] : loader) { ... }
//
// Use it when the set does not fit the context or samples are decoded on the fly; a DataLoader
// keeps the whole set on its context. The batches are those of a DataLoader with the same options,
// in its order, for any number of workers.
//
// Threads: one thread at a time uses a Prefetcher, and one at a time an iterator with its copies.
// state() looks at the iterators of the epoch begun last. Two epochs may run at once.
#pragma once

#include <functional>
#include <iterator>
#include <memory>
#include <optional>

#include <locus/nn/data.h>
#include <locus/nn/data/sample_order.h>

namespace locus::data {

// One sample on the host; label may be a number (shape ()) or anything else.
struct Sample {
  Tensor data, label;
};
// Sample number i of a set. Called from several threads at once; what it throws arrives at ++.
using Decode = std::function<Sample(int64_t i)>;

struct PrefetchOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  LastBatch last_batch = LastBatch::keep;
  std::optional<Context> context = {};  // unset: current_context() when it is made
  uint64_t seed = 0;                    // of the shuffling and the transform
  int num_workers = 2;                  // 1 to 256 threads
  int prefetch = 2;                     // batches ahead of the context's work, at most; 1 to 1024
  Transform transform = {};             // of each sample's data, by the workers, on the host
  int num_parts = 1, part_index = 0;    // a DataLoader's
};

class Prefetcher {
  class Epoch;

 public:
  explicit Prefetcher(const Dataset& dataset, const PrefetchOptions& options = {},
                      Caller = Caller::here());
  // Samples 0 ... samples - 1. All samples of a batch must agree in shape and dtype.
  Prefetcher(int64_t samples, Decode decode, const PrefetchOptions& options = {},
             Caller = Caller::here());

  // Owns the current batch, and with its copies the epoch, which may outlive the Prefetcher. ++
  // waits until the next batch is on its way (not until it is there: ops wait for it on the
  // device), and rethrows what its decoding threw; the iterator is at the end then. An epoch ends
  // when its iterators are at the end or gone, and joins its workers: that waits for the samples
  // they are decoding.
  class Iterator {
   public:
    const Batch& operator*() const;
    Iterator& operator++();
    friend bool operator==(const Iterator& i, std::default_sentinel_t) {
      return i.epoch_ == nullptr;
    }

   private:
    friend class Prefetcher;
    std::shared_ptr<Epoch> epoch_;
    std::shared_ptr<EpochOrder> order_;
    int64_t number_ = -1;  // of the batch
    Batch batch_;
    Caller from_;
  };
  // Starts an epoch; its uploads are put down to this line.
  Iterator begin(Caller = Caller::here());
  std::default_sentinel_t end() const { return {}; }

  int64_t size() const { return order_.batches(); }     // in the next epoch
  LoaderState state() const { return order_.state(); }  // as a DataLoader's
  void check_state(const LoaderState& state) const { order_.check_state(state); }
  void set_state(const LoaderState& state) { order_.set_state(state); }
  Context context() const { return *options_.context; }
  const PrefetchOptions& options() const { return options_; }

 private:
  Decode decode_;
  PrefetchOptions options_;
  SampleOrder order_;
};

// --- Details ---

// Worker threads together decode the samples of a batch and collate them in page-locked memory, at
// most `prefetch` batches ahead. The upload runs on the context's to_device lane, beside the
// compute stream. state() counts batches handed out, however many are made ahead.

// Where no context is named, batches go to current_context(), as new tensors do: samples come from
// the host, wherever the set is. A DataLoader makes them where the set's data is, so that the data
// need not move.

}  // namespace locus::data
