// Replay::finish(): dependencies between calls, and segments of calls that are enqueued together.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <locus/core/replay/replay.h>
#include <locus/core/stream.h>

namespace locus {
namespace {

// A call's segment, and its index there.
struct CallIndex {
  size_t segment;
  int number;
};

// The last writer of each memory, and readers since.
class Order {
 public:
  // The calls that a call with these touches waits for.
  std::vector<CallIndex> before(const auto& touches) const {
    std::vector<CallIndex> found;
    for (const auto& t : touches) {
      const auto users = memory_.find(t.memory);
      if (users == memory_.end()) continue;
      const auto& [writer, readers] = users->second;
      if (writer) found.push_back(*writer);
      if (t.write) found.insert(found.end(), readers.begin(), readers.end());
    }
    return found;
  }
  void note(const auto& touches, CallIndex call) {
    for (const auto& t : touches) {
      Users& users = memory_[t.memory];
      if (!t.write) {
        users.readers.push_back(call);
        continue;
      }
      users.writer = call;
      users.readers.clear();
    }
  }

 private:
  struct Users {
    std::optional<CallIndex> writer;
    std::vector<CallIndex> readers;
  };
  std::map<const void*, Users> memory_;
};

void wait_for(const std::vector<CallIndex>& before, size_t segment, ReplayCall& call) {
  for (const CallIndex& p : before)
    if (p.segment == segment)
      call.after.push_back(p.number);
    else
      call.across.emplace_back(p.segment, p.number);
  std::sort(call.after.begin(), call.after.end());
  call.after.erase(std::unique(call.after.begin(), call.after.end()), call.after.end());
}

}  // namespace

// Removes calls with constant results in the replay's memory, such as the ones that start
// backward().
void Replay::take_constants(bool ran) {
  std::map<const void*, int> writers;
  for (const auto& list : touches_)
    for (const Touch& t : list) writers[t.memory] += t.write;
  const auto own_result = [&](const Touch& t) {
    return writers[t.memory] == 1 &&
           std::any_of(arenas_.begin(), arenas_.end(),
                       [&](const auto& arena) { return arena->idle(t.memory); });
  };
  std::set<const void*> constant;
  size_t kept = 0;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const ReplayCall& call = calls_[i];
    const bool once = call.op && !call.op->random && !call.op->in_place &&
                      std::all_of(touches_[i].begin(), touches_[i].end(), [&](const Touch& t) {
                        return t.write ? own_result(t) : constant.contains(t.memory);
                      });
    if (once) {
      for (const Touch& t : touches_[i]) constant.insert(t.memory);
      if (!ran) run(calls_[i], current_stream(call.context), true);
      continue;
    }
    if (kept != i) {
      calls_[kept] = std::move(calls_[i]);
      touches_[kept] = std::move(touches_[i]);
    }
    ++kept;
  }
  calls_.erase(calls_.begin() + static_cast<ptrdiff_t>(kept), calls_.end());
  touches_.resize(kept);
}

// The first segment from index `first` on that takes the call; else a new one.
size_t Replay::segment_for(const ReplayCall& call, size_t first) {
  for (size_t i = first; !call.crosses() && i < segments_.size(); ++i)
    if (segments_[i].context == call.context && !segments_[i].crosses) return i;
  Segment& segment = segments_.emplace_back();
  segment.context = call.context;
  segment.crosses = call.crosses();
  return segments_.size() - 1;
}

void Replay::use(Segment& segment, const Touch& t) {
  const auto seen = seen_.find(t.memory);
  if (seen == seen_.end()) return;
  Storage* const storage = seen->second.get();
  bool& written = used_[storage];
  written = written || t.write;
  const auto use = std::find_if(segment.uses.begin(), segment.uses.end(),
                                [&](const Use& u) { return u.storage == storage; });
  if (use == segment.uses.end())
    segment.uses.push_back({storage, t.write});
  else
    use->write = use->write || t.write;
}

void Replay::finish(bool ran) {
  for (const auto& s : shown_) seen_.emplace(s->data(), s);
  for (const auto& arena : arenas_) arena->seal();
  take_constants(ran);
  for (Last& l : *last_) l.at = l.line->advance();
  Order order;
  std::map<Context, size_t> after_copies;
  size_t after_blocking = 0;  // after all segments whose enqueuing may block
  for (size_t i = 0; i < calls_.size(); ++i) {
    ReplayCall& call = calls_[i];
    const std::vector<CallIndex> before = order.before(touches_[i]);
    // A copy to another device waits for whole segments, so later calls on its source start a new
    // one.
    size_t first = call.crosses() ? 0 : after_copies[call.context];
    for (const CallIndex& p : before) {
      const Segment& segment = segments_[p.segment];
      const bool joins = segment.context == call.context && !segment.crosses && !call.crosses();
      first = std::max(first, p.segment + !joins);
    }
    // A call that needs peers goes after all segments whose enqueuing may block.
    const bool needs_peers = call.op && call.op->needs_peers;
    if (needs_peers) first = std::max(first, after_blocking);
    const size_t at = segment_for(call, first);
    if (call.crosses()) after_copies[call.from] = at + 1;
    if (call.crosses() || is_host(call.context)) after_blocking = std::max(after_blocking, at + 1);
    wait_for(before, at, call);
    Segment& segment = segments_[at];
    order.note(touches_[i], {at, static_cast<int>(segment.calls.size())});
    for (const Touch& t : touches_[i]) use(segment, t);
    segment.needs_peers = segment.needs_peers || needs_peers;
    needs_peers_ = needs_peers_ || needs_peers;
    segment.calls.push_back(std::move(call));
  }
  calls_.clear();
  touches_.clear();
  unwritten_.clear();
  whole_ = true;
  make_graphs();
}

void Replay::make_graphs() {
  for (Segment& segment : segments_) {
    if (!segment.crosses) segment.graph = device(segment.context).make_graph(*this, segment.calls);
    for (ReplayCall& call : segment.calls)
      for (size_t i = 0; i < call.scratch.size(); ++i)
        if (!call.scratch[i].data && call.scratch[i].bytes > 0)
          call.scratch[i] = scratch_for(call, i, call.scratch[i].bytes);
  }
}

}  // namespace locus
