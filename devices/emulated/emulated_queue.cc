#include <locus/devices/emulated/emulated_queue.h>

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <locus/core/call/named_calls.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/devices/cpu.h>
#include <locus/devices/emulated_link.h>
#include <locus/devices/host/fork.h>

namespace locus::emulated {
namespace {

constexpr size_t kKept = size_t{4} << 10;  // bytes of staging that an entry keeps for its next copy

}  // namespace

void FirstFault::add(std::exception_ptr error) {
  const MutexLock lock(mutex_);
  if (!error_) error_ = std::move(error);
}

void FirstFault::rethrow() {
  const MutexLock lock(mutex_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

Queue::Queue(Context context, FirstFault& fault)
    : context_(context), id_(new_stream_id()), fault_(fault) {}

void Queue::check_usable() const {
  if (closed_)
    throw DeviceError("a closed stream of ", context_, " was used; open another: Stream(", context_,
                      ")");
  if (ring_ != nullptr && process_ != fork_count()) throw_used_before_fork(context_);
}

void Queue::start() {
  ring_ = std::make_unique<Operation[]>(kCapacity);
  process_ = fork_count();
  try {
    // Detached, and never ended by static destructors: the process may exit while it works.
    std::thread([this] { serve(); }).detach();
  } catch (const std::system_error& e) {
    ring_ = nullptr;
    throw DeviceError(context_, ": a stream's thread cannot be started: ", e.what(),
                      "; use fewer streams, or raise the limit of threads (ulimit -u)");
  }
}

void Queue::wait_until_finished(uint64_t target, MutexLock& lock) {
  ++drainers_;
  while (finished_ < target) lock.wait(progress_);
  --drainers_;
}

void Queue::push(const auto& fill) {
  MutexLock lock(mutex_);
  check_usable();
  if (ring_ == nullptr) start();
  while (pushed_ - finished_ == kCapacity) lock.wait(space_);
  check_usable();
  Operation& entry = ring_[pushed_ % kCapacity];
  fill(entry);
  if (link_model()) entry.pushed = Clock::now();
  ++pushed_;
  if (asleep_) work_.notify_one();
}

void Queue::launch(Kernel kernel, const Call& call, const char* name) {
  push([&](Operation& entry) {
    entry.kind = Kind::launch;
    entry.kernel = kernel;
    entry.name = name;
    entry.views.assign(call.in, call.in + call.n_in);
    entry.views.insert(entry.views.end(), call.out, call.out + call.n_out);
    entry.n_in = call.n_in;
    entry.attrs = Attrs({call.attrs, call.attrs_size, &typeid(NoAttrs), call.owner});
  });
}

void Queue::copy(void* dst, Context to, const void* src, Context from, size_t bytes, bool staged) {
  push([&](Operation& entry) {
    entry.kind = Kind::copy;
    entry.name = "copyto";
    entry.dst = dst;
    entry.src = src;
    entry.to = to;
    entry.from = from;
    entry.bytes = bytes;
    if (!staged) return;
    const char* begin = static_cast<const char*>(src);
    entry.staging.assign(begin, begin + bytes);
    entry.src = entry.staging.data();
  });
}

void Queue::record(EventRef event) {
  {
    const MutexLock lock(mutex_);
    if (closed_) return event->fire(Clock::now());
  }
  push_event(Kind::record, std::move(event));
}

void Queue::wait(EventRef event) { push_event(Kind::wait, std::move(event)); }

void Queue::push_event(Kind kind, EventRef event) {
  push([&](Operation& entry) {
    entry.kind = kind;
    entry.event = std::move(event);
  });
}

void Queue::drain() {
  Clock::time_point end;
  {
    MutexLock lock(mutex_);
    const uint64_t target = pushed_;
    if (finished_ < target && !closed_) check_usable();  // close() may be draining it, too
    wait_until_finished(target, lock);
    end = clock_;
  }
  sleep_until(end);
}

void Queue::close() {
  Clock::time_point end;
  {
    MutexLock lock(mutex_);
    if (std::exchange(closed_, true) || ring_ == nullptr) return;
    if (process_ != fork_count()) return;  // its thread runs in the parent
    while (pushed_ - finished_ == kCapacity) lock.wait(space_);
    Operation& entry = ring_[pushed_ % kCapacity];
    entry.kind = Kind::stop;
    entry.pushed = {};
    const uint64_t target = ++pushed_;
    if (asleep_) work_.notify_one();
    wait_until_finished(target, lock);
    ring_.reset();
    end = clock_;
  }
  sleep_until(end);
}

void Queue::reopen() {
  const MutexLock lock(mutex_);
  closed_ = false;
}

void Queue::serve() {
  pthread_setname_np(pthread_self(), "locus-queue");
  if (link_model()) {
    compute_alone();
    // With real GPUs, the threads that drive them do not share cores with them.
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 5);
  }
  MutexLock lock(mutex_);
  for (bool stopped = false; !stopped;) {
    asleep_ = true;
    while (finished_ == pushed_) lock.wait(work_);
    asleep_ = false;
    Operation& entry = ring_[finished_ % kCapacity];  // not reused until finished_ passes it
    stopped = entry.kind == Kind::stop;
    Clock::time_point now = clock_;
    mutex_.unlock();
    run(entry, now);
    if (entry.staging.capacity() > kKept) entry.staging = {};
    entry.attrs.owner = {};
    mutex_.lock();
    clock_ = now;
    if (pushed_ - finished_ == kCapacity) space_.notify_all();
    ++finished_;
    if (drainers_ > 0) progress_.notify_all();
  }
}

// `now`: the queue's clock, with a link model.
void Queue::run(Operation& entry, Clock::time_point& now) {
  const bool modelled = link_model().has_value();
  if (modelled) now = std::max(now, entry.pushed);
  try {
    switch (entry.kind) {
      case Kind::launch: {
        const View* in = entry.views.data();
        const int n_out = static_cast<int>(entry.views.size()) - entry.n_in;
        // The host's stream, because memory that the kernel allocates now is not in this queue's
        // order: the queue's memory is handed out when work is pushed.
        const Call call{in,    in + entry.n_in,   entry.n_in,
                        n_out, entry.attrs.bytes, entry.attrs.size,
                        {},    &entry.attrs.owner};
        const memory_events::RunningOp running([&] { return entry.name; });
        if (modelled)
          now += compute(entry.kernel, call);
        else
          entry.kernel(call);
        break;
      }
      case Kind::copy:
        now = copy_over_link(entry.dst, entry.to, entry.src, entry.from, entry.bytes, now);
        break;
      case Kind::record:
        std::exchange(entry.event, nullptr)->fire(modelled ? now : Clock::now());
        break;
      case Kind::wait: {
        const Clock::time_point fired = std::exchange(entry.event, nullptr)->wait_fired();
        if (modelled) now = std::max(now, fired);
        break;
      }
      case Kind::stop:
        break;
    }
  } catch (...) {
    fault_.add(reworded([&](const std::string& text) {
      return NamedCalls::in_front(entry.name, text) + found_later(context_);
    }));
  }
}

}  // namespace locus::emulated
