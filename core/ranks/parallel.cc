#include <locus/core/parallel.h>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <locus/core/accumulate.h>
#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/base/mutex.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/generator.h>
#include <locus/core/observe/trace.h>
#include <locus/core/stream.h>
#include <locus/core/tape/reads.h>

namespace locus {
namespace {

using std::chrono::microseconds;

// Waits until another thread changes `word`: polls, then yields the core between polls, and sleeps
// after `awake`.
void wait_while(const std::atomic<uint32_t>& word, uint32_t old, microseconds awake,
                std::atomic<bool>* sleeps = nullptr) {
  const auto start = std::chrono::steady_clock::now();
  if (sleeps) sleeps->store(false, std::memory_order_relaxed);
  for (int looks = 1; word.load(std::memory_order_acquire) == old; ++looks) {
#if defined(__x86_64__)
    __builtin_ia32_pause();  // the awaited work may share this core
#endif
    if (looks % 32 != 0) continue;
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited > microseconds(50)) std::this_thread::yield();
    if (waited < awake) continue;
    if (sleeps) sleeps->store(true, std::memory_order_relaxed);
    word.wait(old, std::memory_order_acquire);
  }
}

// For work of other host threads.
constexpr microseconds kHostAwake{50};

thread_local std::optional<Context> works_for;

// The thread that waits for this thread's work.
thread_local std::thread::id waiting;
class WaitedFor : NonCopyable {
 public:
  explicit WaitedFor(std::thread::id by) { waiting = by; }
  ~WaitedFor() { waiting = {}; }
};

class Worker {
 public:
  explicit Worker(Context c) : context_(c) {
    std::thread([this] { live(); }).detach();  // as long as the process
  }

  // Held by one caller at a time. take_awake() is empty if the worker sleeps or is held.
  using Lease = std::unique_lock<std::mutex>;
  Lease take() { return Lease(mutex_); }
  Lease take_awake() {
    return sleeps_.load(std::memory_order_relaxed) ? Lease() : Lease(mutex_, std::try_to_lock);
  }
  void start(const std::function<void()>& task) {
    task_ = &task;
    started_.fetch_add(1, std::memory_order_release);
    started_.notify_one();
  }
  void finish() {
    const uint32_t started = started_.load(std::memory_order_relaxed);
    for (uint32_t done; (done = done_.load(std::memory_order_acquire)) != started;)
      wait_while(done_, done, awake_);
  }

 private:
  [[noreturn]] void live() {
    works_for = context_;
    for (uint32_t seen = 0;;) {
      wait_while(started_, seen, awake_, &sleeps_);
      ++seen;
      (*task_)();
      done_.store(seen, std::memory_order_release);
      done_.notify_one();
    }
  }

  const Context context_;
  // Waking takes a tenth of a GPU's step; between steps the program waits for the device.
  const microseconds awake_{
      is_host(context_) || context_info(context_).emulated ? kHostAwake : microseconds(1000)};
  std::mutex mutex_;
  const std::function<void()>* task_ = nullptr;
  std::atomic<uint32_t> started_{0}, done_{0};
  std::atomic<bool> sleeps_{true};
};

struct Workers {
  Mutex mutex;
  std::map<Context, std::unique_ptr<Worker>> all LOCUS_GUARDED_BY(mutex);
  const Workers* parents = nullptr;
};

// The workers of this process. A child of fork() has none of its parent's threads, and its mutexes
// may be locked.
Workers& here() {
  static Workers* workers = new Workers;
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    auto* const own = new Workers;
    own->parents = std::exchange(workers, own);
  });
  static_cast<void>(registered);
  return *workers;
}

// Null if there is none, unless `make`.
Worker* worker(Context c, bool make) {
  Workers* const workers = &here();
  const MutexLock lock(workers->mutex);
  const auto found = workers->all.find(c);
  if (found != workers->all.end()) return found->second.get();
  if (!make) return nullptr;
  return (workers->all[c] = std::make_unique<Worker>(c)).get();
}

// Runs f(i) on workers[i], or here if that is null. Returns what each threw, or null. With
// `behind`, at most one worker is null: two would wait for each other here.
std::vector<std::exception_ptr> run_on(const std::vector<Worker*>& workers,
                                       const std::function<void(int)>& f,
                                       const std::function<void(int)>& behind = {}) {
  std::vector<std::exception_ptr> failures(workers.size());
  std::vector<std::function<void()>> tasks;
  std::atomic<uint32_t> left{static_cast<uint32_t>(workers.size())};
  std::atomic<bool> failed{false};
  const std::thread::id caller = std::this_thread::get_id();
  for (size_t i = 0; i < workers.size(); ++i)
    tasks.emplace_back([&, i]() noexcept {
      std::optional<WaitedFor> waited;
      if (workers[i]) waited.emplace(caller);
      const auto run = [&](const std::function<void(int)>& part) {
        try {
          part(static_cast<int>(i));
        } catch (...) {
          failures[i] = std::current_exception();
        }
      };
      run(f);
      if (!behind) return;
      if (failures[i]) failed = true;
      if (--left == 0) left.notify_all();
      for (uint32_t others; (others = left) > 0;) wait_while(left, others, kHostAwake);
      if (!failed) run(behind);
    });
  for (size_t i = 0; i < workers.size(); ++i)
    if (workers[i]) workers[i]->start(tasks[i]);
  for (size_t i = 0; i < workers.size(); ++i)
    if (!workers[i]) tasks[i]();
  for (Worker* const w : workers)
    if (w) w->finish();
  return failures;
}

// While it lives, this thread does the work of context c.
class WorksFor : NonCopyable {
 public:
  explicit WorksFor(Context c) : before_(std::exchange(works_for, c)) {}
  ~WorksFor() { works_for = before_; }

 private:
  const std::optional<Context> before_;
};

}  // namespace

void expect_parallel(const Contexts& contexts) {
  capture::check("parallel",
                 "the work of other threads is not recorded; call the function that is "
                 "compiled inside of it, one per context");
  if (random::notes_or_repeats())
    throw Error(
        "parallel: called by a function that recompute() runs, whose second run would draw other "
        "random numbers on other threads; call recompute() inside of parallel(), one per context");
  for (const Context c : contexts) device(c);  // DeviceError if there is none
  if (works_for && (contexts.size() > 1 || contexts.list()[0] != *works_for))
    throw Error("parallel: called on the thread of ", *works_for,
                "; another context would wait for this thread forever; expected this context "
                "alone");
}

void parallel(const Contexts& contexts, const std::function<void(int)>& f) {
  if (!f) throw ValueError("parallel: the function is empty");
  expect_parallel(contexts);
  const bool records = autograd::is_recording(), trains = autograd::is_training();
  const std::optional<DType> mixed = amp::dtype();
  autograd::Accumulate* const accumulate = autograd::Accumulate::here();
  const PhiloxKey start = random::state();
  std::vector<PhiloxKey> draws;
  for (size_t i = 0; i < contexts.size(); ++i) draws.push_back(random::key_of(start, i));
  const auto run_as = [&](int i) {
    const ContextScope here(contexts.list()[static_cast<size_t>(i)]);
    const amp::Scope amp(mixed);
    const autograd::Accumulate::Worker sums(accumulate);
    const random::Sequence sequence(&draws[static_cast<size_t>(i)]);
    std::optional<autograd::Record> record;
    std::optional<autograd::Pause> pause;
    if (records)
      record.emplace(trains);
    else
      pause.emplace(trains);
    f(i);
  };
  // The next parallel() draws others.
  const auto go_on = [&] {
    if (std::ranges::any_of(draws, [](PhiloxKey next) { return next.offset > 0; }))
      random::reserve(1);
  };
  if (works_for) {
    FirstFailure failure;
    failure.run([&] { run_as(0); });
    go_on();
    return failure.rethrow();
  }
  std::map<Context, Worker*> in_order;  // in which all callers lock
  for (const Context c : contexts) in_order[c] = worker(c, true);
  std::vector<Worker::Lease> leases;
  for (const auto& [context, w] : in_order) leases.push_back(w->take());
  std::vector<Worker*> workers;
  for (const Context c : contexts) workers.push_back(in_order[c]);
  // A waiting thread would compete with a working one for a shared core.
  if (!in_stream_scope()) workers[0] = nullptr;
  const std::vector<std::exception_ptr> failures = run_on(workers, [&](int i) {
    if (workers[static_cast<size_t>(i)]) return run_as(i);
    const WorksFor mine(contexts.list()[static_cast<size_t>(i)]);
    run_as(i);
  });
  go_on();
  for (const std::exception_ptr& e : failures)
    if (e) std::rethrow_exception(e);
}

bool waits_for_this_thread(std::thread::id thread) {
  return thread != std::thread::id() && thread == waiting;
}

void on_threads(const std::vector<Context>& contexts, const std::function<void(int)>& f,
                const std::function<void(int)>& behind) {
  if (contexts.size() > 1 && !works_for && !capture::active() && !reads::watched() &&
      (tracing::off() || !tracing::listening()) && !in_stream_scope()) {
    std::vector<Worker*> taken{nullptr};
    std::vector<Worker::Lease> leases;
    for (const Context c : std::span(contexts).subspan(1)) {
      Worker* const w = worker(c, false);
      if (!w || !leases.emplace_back(w->take_awake())) break;
      taken.push_back(w);
    }
    if (taken.size() == contexts.size()) {
      const WorksFor mine(contexts[0]);  // the others are held: f must not wait for them
      for (const std::exception_ptr& e : run_on(taken, f, behind))
        if (e) std::rethrow_exception(e);
      return;
    }
  }
  for (const std::function<void(int)>* const part : {&f, &behind}) {
    FirstFailure failure;  // as on threads, others run after a failure
    for (size_t i = 0; i < contexts.size() && *part; ++i)
      failure.run([&] {
        const WorksFor as_there(works_for.value_or(contexts[i]));
        (*part)(static_cast<int>(i));
      });
    failure.rethrow();
  }
}

}  // namespace locus
