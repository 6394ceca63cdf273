#include <locus/core/ranks/communicator.h>

#include <map>
#include <vector>

#include <locus/core/memory/timeline.h>

namespace locus {
namespace {

MakeCommunicator makers[kMaxDeviceTypes] = {};

struct LastBarrier {
  Timeline* line;
  uint64_t at;
};
std::map<Context, LastBarrier>& last_barriers() LOCUS_REQUIRES(barrier_turns()) {
  static auto* const all = new std::map<Context, LastBarrier>;
  return *all;
}

}  // namespace

Mutex& barrier_turns() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

void before_barrier(StreamView s) {
  const auto last = last_barriers().find(s.context);
  if (last == last_barriers().end() || last->second.line == &Timeline::of(s)) return;
  last->second.line->wait(last->second.at, s);
}

void after_barrier(StreamView s) {
  Timeline& line = Timeline::of(s);
  last_barriers().insert_or_assign(s.context, LastBarrier{&line, line.advance()});
}

void set_communicators(DeviceType type, MakeCommunicator make) {
  makers[static_cast<int>(type)] = make;
}

Communicator* communicator(const Group& g) {
  const MakeCommunicator make = makers[static_cast<int>(g[0].type)];
  if (!make || g.size() < 2) return nullptr;
  struct Communicators {
    Mutex mutex;
    std::map<const std::vector<Context>*, std::unique_ptr<Communicator>> all
        LOCUS_GUARDED_BY(mutex);
  };
  static Communicators* const known = new Communicators;  // never destroyed: devices are not
  const MutexLock lock(known->mutex);
  const auto [at, added] = known->all.try_emplace(&g.contexts());
  if (added) at->second = make(g);
  return at->second.get();
}

}  // namespace locus
