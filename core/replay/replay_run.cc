// Runs single calls of a replay, or all.
#include <algorithm>
#include <utility>

#include <locus/core/call/named_calls.h>
#include <locus/core/error.h>
#include <locus/core/observe/trace.h>
#include <locus/core/ranks/communicator.h>
#include <locus/core/replay/replay.h>
#include <locus/core/stream.h>

namespace locus {
namespace {

// The call whose kernel runs in this thread, and its next requests.
struct RunningCall {
  Replay* replay = nullptr;
  ReplayCall* call = nullptr;
  size_t next = 0, choice_index = 0;
};
thread_local RunningCall* asking = nullptr;

}  // namespace

// Lives while a kernel's function runs.
class Replay::Running : NonCopyable {
 public:
  Running(Replay& replay, ReplayCall& call)
      : now_{&replay, &call}, outer_(std::exchange(asking, &now_)) {}
  ~Running() { asking = outer_; }

 private:
  RunningCall now_;
  RunningCall* const outer_;
};

Replay::Trial::Trial() : outer_(std::exchange(asking, nullptr)) {}
Replay::Trial::~Trial() { asking = static_cast<RunningCall*>(outer_); }

void* Replay::scratch(size_t bytes, bool& of_replay) {
  RunningCall* const a = asking;
  of_replay = a != nullptr && a->replay->whole_;
  if (!a) return nullptr;
  const size_t ask = a->next++;
  std::vector<ReplayCall::Scratch>& given = a->call->scratch;
  if (ask == given.size()) given.emplace_back();
  ReplayCall::Scratch& memory = given[ask];
  if (!of_replay) {  // during recording: memory of the pool
    memory.bytes = bytes;
    return nullptr;
  }
  // More threads than at recording may need more.
  if (!memory.data || memory.bytes < bytes) memory = a->replay->scratch_for(*a->call, ask, bytes);
  return memory.data;
}

// Calls of a branch run in order, and so do replays: they share scratch memory. A Capture runs
// nothing; its sizes are known when its graph is made.
ReplayCall::Scratch Replay::scratch_for(const ReplayCall& call, size_t ask, size_t bytes) {
  const auto same = [&](const SharedScratch& r) {
    return r.context == call.context && r.branch == call.branch && r.ask == ask;
  };
  auto found = std::find_if(scratches_.begin(), scratches_.end(), same);
  if (found == scratches_.end()) {
    scratches_.push_back({call.context, call.branch, ask, {}});
    found = scratches_.end() - 1;
  }
  if (found->memory.bytes >= bytes) return found->memory;
  for (const Segment& segment : segments_)
    for (const ReplayCall& c : segment.calls)
      if (c.context == call.context && c.branch == call.branch && ask < c.scratch.size())
        bytes = std::max(bytes, c.scratch[ask].bytes);
  found->memory = {static_cast<std::byte*>(block(call.context, bytes)), bytes};
  return found->memory;
}

std::shared_ptr<const void>* Replay::next_choice() {
  RunningCall* const a = asking;
  if (!a) return nullptr;
  auto& all = a->call->choices;
  if (a->choice_index == all.size()) all.emplace_back();
  return &all[a->choice_index++];
}

void Replay::run(ReplayCall& c, StreamView s, bool traced) {
  Device& d = device(c.context);
  if (!c.op) {
    if (!traced) return d.copy(c.dst, c.to, c.src, c.from, c.bytes, s);
    const tracing::Scope scope(TransferKind::copyto, c.caller);
    return tracing::copy(d, c.dst, c.to, c.src, c.from, c.bytes, s);
  }
  const Running running(*this, c);
  View* const views = c.views.data();
  const int n_out = static_cast<int>(c.views.size()) - c.n_in;
  const Call call{views,         views + c.n_in, c.n_in, n_out,
                  c.attrs.bytes, c.attrs.size,   s,      &c.attrs.owner};
  if (!traced) return d.launch(c.kernel, call, c.full_name());
  if (c.bytes == 0) return tracing::launch(d, c.kernel, call, c.full_name());
  const tracing::Scope scope(TransferKind::copyto, c.caller);
  tracing::host_copy(c.from, c.to, c.bytes,
                     [&] { tracing::launch(d, c.kernel, call, c.full_name()); });
}

void Replay::run_each(Segment& segment, StreamView s, Caller from) {
  for (ReplayCall& call : segment.calls) {
    try {
      run(call, s, true);
    } catch (const Error&) {
      std::rethrow_exception(reworded([&](const std::string& text) {
        return text_of(NamedCalls::in_front(call.full_name(), text), " (in a replay, called at ",
                       from, ")");
      }));
    }
  }
}

void Replay::send_numbers(Context c, StreamView s) {
  for (Numbers& n : numbers_) {
    if (n.context != c || n.sent == n.now) continue;
    device(c).copy(n.memory, c, n.now.data(), cpu(), n.now.size(), s);
    n.sent = n.now;
  }
}

// A call failed after its peers may have started.
void Replay::mark_broken() {
  broken_ = true;
  for (const Segment& segment : segments_) {
    // Kernels of other devices wait for this device's for a while, then store into its memory.
    for (const Segment& other : segments_)
      if (segment.needs_peers && other.needs_peers) mark(segment, current_stream(other.context));
    for (const ReplayCall& call : segment.calls)
      if (call.op && call.op->needs_peers)
        static_cast<const PeerBarrier*>(call.attrs.owner.memory.get())->broken = true;
  }
}

void Replay::replay(Caller from) {
  for (const Number& n : fills_) n.fill(numbers_[n.numbers].now.data() + n.offset);
  const auto all = [&] {
    for (Segment& segment : segments_) enqueue(segment, from);
  };
  if (!needs_peers_) return all();
  if (broken_)
    throw DeviceError(
        "an earlier replay or measurement failed after some devices had begun and before the "
        "others; "
        "compile the function anew");
  const MutexLock lock(barrier_turns());
  try {
    all();
  } catch (...) {
    mark_broken();
    throw;
  }
}

void Replay::mark(const Segment& segment, StreamView s) {
  for (const Use& u : segment.uses) u.write ? u.storage->after_write(s) : u.storage->after_read(s);
}

void Replay::enqueue(Segment& segment, Caller from) {
  Device& d = device(segment.context);
  const StreamView s = segment.crosses ? d.stream(Lane::peer) : current_stream(segment.context, d);
  Timeline* const line = s.id == 0 ? nullptr : &Timeline::of(s);
  if (!segment.crosses)
    for (const Last& l : *last_)
      if (l.context == segment.context && l.line != line) l.line->wait(l.at, s);
  for (const Use& u : segment.uses)
    u.write ? u.storage->before_write(s) : u.storage->before_read(s);
  if (line) line->before_launch();
  // Calls enqueued before an error are in flight.
  FirstFailure failure;
  failure.run([&]() LOCUS_THREAD_SAFETY(no_thread_safety_analysis) {  // replay() has the lock
    if (!segment.crosses) send_numbers(segment.context, s);
    const bool apart = !tracing::off() && (tracing::listening() & tracing::kProfile);
    if (segment.needs_peers) before_barrier(s);
    // With peers the calls do not run apart: the host could block on a full queue behind one.
    if (segment.graph && (!apart || segment.needs_peers))
      segment.graph->replay(s);
    else
      run_each(segment, s, from);
    if (segment.needs_peers) after_barrier(s);
  });
  mark(segment, s);
  if (line && !segment.crosses) {
    std::erase_if(*last_, [&](const Last& l) { return l.context == segment.context; });
    last_->push_back({segment.context, line, line->advance()});
  }
  failure.rethrow();
}

}  // namespace locus
