#include <locus/core/group.h>

#include <map>

#include <locus/core/communicator.h>
#include <locus/core/error.h>
#include <locus/core/mutex.h>
#include <locus/core/text.h>
#include <locus/core/timeline.h>

namespace locus {

struct GroupShared {
  Mutex mutex;
  bool made LOCUS_GUARDED_BY(mutex) = false;
  std::unique_ptr<Communicator> communicator LOCUS_GUARDED_BY(mutex);
};

namespace {

struct Groups {
  Mutex mutex;
  std::map<std::vector<Context>, GroupShared> all
      LOCUS_GUARDED_BY(mutex);  // they stay where they are
};
Groups& groups() {
  static Groups* const all = new Groups;  // never destroyed: devices are not
  return *all;
}

MakeCommunicator makers[kMaxDeviceTypes] = {};

}  // namespace

Group::Group(const Contexts& contexts) {
  const Context first = *contexts.begin();
  for (const Context c : contexts) {
    if (c.type != first.type && !(is_host(c) && is_host(first)))
      throw ContextMismatch("Group: ", first, " and ", c,
                            " are contexts of different kinds; expected all of the host, or all of "
                            "one kind of device");
    static_cast<void>(device(c));
  }
  Groups& known = groups();
  const MutexLock lock(known.mutex);
  auto& [list, shared] = *known.all.try_emplace(contexts.list()).first;
  contexts_ = &list;
  shared_ = &shared;
}

std::string to_string(const Group& g) {
  return "[" + listed(g.contexts(), [](Context c) { return to_string(c); }) + "]";
}

Mutex& meeting_turns() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

namespace {

struct LastMeeting {
  Timeline* line;
  uint64_t at;
};
std::map<Context, LastMeeting>& last_meetings() {
  static auto* const all = new std::map<Context, LastMeeting>;
  return *all;
}

}  // namespace

void before_meeting(StreamView s) {
  const auto last = last_meetings().find(s.context);
  if (last == last_meetings().end() || last->second.line == &Timeline::of(s)) return;
  last->second.line->wait(last->second.at, s);
}

void after_meeting(StreamView s) {
  Timeline& line = Timeline::of(s);
  last_meetings().insert_or_assign(s.context, LastMeeting{&line, line.advance()});
}

void set_communicators(DeviceType type, MakeCommunicator make) {
  makers[static_cast<int>(type)] = make;
}

Communicator* communicator(const Group& g) {
  GroupShared& shared = *g.shared_;
  const MutexLock lock(shared.mutex);
  const MakeCommunicator make = makers[static_cast<int>(g[0].type)];
  if (!shared.made && make && g.size() > 1) shared.communicator = make(g);
  shared.made = true;
  return shared.communicator.get();
}

}  // namespace locus
