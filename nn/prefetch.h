// Prefetcher: makes and uploads the next batches while the program uses the current batch.
//
//   data::Prefetcher loader(set, {.batch_size = 64, .shuffle = true, .context = gpu(0)});
//   for (auto [image, label] : loader) { ... }
//
// Use a Prefetcher if the set does not fit the context or samples are decoded on the fly. A
// DataLoader keeps the whole set on its context. A DataLoader with the same options gives the same
// batches in the same order, for any number of workers.
//
// Threads: one thread at a time may use a Prefetcher, and one thread at a time an iterator and its
// copies. state() reads iterators of the epoch begun last. Two epochs may run at once.
#pragma once

#include <functional>
#include <iterator>
#include <memory>
#include <optional>

#include <locus/nn/data.h>
#include <locus/nn/data/sample_order.h>

namespace locus::data {

// One sample on the host. A label may have any shape; a number has shape ().
struct Sample {
  Tensor data, label;
};
// Returns sample i of a set. Several threads call it at once. Its exceptions are rethrown by ++.
using Decode = std::function<Sample(int64_t i)>;

struct PrefetchOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  LastBatch last_batch = LastBatch::keep;
  std::optional<Context> context = {};  // unset: current_context() at construction
  uint64_t seed = 0;                    // for shuffling and transform
  int num_workers = 2;                  // 1 to 256 threads
  int prefetch = 2;                     // batches ahead of the context's work, at most; 1 to 1024
  Transform transform = {};             // workers apply it to each sample's data, on the host
  int num_parts = 1, part_index = 0;    // as in LoaderOptions
};

class Prefetcher {
  class Epoch;

 public:
  explicit Prefetcher(const Dataset& dataset, const PrefetchOptions& options = {},
                      Caller = Caller::here());
  // Samples 0 ... samples - 1. All samples of a batch must have one shape and dtype.
  Prefetcher(int64_t samples, Decode decode, const PrefetchOptions& options = {},
             Caller = Caller::here());

  // An iterator owns the current batch. Copies of an iterator share an epoch, which may outlive the
  // Prefetcher. ++ waits until the next batch is made and its upload enqueued; ops wait for the
  // upload on the device. If decoding threw, ++ rethrows and the iterator is at the end. An epoch
  // ends when all its iterators are at the end or destroyed. It then joins its workers, which first
  // finish the samples that they are decoding.
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
  // Starts an epoch. Its uploads are reported under the caller's line.
  Iterator begin(Caller = Caller::here());
  std::default_sentinel_t end() const { return {}; }

  int64_t size() const { return order_.batches(); }     // of the next epoch
  LoaderState state() const { return order_.state(); }  // as in DataLoader
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

// Worker threads decode the samples of a batch together and collate them in host memory,
// page-locked for GPUs. They run at most `prefetch` batches ahead. Uploads run on the context's
// to_device lane, beside the compute stream. state() counts batches handed out, not batches made
// ahead.

// Samples come from the host, wherever the set is. If no context is named, batches go to
// current_context(), as new tensors do. A DataLoader makes batches where the set's data is.

}  // namespace locus::data
