// Replay::measured(): runs and times the calls, then restores all memory.
#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <utility>

#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/observe/trace.h>
#include <locus/core/ranks/communicator.h>
#include <locus/core/replay/replay.h>
#include <locus/core/stream.h>

namespace locus {
namespace {

constexpr int kRounds = 5;
// A short call is timed kInARow times at once: events around one take longer.
constexpr double kShort = 100;  // us
constexpr int kInARow = 16;

// Microseconds of `run` on s.
double time_of(Device& d, StreamView s, const auto& run) {
  const double start = tracing::now();
  tracing::Bracket events(d, s);
  run();
  events.finish();
  if (!events.timed()) return (tracing::now() - start) * 1e6;
  events.wait();
  return events.seconds() * 1e6;
}

// Times calls with one PeerBarrier: the last to arrive, which waits for none.
using PeerCalls = std::vector<std::pair<ReplayCall*, CompiledCall*>>;
double time_of(Replay& replay, const PeerCalls& calls) {
  const MutexLock lock(barrier_turns());
  std::deque<tracing::Bracket> events;
  for (const auto& [call, shown] : calls) {
    Device& d = device(call->context);
    const StreamView s = current_stream(call->context, d);
    before_barrier(s);
    tracing::Bracket& around = events.emplace_back(d, s);
    FirstFailure failure;
    failure.run([&, &each = *call] { replay.run(each, s, false); });
    around.finish();
    after_barrier(s);
    failure.rethrow();
  }
  double least = std::numeric_limits<double>::infinity();
  for (const tracing::Bracket& e : events) {
    e.wait();
    least = std::min(least, e.seconds() * 1e6);
  }
  return least;
}

}  // namespace

std::vector<CompiledCall> Replay::measured() {
  const autograd::Pause pause;
  struct SavedMemory {
    Tensor now, before;
    uint64_t version;
  };
  std::vector<SavedMemory> saved;
  for (const auto& [memory, storage] : seen_) {
    if (!writes(*storage)) continue;
    const Tensor now = bytes_of(storage);
    saved.push_back({now, made(*storage) ? now : now.copyto(now.context()), storage->version()});
  }
  wait_all();
  // The replay's own memory, too: a pending backward() reads it, and calls may now compute other
  // values.
  const auto copy = [](Context c, void* to, const void* from, size_t bytes) {
    device(c).copy(to, c, from, c, bytes, current_stream(c));
  };
  std::vector<std::pair<std::span<std::byte>, Tensor>> inside;
  for (const auto& arena : arenas_) {
    for (const std::span<std::byte> b : arena->blocks()) {
      const Meta bytes = make_meta(u8, Shape{static_cast<int64_t>(b.size())});
      inside.emplace_back(b, allocate(arena->context(), bytes));
      copy(arena->context(), inside.back().second.data_ptr(), b.data(), b.size());
    }
  }
  wait_all();
  std::vector<CompiledCall> list = calls();
  std::map<const void*, PeerCalls> barriers;
  size_t number = 0;
  for (Segment& segment : segments_)
    for (ReplayCall& call : segment.calls) {
      CompiledCall& shown = list[number++];
      if (call.op && call.op->needs_peers && !broken_)
        barriers[call.attrs.owner.memory.get()].emplace_back(&call, &shown);
    }
  const auto measure = [&] {
    for (int round = 0; round < kRounds; ++round) {
      for (const auto& [barrier, together] : barriers) {
        double us = 0;
        try {
          us = time_of(*this, together);
        } catch (...) {
          mark_broken();
          throw;
        }
        for (const auto& [call, shown] : together)
          shown->us = round == 0 ? us : std::min(shown->us, us);
      }
      size_t i = 0;
      for (Segment& segment : segments_) {
        Device& d = device(segment.context);
        const StreamView s =
            segment.crosses ? d.stream(Lane::peer) : current_stream(segment.context, d);
        for (ReplayCall& call : segment.calls) {
          if (call.op && call.op->needs_peers) {
            ++i;
            continue;
          }
          const int times = round > 0 && list[i].us < kShort ? kInARow : 1;
          const double us = time_of(d, s, [&] {
            for (int k = 0; k < times; ++k) run(call, s, false);
          });
          list[i].us = round == 0 ? us : std::min(list[i].us, us / times);
          ++i;
        }
        d.synchronize(s);
      }
    }
  };
  // After any failure all memory is restored, once running work has ended.
  FirstFailure failure;
  failure.run(measure);
  failure.run([] { wait_all(); });
  for (const auto& block : inside)
    failure.run([&, &now = block.first, &before = block.second] {
      copy(before.context(), now.data(), before.data_ptr(), now.size());
    });
  for (const SavedMemory& w : saved)
    failure.run([&] {
      w.before.copyto(w.now);
      w.now.impl().storage->restored(w.version);
    });
  failure.run([] { wait_all(); });
  failure.rethrow();
  return list;
}

}  // namespace locus
