// The thread pool of the process. A fork-join costs well under a microsecond while the workers are
// hot, because each spins on a separate word before it waits in the kernel.
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <climits>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <locus/core/base/environment.h>
#include <locus/core/error.h>
#include <locus/devices/cpu.h>
#include <locus/devices/host/share_cpus.h>

namespace locus {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kMaxThreads = 1024;
constexpr auto kSpin = std::chrono::microseconds(300);  // a wake-up from the kernel costs 50
constexpr auto kPolite =
    std::chrono::microseconds(20);  // of spinning before others may have the CPU

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Spins until ready(). Returns false after `limit`.
bool spin_until(const auto& ready, Clock::duration limit) {
  for (int i = 0; i < 64; ++i) {
    if (ready()) return true;
    pause_cpu();
  }
  const Clock::time_point start = Clock::now();
  for (;;) {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      pause_cpu();
    }
    const Clock::duration spent = Clock::now() - start;
    if (spent > limit) return false;
    if (spent > kPolite) std::this_thread::yield();
  }
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// The share of CPU time that a container grants, in CPUs; spinning beyond it stalls everything.
int cpu_quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || period <= 0) return INT_MAX;
  return std::max(1, static_cast<int>(quota / period + 0.5));
}

thread_local bool alone = false;

using Body = void (*)(void* data, int64_t begin, int64_t end);
struct Job {
  Body body;
  void* data;
  int64_t n, chunk;

  void run(int64_t part) const { body(data, part * chunk, std::min(n, (part + 1) * chunk)); }
};

// idle -> offered (by the caller) -> taken (by the worker) -> idle. If the worker has not taken an
// offer, the caller takes it back and computes the part itself.
enum State : uint32_t { idle, parked, offered, taken };

struct alignas(64) Worker {
  std::atomic<uint32_t> state{idle};
  int part = 0;  // the range it computes
  int cpu = -1;  // it is pinned to, or -1
  std::atomic<pid_t> thread{0};
  std::exception_ptr error;
};

class ThreadPool {
 public:
  ThreadPool() : cpus_(allowed_cpus()) {
    threads_ = static_cast<int>(
        environment_number("LOCUS_NUM_THREADS", 1, kMaxThreads).value_or(num_cpus()));
    pin_ = environment_number("LOCUS_PIN", 0, 1).value_or(1) == 1;
  }

  int threads() const { return threads_.load(std::memory_order_relaxed); }
  void set_threads(int n) { threads_.store(n, std::memory_order_relaxed); }

  void run(int64_t n, int64_t grain, Body body, void* data) {
    const int64_t grains = (n - 1) / grain + 1;
    const int64_t most = std::min<int64_t>(grains, threads());
    const int64_t each = (grains - 1) / most + 1;
    const int64_t parts = (grains - 1) / each + 1;
    if (parts == 1) return body(data, 0, n);
    const Job job{body, data, n, each * grain};
    if (alone || busy_.exchange(true, std::memory_order_acquire)) {
      for (int64_t part = 0; part < parts; ++part) job.run(part);
      return;
    }
    fork_join(job, static_cast<int>(parts));
  }

 private:
  void fork_join(const Job& job, int parts) {
    try {
      start_workers(parts - 1);
    } catch (...) {
      busy_.store(false, std::memory_order_release);
      throw;
    }
    job_ = job;
    for (int w = 1; w < parts; ++w) {
      std::atomic<uint32_t>& state = workers_[w]->state;
      if (state.exchange(offered, std::memory_order_acq_rel) == parked) {
        make_way(*workers_[w]);
        syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
      }
    }
    FirstFailure failure;
    failure.run([&] { job.run(0); });
    for (int w = 1; w < parts; ++w) {
      Worker& worker = *workers_[w];
      uint32_t expected = offered;
      if (worker.state.compare_exchange_strong(expected, idle, std::memory_order_acq_rel)) {
        failure.run([&] { job.run(w); });
        make_way(worker);
        continue;
      }
      spin_until([&] { return worker.state.load(std::memory_order_acquire) != taken; },
                 std::chrono::hours(1 << 20));
      if (worker.error)
        failure.run([&] { std::rethrow_exception(std::exchange(worker.error, nullptr)); });
    }
    busy_.store(false, std::memory_order_release);
    failure.rethrow();
  }

  // If a worker is pinned to the CPU on which its caller runs, moves it to the CPU that no worker
  // has. (The caller is not moved.)
  void make_way(Worker& worker) {
    const int here = sched_getcpu();
    if (worker.cpu < 0 || worker.cpu != here) return;
    worker.cpu = std::exchange(spare_cpu_, here);
    pin(worker.thread.load(std::memory_order_relaxed), worker.cpu);
  }

  static void pin(pid_t thread, int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(thread, sizeof set, &set);
  }

  void start_workers(int count) {
    if (count < static_cast<int>(workers_.size())) return;
    if (workers_.empty()) {
      workers_.push_back(nullptr);  // the caller's place
      if (!cpus_.empty()) spare_cpu_ = cpus_[0];
    }
    // Workers block all signals: signals belong to the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    FirstFailure failure;
    failure.run([&] {
      while (static_cast<int>(workers_.size()) <= count) start_worker();
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    failure.rethrow();
  }
  void start_worker() {
    auto worker = std::make_unique<Worker>();
    const size_t index = workers_.size();
    workers_.reserve(index + 1);  // once its thread runs, nothing may throw
    worker->part = static_cast<int>(index);
    std::thread([this, w = worker.get()] { serve(*w); }).detach();
    while (worker->thread.load(std::memory_order_relaxed) == 0) std::this_thread::yield();
    if (pin_ && index < cpus_.size()) {
      worker->cpu = cpus_[index];
      pin(worker->thread, worker->cpu);
    }
    workers_.push_back(std::move(worker));
  }

  void serve(Worker& worker) {
    pthread_setname_np(pthread_self(), "locus");
    worker.thread.store(static_cast<pid_t>(syscall(SYS_gettid)), std::memory_order_relaxed);
    for (;;) {
      const auto is_offered = [&] {
        return worker.state.load(std::memory_order_relaxed) == offered;
      };
      if (!spin_until(is_offered, threads() > static_cast<int>(cpus_.size()) ? kPolite : kSpin)) {
        uint32_t expected = idle;
        if (worker.state.compare_exchange_strong(expected, parked)) {
          syscall(SYS_futex, &worker.state, FUTEX_WAIT_PRIVATE, parked, nullptr, nullptr, 0);
          // Woken without work: spins again.
          expected = parked;
          worker.state.compare_exchange_strong(expected, idle);
        }
      }
      uint32_t expected = offered;
      if (!worker.state.compare_exchange_strong(expected, taken, std::memory_order_acq_rel))
        continue;
      try {
        job_.run(worker.part);
      } catch (...) {
        worker.error = std::current_exception();
      }
      worker.state.store(idle, std::memory_order_release);
    }
  }

  const std::vector<int> cpus_;
  bool pin_;
  std::atomic<int> threads_{1};
  std::atomic<bool> busy_{false};
  // Guarded by busy_; a worker reads them only while its state is `taken`.
  Job job_{};
  std::vector<std::unique_ptr<Worker>> workers_;
  int spare_cpu_ = 0;  // pinned workers have all of cpus_ but this
};

// Never destroyed: its threads run until the process ends.
ThreadPool& pool() {
  static ThreadPool& p = *new ThreadPool;
  return p;
}

}  // namespace

int num_cpus() {
  return std::max(1, std::min<int>(static_cast<int>(allowed_cpus().size()), cpu_quota()));
}

int num_threads() { return pool().threads(); }

void set_num_threads(int n) {
  LOCUS_CHECK(n >= 1 && n <= kMaxThreads, "set_num_threads(", n, "): expected 1 to ", kMaxThreads);
  pool().set_threads(n);
}

void compute_alone() { alone = true; }

void share_cpus(int part, int parts, bool bound) {
  const std::vector<int> all = allowed_cpus();
  const int n = static_cast<int>(all.size()), each = bound ? n : std::max(1, n / parts);
  if (!bound && n >= parts && environment_number("LOCUS_PIN", 0, 1).value_or(1) == 1) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < each; ++i) CPU_SET(all[static_cast<size_t>(part * each + i)], &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  if (!environment_number("LOCUS_NUM_THREADS", 1, kMaxThreads))
    set_num_threads(std::clamp(std::min(each, cpu_quota() / parts), 1, kMaxThreads));
}

void run_parallel(int64_t n, int64_t grain, Body body, void* data) {
  if (n > 0) pool().run(n, std::max<int64_t>(grain, 1), body, data);
}

}  // namespace locus
