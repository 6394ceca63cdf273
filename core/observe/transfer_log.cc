#include <locus/core/base/mutex.h>
#include <locus/core/transfer_log.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <string_view>
#include <tuple>

#include <locus/core/base/environment.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/observe/register.h>
#include <locus/core/observe/trace.h>

namespace locus {
namespace {

using Key = std::tuple<TransferKind, Context, Context, std::string_view, unsigned>;

}  // namespace

struct TransferLog::Records {
  void add(TransferKind kind, Context from, Context to, Caller caller, uint64_t bytes,
           double seconds) {
    const Key key{kind, from, to, caller.file ? caller.file : "", caller.line};
    TransferEntry& e =
        sums.try_emplace(key, TransferEntry{.kind = kind, .from = from, .to = to, .caller = caller})
            .first->second;
    e.count += 1;
    e.bytes += bytes;
    e.seconds += seconds;
  }
  std::map<Key, TransferEntry> sums;
};

namespace {

using RecordsRef = std::shared_ptr<TransferLog::Records>;

// Events of copies in flight are kept until they have fired. If there are this many, a new copy
// removes those that have.
constexpr size_t kSweep = 256;

struct Pending {
  tracing::CopyRecord copy;
  std::vector<RecordsRef> logs;
};

// All logs of the process, and copies whose times are not known yet.
class Ledger final : public tracing::Listener {
 public:
  void open(const RecordsRef& log) {
    const MutexLock lock(mutex_);
    logs_.push_back(log);
    tracing::start(tracing::kLog, *this);
  }
  void close(const RecordsRef& log) {
    const MutexLock lock(mutex_);
    std::erase(logs_, log);
    if (logs_.empty()) tracing::stop(tracing::kLog);
  }

  // Prints each record at once.
  void print() { print_ = true; }

  void call_waited(const tracing::WaitRecord& w) override {
    const Caller caller = users_line(w.caller);
    if (print_.load(std::memory_order_relaxed))
      std::fprintf(stderr, "locus: %s waited %.1f µs for %s, %s\n", name(w.kind), w.seconds * 1e6,
                   to_string(w.waited_for).c_str(), to_string(caller).c_str());
    const MutexLock lock(mutex_);
    for (const RecordsRef& log : logs_)
      log->add(w.kind, w.waited_for, cpu(0), caller, w.bytes, w.seconds);
  }

  void copied(const tracing::CopyRecord& record) override {
    tracing::CopyRecord copy = record;
    copy.caller = users_line(record.caller);
    if (print_.load(std::memory_order_relaxed))
      std::fprintf(stderr, "locus: copy %s to %s, %zu bytes, %s in %.1f µs, %s\n",
                   to_string(copy.from).c_str(), to_string(copy.to).c_str(), copy.bytes,
                   copy.events ? "issued" : "done", (copy.end - copy.start) * 1e6,
                   to_string(copy.caller).c_str());
    const MutexLock lock(mutex_);
    if (!copy.events) return settle({copy, logs_}, copy.end - copy.start);
    pending_.push_back({copy, logs_});
    if (pending_.size() < kSweep) return;
    try {
      while (!pending_.empty() && pending_.front().copy.events->done()) {
        settle(pending_.front(), pending_.front().copy.events->seconds());
        pending_.pop_front();
      }
    } catch (const DeviceError&) {
      // The device has failed: entries() and every wait on it throw.
    }
  }

  // Waits for copies in flight. Rethrows the first failure of a device; a failed copy counts with
  // the time of its call.
  std::vector<TransferEntry> entries(const RecordsRef& log) {
    const MutexLock resolving(resolving_);
    std::deque<Pending> under_way;
    {
      const MutexLock lock(mutex_);
      under_way.swap(pending_);
    }
    FirstFailure failure;
    for (const Pending& p : under_way) {
      double seconds = p.copy.end - p.copy.start;
      failure.run([&] {
        p.copy.events->wait();
        seconds = p.copy.events->seconds();
      });
      const MutexLock lock(mutex_);
      settle(p, seconds);
    }
    failure.rethrow();
    std::vector<TransferEntry> list;
    const MutexLock lock(mutex_);
    for (const auto& [key, entry] : log->sums) list.push_back(entry);
    return list;
  }

  void clear(const RecordsRef& log) {
    const MutexLock resolving(resolving_);
    const MutexLock lock(mutex_);
    log->sums.clear();
    for (Pending& p : pending_) std::erase(p.logs, log);
  }

 private:
  void settle(const Pending& p, double seconds) LOCUS_REQUIRES(mutex_) {
    for (const RecordsRef& log : p.logs)
      log->add(TransferKind::copy, p.copy.from, p.copy.to, p.copy.caller, p.copy.bytes, seconds);
  }

  std::atomic<bool> print_{false};
  Mutex resolving_;  // locked before mutex_
  Mutex mutex_;
  std::vector<RecordsRef> logs_ LOCUS_GUARDED_BY(mutex_);
  std::deque<Pending> pending_ LOCUS_GUARDED_BY(mutex_);
};

// Never destroyed: the log of LOCUS_TRANSFERS is printed while the process ends.
Ledger& ledger() {
  static Ledger& l = *new Ledger;
  return l;
}

ContextInfo info(Context c) { return is_host(c) ? ContextInfo() : context_info(c); }

std::vector<TransferEntry> sorted_entries(const RecordsRef& log) {
  std::vector<TransferEntry> list = ledger().entries(log);
  for (TransferEntry& e : list) {
    const ContextInfo from = info(e.from), to = info(e.to);
    e.emulated = from.emulated || to.emulated;
    e.modelled = from.modelled || to.modelled;
    e.times = from.emulated ? from.times : to.times;
  }
  std::stable_sort(list.begin(), list.end(), [](const TransferEntry& a, const TransferEntry& b) {
    return a.seconds > b.seconds;
  });
  return list;
}

void print_at_exit() {
  static const RecordsRef& log = *new RecordsRef(std::make_shared<TransferLog::Records>());
  ledger().open(log);
  std::atexit([] {
    try {
      std::fputs(format_transfers(sorted_entries(log)).c_str(), stderr);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "LOCUS_TRANSFERS: %s\n", e.what());
    }
  });
}

void read_environment() {
  const auto mode = environment_choice("LOCUS_TRANSFERS", {"summary", "full"});
  if (mode == 1) ledger().print();
  if (mode) print_at_exit();
}

}  // namespace

void register_ledger() { tracing::on_first_use(&read_environment); }

TransferLog::TransferLog() : records_(std::make_shared<Records>()) {
  tracing::listening();
  ledger().open(records_);
}
TransferLog::~TransferLog() { ledger().close(records_); }
std::vector<TransferEntry> TransferLog::entries() const { return sorted_entries(records_); }
std::string TransferLog::table() const { return format_transfers(entries()); }
void TransferLog::clear() { ledger().clear(records_); }

}  // namespace locus
