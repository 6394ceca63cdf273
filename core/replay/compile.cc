// While the function runs (recording.h), invoke.cc and copyto.cc add each call to a replay
// (replay.h), whose memory is fixed (arena.h). The replay computes dependencies (replay_finish.cc)
// and runs the calls again (replay_run.cc), on a GPU as graphs (devices/cuda/graph.cc). A
// CompiledEntry (compile_entry.h) is a replay with buffers (compile_copy.h) and a gradient
// (compile_gradient.h). This file chooses the entry for a call.
#include <locus/core/compile.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/observe/nan_check.h>
#include <locus/core/parallel.h>
#include <locus/core/replay/compile_entry.h>

namespace locus {

using compiled::CompiledEntry;
using compiled::Mode;

struct Compiled::State {
  State(Function f, const CompileOptions& o) : function(std::move(f)), options(o) {}

  Function function;
  CompileOptions options;
  mutable Mutex mutex;
  std::list<std::shared_ptr<CompiledEntry>> entries
      LOCUS_GUARDED_BY(mutex);  // the most recently used first
  std::atomic<size_t> recorded{0};
  std::atomic<std::thread::id> holder{};  // of mutex

  Tensors record(const Tensors& in, const Mode& mode, Caller from) LOCUS_REQUIRES(mutex) {
    const auto entry = std::make_shared<CompiledEntry>(function, in, mode, from);
    Tensors results = entry->first(in);
    entries.push_front(entry);
    ++recorded;
    drop_oldest_keys();
    return results;
  }

  // A key has several recordings if several calls wait for their backward().
  void drop_oldest_keys() LOCUS_REQUIRES(mutex) {
    std::vector<std::shared_ptr<CompiledEntry>> keys;  // one of each, the key used last first
    for (const auto& e : entries)
      if (std::ranges::none_of(keys, [&](const auto& k) { return k->same_key(*e); }))
        keys.push_back(e);
    for (; keys.size() > options.keys; keys.pop_back())
      entries.remove_if([&](const auto& e) { return e->same_key(*keys.back()); });
  }

  CompiledEntry& last(const char* what) LOCUS_REQUIRES(mutex) {
    if (entries.empty())
      throw Error("Compiled::", what, ": nothing is recorded yet; call it first");
    return *entries.front();
  }

  Tensors call(const Tensors& in, Caller from) LOCUS_REQUIRES(mutex) {
    const Mode mode;
    for (auto e = entries.begin(); e != entries.end();) {
      const auto at = e++;
      CompiledEntry& entry = **at;
      if (!entry.fits(in, mode)) continue;
      if (entry.stale()) {
        entries.erase(at);
      } else if (!entry.pending() && entry.as_fresh()) {
        entries.splice(entries.begin(), entries, at);
        return entry.replay(in, from);
      }
    }
    return record(in, mode, from);
  }
};

// Locks the state. Code that prepares a recording must not start another.
class LOCUS_THREAD_SAFETY(scoped_lockable) Compiled::StateLock : NonCopyable {
 public:
  StateLock(State& s, const char* what) LOCUS_THREAD_SAFETY(acquire_capability(s.mutex))
      : state_(s) {
    const std::thread::id holder = s.holder.load(std::memory_order_relaxed);
    if (holder == std::this_thread::get_id() || waits_for_this_thread(holder))
      throw Error("Compiled", what, ": called during its own call, for example by a parameter's ",
                  "initializer; call the plain function there");
    s.mutex.lock();
    s.holder.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  ~StateLock() LOCUS_THREAD_SAFETY(release_capability()) {
    state_.holder.store({}, std::memory_order_relaxed);
    state_.mutex.unlock();
  }

 private:
  State& state_;
};

Compiled::Compiled(Function f, const CompileOptions& options)
    : state_(new State(std::move(f), options)) {
  if (!state_->function) throw Error("Compiled: the function is null");
  if (options.keys < 1) throw ValueError("Compiled: keys 0; expected at least 1");
}
Compiled::Compiled(Compiled&&) noexcept = default;
Compiled& Compiled::operator=(Compiled&&) noexcept = default;
Compiled::~Compiled() = default;

Tensors Compiled::operator()(const Tensors& in, Caller from) {
  const UserLine user_line(from);
  if (!state_) throw Error("Compiled: it was moved from; use the object it was moved to");
  for (size_t i = 0; i < in.size(); ++i)
    if (!in[i].defined())
      detail::throw_empty("Compiled", text_of("input ", i, " of the call at ", to_string(from)));
  const StateLock state_lock(*state_, "");
  return capture::active() || checks_nan() ? state_->function(in) : state_->call(in, from);
}

Compiled::State& Compiled::state(const char* what) const {
  if (!state_)
    throw Error("Compiled::", what, ": it was moved from; use the object it was moved to");
  return *state_;
}

std::vector<CompiledCall> Compiled::calls() {
  State& s = state("calls");
  capture::check("Compiled::calls", "it reports finished calls; call it before or after");
  const StateLock state_lock(s, "::calls");
  CompiledEntry& last = s.last("calls");
  const MutexLock lock(last.mutex());
  std::vector<CompiledCall> list = last.replay().measured();
  Replay* const gradient = last.gradient();
  if (!gradient) return list;
  const int before = static_cast<int>(list.size()),
            segments = list.empty() ? 0 : list.back().segment + 1;
  for (CompiledCall& call : gradient->measured()) {
    for (int& n : call.after) n += before;
    call.segment += segments;
    list.push_back(std::move(call));
  }
  return list;
}

std::string Compiled::describe() {
  State& s = state("describe");
  capture::check("Compiled::describe", "it reports finished calls; call it before or after");
  const StateLock state_lock(s, "::describe");
  CompiledEntry& last = s.last("describe");
  const MutexLock lock(last.mutex());
  std::string text = "recorded for " + last.text() + "\n" + last.replay().describe();
  if (Replay* const gradient = last.gradient()) text += "\nits gradient\n" + gradient->describe();
  return text;
}

std::string Compiled::dot() const {
  State& s = state("dot");
  capture::check("Compiled::dot", "it reports finished calls; call it before or after");
  const StateLock state_lock(s, "::dot");
  return s.last("dot").replay().dot();
}

size_t Compiled::recorded() const { return state("recorded").recorded; }

void Compiled::clear() {
  State& s = state("clear");
  capture::check("Compiled::clear", "it drops recordings; call it before or after");
  const StateLock state_lock(s, "::clear");
  s.entries.clear();
}

}  // namespace locus
