#include <locus/nn/prefetch.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <locus/core/error.h>
#include <locus/core/storage.h>
#include <locus/core/stream.h>
#include <locus/ops/copy.h>

namespace locus::data {
namespace {

constexpr int kMaxWorkers = 256, kMaxDepth = 1024;

// A point in a stream of the context, for the host to wait for.
class Mark {
 public:
  Mark() = default;
  explicit Mark(StreamView s) : event_(device(s.context).record(s)) {}
  Mark(Mark&& other) noexcept : event_(std::exchange(other.event_, {})) {}
  Mark& operator=(Mark&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Mark() {
    if (event_.native) device(event_.context).release(event_);
  }
  void wait() const {
    if (event_.native) device(event_.context).wait_host(event_);
  }

 private:
  EventView event_;
};

Shape with_length(int64_t n, const Shape& row) {
  std::vector<int64_t> lengths{n};
  lengths.insert(lengths.end(), row.begin(), row.end());
  return Shape(lengths);
}

// Rows of one tensor, stacked in host memory as they come.
class Stack {
 public:
  Stack(const char* part, Context where, int64_t rows) : part_(part), where_(where), rows_(rows) {}

  void add(const Tensor& row, int64_t sample, Caller from) {
    const std::string what = "Prefetcher: the " + std::string(part_) + " of sample " +
                             std::to_string(sample) + ", " + describe(row) + ", ";
    if (!row.defined() || !is_host(row.context()))
      throw ContextMismatch(what + "is not on the host; decode must return tensors on cpu(0)");
    if (!all_.defined())
      all_ = allocate(where_, make_meta(row.dtype(), with_length(rows_, row.shape())));
    const Shape stacked = all_.shape();
    const Shape expected(std::vector<int64_t>(stacked.begin() + 1, stacked.end()));
    if (row.shape() != expected)
      throw ShapeError(what + "differs from the first of its batch, " + to_string(expected) +
                       "; all must have one shape");
    if (row.dtype() != all_.dtype())
      throw DTypeError(what + "differs from the first of its batch, " + name(all_.dtype()) +
                       "; all must have one dtype");
    const size_t bytes =
        static_cast<size_t>(row.size()) * static_cast<size_t>(size_of(row.dtype()));
    if (bytes == 0) return;
    const Tensor packed = contiguous(row);
    packed.wait_to_read(from);
    std::memcpy(static_cast<char*>(all_.impl().view.data) + bytes * static_cast<size_t>(filled_++),
                packed.impl().view.data, bytes);
  }
  const Tensor& all() const { return all_; }

 private:
  const char* part_;
  Context where_;
  int64_t rows_, filled_ = 0;
  Tensor all_;
};

Decode rows_of(const Dataset& dataset, Caller from) {
  const Tensor data = contiguous(dataset.data().as_in_context(cpu(), from));
  const Tensor label = contiguous(dataset.label().as_in_context(cpu(), from));
  data.wait_to_read(from);
  label.wait_to_read(from);
  return [data, label](int64_t i) { return Sample{data[i], label[i]}; };
}

void check(const char* option, int value, int highest) {
  if (value < 1 || value > highest)
    throw Error("Prefetcher: " + std::string(option) + " " + std::to_string(value) +
                "; expected 1 to " + std::to_string(highest));
}

}  // namespace

// Batch i is made by whichever worker is free, into slot i % depth, once batch i - depth was taken
// and both its upload and the work before it on the context are done: that bounds the memory.
class Prefetcher::Epoch {
 public:
  Epoch(Decode decode, const PrefetchOptions& options, std::vector<int32_t> order, Caller from)
      : decode_(std::move(decode)),
        options_(options),
        order_(std::move(order)),
        batches_((static_cast<int64_t>(order_.size()) + options.batch_size - 1) /
                 options.batch_size),
        from_(from),
        slots_(static_cast<size_t>(options.depth)) {
    try {
      for (int64_t i = 0; i < std::min<int64_t>(options.workers, batches_); ++i)
        workers_.emplace_back([this] { serve(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Epoch() { stop(); }

  // False when the epoch is over.
  bool take(Batch& batch) {
    batch = {};
    std::unique_lock lock(mutex_);
    if (taken_ == batches_) return false;
    Slot& slot = slots_[static_cast<size_t>(taken_) % slots_.size()];
    ready_.wait(lock, [&] { return slot.ready; });
    if (slot.error) std::rethrow_exception(slot.error);
    batch = std::exchange(slot.batch, {});
    slot.ready = false;
    if (!is_host(*options_.context)) slot.before = Mark(current_stream(*options_.context));
    ++taken_;
    space_.notify_all();
    return true;
  }

 private:
  struct Slot {
    bool ready = false;
    Batch batch;
    std::exception_ptr error;
    Mark uploaded;  // of the batch in it, and after that was taken:
    Mark before;    // the context's work up to the taking
  };

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    space_.notify_all();
    for (std::thread& t : workers_) t.join();
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      space_.wait(lock,
                  [&] { return stopped_ || next_ == batches_ || next_ < taken_ + options_.depth; });
      if (stopped_ || next_ == batches_) return;
      const int64_t i = next_++;
      Slot& slot = slots_[static_cast<size_t>(i) % slots_.size()];  // ours until it is ready
      const Mark uploaded = std::move(slot.uploaded), before = std::move(slot.before);
      lock.unlock();
      Batch batch;
      Mark mark;
      std::exception_ptr error;
      try {
        uploaded.wait();
        before.wait();
        batch = make(i, mark);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      slot.batch = std::move(batch);
      slot.uploaded = std::move(mark);
      slot.error = error;
      slot.ready = true;
      ready_.notify_all();
    }
  }

  Batch make(int64_t i, Mark& uploaded) {
    const Context to = *options_.context;
    const int64_t begin = i * options_.batch_size;
    const int64_t end = std::min(begin + options_.batch_size, static_cast<int64_t>(order_.size()));
    const Context host = is_host(to) ? to : cpu_pinned();
    Stack data("data", host, end - begin), label("label", host, end - begin);
    for (int64_t k = begin; k < end; ++k) {
      const int64_t index = order_[static_cast<size_t>(k)];
      const Sample sample = decode_(index);
      data.add(sample.data, index, from_);
      label.add(sample.label, index, from_);
    }
    if (is_host(to)) return {data.all(), label.all()};
    // The page-locked memory is given back here; its pool reuses it after the copy.
    Batch batch{data.all().copyto(to, {.blocking = false}, from_),
                label.all().copyto(to, {.blocking = false}, from_)};
    uploaded = Mark(device(to).stream(Lane::to_device));
    return batch;
  }

  const Decode decode_;
  const PrefetchOptions options_;
  const std::vector<int32_t> order_;
  const int64_t batches_;
  const Caller from_;

  std::mutex mutex_;
  std::condition_variable ready_, space_;
  std::vector<Slot> slots_;
  int64_t next_ = 0, taken_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> workers_;
};

Prefetcher::Prefetcher(const Dataset& dataset, const PrefetchOptions& options, Caller from)
    : Prefetcher(dataset.size(), rows_of(dataset, from), options) {}

Prefetcher::Prefetcher(int64_t samples, Decode decode, const PrefetchOptions& options)
    : decode_(std::move(decode)),
      options_(options),
      order_("Prefetcher", samples, options.batch_size, options.shuffle, options.last_batch,
             options.seed) {
  check("workers", options.workers, kMaxWorkers);
  check("depth", options.depth, kMaxDepth);
  if (!decode_)
    throw Error("Prefetcher: decode is empty; expected a function of a sample's number");
  if (!options_.context) options_.context = current_context();
  device(*options_.context);  // one that is not there fails here
}

Prefetcher::Iterator Prefetcher::begin(Caller from) {
  Iterator first;
  first.epoch_ = std::make_shared<Epoch>(decode_, options_, order_.next(), from);
  return ++first;
}

Prefetcher::Iterator& Prefetcher::Iterator::operator++() {
  if (epoch_->take(batch_)) return *this;
  epoch_.reset();
  return *this;
}

}  // namespace locus::data
