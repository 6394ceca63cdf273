#include <locus/core/parallel.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/capture_check.h>
#include <locus/core/error.h>
#include <locus/core/mutex.h>
#include <locus/core/rendezvous.h>

namespace locus {
namespace {

constexpr std::chrono::microseconds kAwake{50};

// What a thread waits for: changed by another one. It looks for a while before it sleeps.
void wait_while(const std::atomic<uint32_t>& word, uint32_t old) {
  const auto start = std::chrono::steady_clock::now();
  while (word.load(std::memory_order_acquire) == old) {
    if (std::chrono::steady_clock::now() - start > kAwake) {
      word.wait(old, std::memory_order_acquire);
      continue;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

thread_local std::optional<Context> works_for;

class Worker {
 public:
  explicit Worker(Context c) : context_(c) {
    std::thread([this] { live(); }).detach();  // as long as the process
  }

  // One caller at a time: take() before, leave() after.
  void take() { mutex_.lock(); }
  void leave() { mutex_.unlock(); }
  void start(const std::function<void()>& task) {
    task_ = &task;
    asked_.fetch_add(1, std::memory_order_release);
    asked_.notify_one();
  }
  void finish() {
    const uint32_t asked = asked_.load(std::memory_order_relaxed);
    for (uint32_t done; (done = done_.load(std::memory_order_acquire)) != asked;)
      wait_while(done_, done);
  }

 private:
  [[noreturn]] void live() {
    works_for = context_;
    for (uint32_t seen = 0;;) {
      wait_while(asked_, seen);
      ++seen;
      (*task_)();
      done_.store(seen, std::memory_order_release);
      done_.notify_one();
    }
  }

  const Context context_;
  std::mutex mutex_;
  const std::function<void()>* task_ = nullptr;
  std::atomic<uint32_t> asked_{0}, done_{0};
};

Worker& worker(Context c) {
  struct Workers {
    Mutex mutex;
    std::map<Context, std::unique_ptr<Worker>> all LOCUS_GUARDED_BY(mutex);
  };
  static Workers* const workers = new Workers;
  const MutexLock lock(workers->mutex);
  std::unique_ptr<Worker>& found = workers->all[c];
  if (!found) found = std::make_unique<Worker>(c);
  return *found;
}

}  // namespace

void parallel(const Contexts& contexts, const std::function<void(int)>& f) {
  if (!f) throw ValueError("parallel: the function is empty");
  capture::check("parallel",
                 "the work of other threads is not recorded; call the function that is "
                 "compiled inside of it, one a context");
  const size_t n = contexts.size();
  Rendezvous meeting(contexts.list());
  std::vector<std::exception_ptr> failures(n);
  const bool records = autograd::is_recording(), trains = autograd::is_training();
  const std::optional<DType> mixed = amp::dtype();
  const auto run = [&](size_t i) noexcept {
    try {
      const Rendezvous::Seat seat(meeting, i);
      const ContextScope here(contexts.list()[i]);
      const amp::Scope amp(mixed);
      std::optional<autograd::Record> record;
      std::optional<autograd::Pause> pause;
      if (records)
        record.emplace(trains);
      else
        pause.emplace(trains);
      f(static_cast<int>(i));
    } catch (...) {
      failures[i] = std::current_exception();
    }
  };
  if (works_for) {
    if (n > 1 || contexts.list()[0] != *works_for)
      throw Error("parallel: called on the thread of ", *works_for,
                  ", which another one would have to wait for; expected no other context");
    run(0);
  } else {
    std::map<Context, Worker*> in_order;  // in which all callers take them
    for (const Context c : contexts) in_order[c] = &worker(c);
    for (const auto& [context, w] : in_order) w->take();
    std::vector<std::function<void()>> tasks;
    for (size_t i = 0; i < n; ++i) tasks.emplace_back([&run, i] { run(i); });
    for (size_t i = 0; i < n; ++i) in_order[contexts.list()[i]]->start(tasks[i]);
    for (const auto& [context, w] : in_order) w->finish();
    for (const auto& [context, w] : in_order) w->leave();
  }
  for (bool all : {false, true})
    for (size_t i = 0; i < n; ++i)
      if (failures[i] && (all || !meeting.forsaken(i))) std::rethrow_exception(failures[i]);
}

}  // namespace locus
