#include <locus/core/compile.h>

#include <list>
#include <utility>

#include <locus/core/compile_entry.h>
#include <locus/core/error.h>

namespace locus {

using compiled::Entry;
using compiled::Mode;

struct Compiled::State {
  State(Function f, const CompileOptions& o) : function(std::move(f)), options(o) {}

  Function function;
  CompileOptions options;
  mutable Mutex mutex;
  std::list<Entry> entries LOCUS_GUARDED_BY(mutex);  // the one used last is first
  std::atomic<size_t> recorded{0};

  Tensors record(const Tensors& in, bool own_inputs, Caller from) LOCUS_REQUIRES(mutex) {
    Tensors results;
    std::list<Entry> fresh;
    fresh.emplace_back(function, in, own_inputs, from, results);
    ++recorded;
    entries.splice(entries.begin(), fresh);
    while (entries.size() > options.keys) entries.pop_back();
    return results;
  }

  Entry& last(const char* what) LOCUS_REQUIRES(mutex) {
    if (entries.empty())
      throw Error("Compiled::", what, ": nothing is recorded yet; call it first");
    return entries.front();
  }

  Tensors call(const Tensors& in, Caller from) LOCUS_REQUIRES(mutex) {
    const Mode mode;
    bool others = false;  // came before, where these could have been copied to
    for (auto e = entries.begin(); e != entries.end();) {
      const auto at = e++;
      if (!at->fits(in, mode)) continue;
      if (at->stale()) {
        entries.erase(at);
        continue;
      }
      const bool has = at->has(in);
      if (!has && !at->may_copy(in)) continue;
      if (has || at->copies_inputs()) {
        entries.splice(entries.begin(), entries, at);
        return at->replay(in, from);
      }
      others = true;
      entries.erase(at);
    }
    return record(in, others, from);
  }
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
  if (!state_) throw Error("Compiled: it was moved from; use the one it was moved to");
  if (capture::active()) return state_->function(in);
  if (autograd::is_recording())
    throw Error("Compiled: called at ", to_string(from),
                " under autograd::Record, but its results are in no graph; record inside the "
                "function, and call backward() there");
  for (const Tensor& t : in)
    if (!t.defined()) throw Error("Compiled: called at ", to_string(from), " with an empty tensor");
  const MutexLock lock(state_->mutex);
  return state_->call(in, from);
}

Compiled::State& Compiled::state(const char* what) const {
  if (!state_) throw Error("Compiled::", what, ": it was moved from; use the one it was moved to");
  return *state_;
}

std::string Compiled::describe() {
  State& s = state("describe");
  capture::check("Compiled::describe", "it is about calls that ended; call it before or after");
  const MutexLock lock(s.mutex);
  Entry& last = s.last("describe");
  return "recorded for " + last.text() + "\n" + last.plan().describe();
}

std::string Compiled::dot() const {
  State& s = state("dot");
  capture::check("Compiled::dot", "it is about calls that ended; call it before or after");
  const MutexLock lock(s.mutex);
  return s.last("dot").plan().dot();
}

size_t Compiled::recorded() const { return state("recorded").recorded; }

void Compiled::clear() {
  State& s = state("clear");
  capture::check("Compiled::clear", "it forgets what is being recorded; call it before or after");
  const MutexLock lock(s.mutex);
  s.entries.clear();
}

}  // namespace locus
