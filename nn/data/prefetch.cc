#include <locus/nn/prefetch.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <locus/core/base/at_line.h>
#include <locus/core/base/mutex.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/stream.h>
#include <locus/ops/copy.h>
#include <locus/ops/view.h>

namespace locus::data {
namespace {

constexpr int kMaxWorkers = 256, kMaxPrefetch = 1024;

// Stacks rows of one tensor in host memory. The first put allocates. Later, several threads may put
// different rows at once.
class Stack {
 public:
  Stack(const char* part, Context where, int64_t rows) : part_(part), where_(where), rows_(rows) {}

  void put(int64_t at, const Tensor& row, int64_t sample, Caller from) {
    const std::string what =
        text_of("Prefetcher: the ", part_, " of sample ", sample, ", ", describe(row), ", ");
    if (!row.defined() || !is_host(row.context()))
      throw ContextMismatch(what, "is not on the host; decode must return tensors on cpu(0)");
    const Meta meta = make_meta(row.dtype(), row.shape());
    if (!all_.defined()) all_ = allocate(where_, with_axis(meta, 0, rows_));
    const Shape expected(all_.shape().begin() + 1, all_.ndim() - 1);
    if (row.shape() != expected)
      throw ShapeError(what, "differs from the first of its batch, ", expected,
                       "; all must have one shape");
    if (row.dtype() != all_.dtype())
      throw DTypeError(what, "differs from the first of its batch, ", name(all_.dtype()),
                       "; all must have one dtype");
    const size_t bytes = bytes_of(meta);
    if (bytes == 0) return;
    const Tensor packed = contiguous(row);
    packed.wait_to_read(from);
    std::memcpy(static_cast<char*>(all_.data_ptr()) + bytes * static_cast<size_t>(at),
                packed.data_ptr(), bytes);
  }
  const Tensor& all() const { return all_; }

 private:
  const char* part_;
  Context where_;
  int64_t rows_;
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
    throw ValueError("Prefetcher: ", option, " ", value, "; expected 1 to ", highest);
}

}  // namespace

// Batch i uses slot i % prefetch. It waits until batch i - prefetch was taken, and its upload and
// the context's earlier work are done. This bounds the memory. All workers fill a batch: one opens
// it with its first sample, free workers add more, and the last uploads it.
class Prefetcher::Epoch {
 public:
  Epoch(Decode decode, const PrefetchOptions& options, std::shared_ptr<EpochOrder> epoch,
        Caller from)
      : decode_(std::move(decode)),
        options_(options),
        epoch_(std::move(epoch)),
        order_(epoch_->samples),
        batches_((static_cast<int64_t>(order_.size()) + options.batch_size - 1) /
                 options.batch_size),
        from_(from),
        run_(std::clamp<int64_t>(options.batch_size / (4 * options.num_workers), 1, 64)),
        slots_(static_cast<size_t>(options.prefetch)),
        next_(epoch_->given),
        taken_(epoch_->given) {
    try {
      const auto samples = static_cast<int64_t>(order_.size()) - taken_ * options.batch_size;
      for (int64_t i = 0; i < std::min<int64_t>(options.num_workers, samples); ++i)
        workers_.emplace_back([this] { serve(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Epoch() { stop(); }

  // False if the epoch is over.
  bool take(Batch& batch) {
    batch = {};
    MutexLock lock(mutex_);
    if (taken_ == batches_) return false;
    Slot& slot = slot_of(taken_);
    while (slot.state != State::ready) lock.wait(ready_);
    if (slot.error) std::rethrow_exception(slot.error);
    batch = std::exchange(slot.batch, {});
    slot.state = State::empty;
    if (!is_host(*options_.context)) slot.before.emplace(current_stream(*options_.context));
    ++taken_;
    work_.notify_all();
    return true;
  }

 private:
  enum class State : uint8_t { empty, opening, filling, ready };
  // One worker owns a slot while it opens or uploads it.
  struct Slot {
    State state = State::empty;
    std::optional<Stack> data, label;
    int64_t begin = 0, end = 0;  // positions in order_
    int64_t next = 0;            // the first unclaimed sample
    int64_t left = 0;            // samples not put yet
    Batch batch;
    std::exception_ptr error;
    int64_t error_at = 0;
    std::optional<Event> uploaded;  // upload of this batch
    std::optional<Event> before;    // the context's work before the batch was taken
  };
  Slot& slot_of(int64_t batch) LOCUS_REQUIRES(mutex_) {
    return slots_[static_cast<size_t>(batch) % slots_.size()];
  }

  void stop() {
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
    }
    work_.notify_all();
    for (std::thread& t : workers_) t.join();
  }

  // The oldest open batch with unclaimed samples.
  Slot* to_fill() LOCUS_REQUIRES(mutex_) {
    for (int64_t i = taken_; i < next_; ++i) {
      Slot& slot = slot_of(i);
      if (slot.state == State::filling && slot.next < slot.end) return &slot;
    }
    return nullptr;
  }
  bool may_open() const LOCUS_REQUIRES(mutex_) {
    return next_ < batches_ && next_ < taken_ + options_.prefetch;
  }

  void serve() {
    MutexLock lock(mutex_);
    while (!stopped_) {
      if (Slot* const slot = to_fill()) {
        const int64_t from = slot->next, to = std::min(from + run_, slot->end);
        slot->next = to;
        put(*slot, from, to);
      } else if (may_open()) {
        open(slot_of(next_), next_);
      } else if (next_ == batches_ && !opening_) {
        return;
      } else {
        lock.wait(work_);
      }
    }
  }

  void open(Slot& slot, int64_t batch) LOCUS_REQUIRES(mutex_) {
    ++next_;
    ++opening_;
    slot.state = State::opening;
    slot.error = nullptr;
    slot.begin = batch * options_.batch_size;
    slot.end = std::min(slot.begin + options_.batch_size, static_cast<int64_t>(order_.size()));
    slot.next = slot.begin + 1;
    slot.left = slot.end - slot.begin;
    const Context host = is_host(*options_.context) ? *options_.context : cpu_pinned();
    slot.data.emplace("data", host, slot.left);
    slot.label.emplace("label", host, slot.left);
    put(slot, slot.begin, slot.begin + 1);
    --opening_;
    if (slot.state == State::opening) slot.state = State::filling;
    work_.notify_all();
  }

  // Waits until the last batch's page-locked memory and copies are free.
  static void wait_for_memory(Slot& slot) {
    for (std::optional<Event>* e : {&slot.uploaded, &slot.before}) {
      if (e->has_value()) device((*e)->context()).wait_host((*e)->view());
      e->reset();
    }
  }

  // Decodes and puts samples [from, to), with the mutex unlocked. The worker of a batch's last
  // sample uploads it.
  void put(Slot& slot, int64_t from, int64_t to) LOCUS_REQUIRES(mutex_) {
    int64_t at = from;
    const bool opening = slot.state == State::opening;
    mutex_.unlock();
    std::exception_ptr error;
    try {
      if (opening) wait_for_memory(slot);
      for (; at < to; ++at) {
        const int32_t index = order_[static_cast<size_t>(at)];
        const Sample sample = decode_(index);
        slot.data->put(at - slot.begin, transformed(sample.data, index), index, from_);
        slot.label->put(at - slot.begin, sample.label, index, from_);
      }
    } catch (...) {
      error = std::current_exception();
    }
    mutex_.lock();
    slot.left -= to - from;
    if (error) {
      if (!slot.error || at < slot.error_at) {
        slot.error = error;
        slot.error_at = at;
      }
      // Unclaimed samples are dropped.
      slot.left -= slot.end - slot.next;
      slot.next = slot.end;
    }
    if (slot.left > 0) return;
    if (!slot.error) upload(slot);
    slot.data.reset();
    slot.label.reset();
    slot.state = State::ready;
    ready_.notify_all();
  }

  Tensor transformed(const Tensor& data, int32_t index) const {
    if (!options_.transform) return data;
    const Draw draw{options_.seed, epoch_->number, {&index, 1}, from_};
    return options_.transform(expand_dims(data, 0), draw)[0];
  }

  void upload(Slot& slot) LOCUS_REQUIRES(mutex_) {
    const Context to = *options_.context;
    mutex_.unlock();
    try {
      // The page-locked memory returns to its pool, which reuses it after the copy.
      const CopyOptions options{.blocking = is_host(to)};
      slot.batch = is_host(to) ? Batch{slot.data->all(), slot.label->all()}
                               : Batch{slot.data->all().copyto(to, options, from_),
                                       slot.label->all().copyto(to, options, from_)};
      if (!is_host(to)) slot.uploaded.emplace(device(to).stream(Lane::to_device));
    } catch (...) {
      slot.error = std::current_exception();
    }
    mutex_.lock();
  }

  const Decode decode_;
  const PrefetchOptions options_;
  const std::shared_ptr<EpochOrder> epoch_;
  const std::vector<int32_t>& order_;  // the epoch's samples
  const int64_t batches_;
  const Caller from_;
  const int64_t run_;  // samples a worker claims at once

  Mutex mutex_;
  std::condition_variable ready_, work_;
  std::vector<Slot> slots_ LOCUS_GUARDED_BY(mutex_);
  int64_t next_ LOCUS_GUARDED_BY(mutex_);   // the batch to open
  int64_t taken_ LOCUS_GUARDED_BY(mutex_);  // batches taken
  int opening_ LOCUS_GUARDED_BY(mutex_) = 0;
  bool stopped_ LOCUS_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;
};

Prefetcher::Prefetcher(const Dataset& dataset, const PrefetchOptions& options, Caller from) try
    : Prefetcher(dataset.size(), rows_of(dataset, from), options, from) {
} catch (const Error&) {
  rethrow_at(from);
}

Prefetcher::Prefetcher(int64_t samples, Decode decode, const PrefetchOptions& options,
                       Caller from) try
    : decode_(std::move(decode)),
      options_(options),
      order_("Prefetcher", samples, options.batch_size, options.shuffle, options.last_batch,
             options.seed, {options.part_index, options.num_parts}) {
  check("num_workers", options.num_workers, kMaxWorkers);
  check("prefetch", options.prefetch, kMaxPrefetch);
  if (!decode_)
    throw Error("Prefetcher: decode is empty; expected a function of a sample's number");
  if (!options_.context) options_.context = current_context();
  device(*options_.context);  // a missing context fails here
} catch (const Error&) {
  rethrow_at(from);
}

Prefetcher::Iterator Prefetcher::begin(Caller from) try {
  const UserLine user_line(from);
  Iterator first;
  first.order_ = order_.begin();
  first.number_ = first.order_->given - 1;
  PrefetchOptions of_part = options_;
  of_part.batch_size = order_.part_size();
  first.epoch_ = std::make_shared<Epoch>(decode_, of_part, first.order_, from);
  first.from_ = from;
  return ++first;
} catch (const Error&) {
  rethrow_at(from);
}

const Batch& Prefetcher::Iterator::operator*() const {
  if (!epoch_) refuse_end("Prefetcher", "*", from_);
  order_->hand_out(number_);
  return batch_;
}

Prefetcher::Iterator& Prefetcher::Iterator::operator++() try {
  const UserLine user_line(from_);
  if (!epoch_) refuse_end("Prefetcher", "++", from_);
  std::shared_ptr<Epoch> epoch = std::move(epoch_);  // released if take throws, too
  order_->hand_out(number_++);
  if (epoch->take(batch_)) epoch_ = std::move(epoch);
  return *this;
} catch (const Error&) {
  rethrow_at(from_);
}

}  // namespace locus::data
