#include <locus/core/observe/red_zones.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/base/at_line.h>
#include <locus/core/base/mutex.h>
#include <locus/core/memory/recording_home.h>
#include <locus/core/memory/unload.h>
#include <locus/core/memory_tools.h>
#include <locus/core/observe/memory_events.h>

namespace locus {
namespace red_zones {
namespace {

constexpr std::byte kPattern{0xFB};
constexpr size_t kLeast = 512, kMost = 4096;  // bytes of a zone
constexpr size_t kMostTexts = 20;             // in one error

// What is known of a block in use.
struct Used {
  MemoryEvent asked;  // bytes, op, scope, line
  StreamView stream;
  size_t zone = 0;
  uint64_t serial = 0;
  bool reported = false;
  bool read = false;  // check() enqueues copies of the zones
};

// Copies of both zones on their way to the host.
struct Copies {
  Used of;
  std::byte* zones;
  EventView arrived;
  bool freed;
};

using Key = std::pair<Context, const void*>;

struct State {
  // Notes damage.
  void inspect(Used& of, const std::byte* before, const std::byte* after, bool freed)
      LOCUS_REQUIRES(mutex);
  void inspect(Copies& c) LOCUS_REQUIRES(mutex);
  void inspect_here(Used& of, bool freed) LOCUS_REQUIRES(mutex);  // on the host

  Mutex mutex;
  std::condition_variable read;  // Used::read became false
  std::map<Key, Used> used LOCUS_GUARDED_BY(mutex);
  std::deque<Copies> copies LOCUS_GUARDED_BY(mutex);
  std::vector<std::string> damage LOCUS_GUARDED_BY(mutex);
  uint64_t serial LOCUS_GUARDED_BY(mutex) = 0;
};

// Never destroyed: tensors in statics may live longer.
State& state() {
  static State& s = *new State;
  return s;
}

// While it lives, this thread's blocks have no zones.
class WithoutZones : NonCopyable {
 public:
  WithoutZones() : outer_(std::exchange(on, true)) {}
  ~WithoutZones() { on = outer_; }
  static inline constinit thread_local bool on = false;

 private:
  const bool outer_;
};

// "4 wrong bytes after its end, the first at offset 12"; "" if there are none.
std::string wrong_bytes(const std::byte* zone, size_t bytes, int64_t offset, const char* side) {
  const std::byte* const end = zone + bytes;
  const std::byte* const first = std::find_if(zone, end, [](std::byte b) { return b != kPattern; });
  if (first == end) return "";
  const auto n = std::count_if(first, end, [](std::byte b) { return b != kPattern; });
  return text_of(n, n == 1 ? " wrong byte " : " wrong bytes ", side, ", the first at offset ",
                 offset + (first - zone));
}

void State::inspect(Used& of, const std::byte* before, const std::byte* after, bool freed) {
  if (of.reported) return;
  const MemoryEvent& e = of.asked;
  const std::string low =
      wrong_bytes(before, of.zone, -static_cast<int64_t>(of.zone), "before its start");
  const std::string high =
      wrong_bytes(after, of.zone, static_cast<int64_t>(e.bytes), "after its end");
  if (low.empty() && high.empty()) return;
  of.reported = true;
  if (const auto at = used.find({e.context, e.data});
      at != used.end() && at->second.serial == of.serial)
    at->second.reported = true;
  damage.push_back(text_of(
      "a block of ", e.bytes, " bytes on ", e.context, *e.op ? text_of(", for ", e.op) : "", " at ",
      to_string(e.caller), *e.scope ? text_of(", in scope ", e.scope) : "", ": ", low,
      low.empty() || high.empty() ? "" : "; ", high, freed ? "; found when it was freed" : ""));
}

void State::inspect(Copies& c) { inspect(c.of, c.zones, c.zones + c.of.zone, c.freed); }

void State::inspect_here(Used& of, bool freed) {
  auto* const data = static_cast<const std::byte*>(of.asked.data);
  inspect(of, data - of.zone, data + of.asked.bytes, freed);
}

void release(const Copies& c) {
  const WithoutZones here;
  memory_pool(cpu_pinned()).deallocate(c.zones, 2 * c.of.zone, {cpu_pinned()});
  device(c.arrived.context).release(c.arrived);
}

// An event of a device that failed never fires; its error surfaces at synchronize().
bool has_arrived(const Copies& c) {
  try {
    return device(c.arrived.context).done(c.arrived);
  } catch (...) {
    return true;
  }
}

// Looks at copies that have arrived, oldest first.
void poll() {
  State& s = state();
  std::vector<Copies> done;
  {
    const MutexLock lock(s.mutex);
    while (!s.copies.empty() && has_arrived(s.copies.front())) {
      Copies& c = done.emplace_back(std::move(s.copies.front()));
      s.copies.pop_front();
      s.inspect(c);
    }
  }
  for (const Copies& c : done) release(c);
}

// Later work on the stream comes after the event. If nothing can be enqueued there, the host waits.
void wait_for(StreamView stream, Context c, EventView e) {
  if (stream.id != 0 && !is_recording_home(stream)) try {
      return device(c).wait(stream, e);
    } catch (const DeviceError&) {  // the stream is closed
    }
  device(e.context).wait_host(e);
}

Copies copy_zones(const Used& of, StreamView stream, bool freed) {
  const WithoutZones here;
  const MemoryEvent& e = of.asked;
  Device& d = device(e.context);
  auto* const data = static_cast<const std::byte*>(e.data);
  MemoryPool& pinned = memory_pool(cpu_pinned());
  auto* const zones = static_cast<std::byte*>(pinned.allocate(2 * of.zone, {cpu_pinned()}));
  // If no copy is enqueued, the zones count as whole.
  std::fill_n(zones, 2 * of.zone, kPattern);
  try {
    d.copy(zones, cpu_pinned(), data - of.zone, e.context, of.zone, stream);
    d.copy(zones + of.zone, cpu_pinned(), data + e.bytes, e.context, of.zone, stream);
    return {of, zones, d.record(stream), freed};
  } catch (...) {
    pinned.deallocate(zones, 2 * of.zone, {cpu_pinned()});
    throw;
  }
}

// Enqueues copies of the zones on the block's stream. If this is impossible, the host waits for
// copies on a lane: the stream has no work then.
void send(const Used& of, bool freed) {
  Device& d = device(of.asked.context);
  const auto on_lane = [&] {
    const Copies c = copy_zones(of, d.stream(Lane::to_host), freed);
    FirstFailure ignored;  // surfaces at synchronize()
    ignored.run([&] { d.wait_host(c.arrived); });
    return c;
  };
  const auto sent = [&] {
    if (is_recording_home(of.stream)) return on_lane();
    try {
      return copy_zones(of, of.stream, freed);
    } catch (const DeviceError&) {  // the stream is closed
      return on_lane();
    }
  };
  const Copies c = sent();
  State& s = state();
  const MutexLock lock(s.mutex);
  s.copies.push_back(c);
}

// Checks live blocks. Only those on the host unless `devices`.
void check_live(bool devices) {
  State& s = state();
  std::vector<Key> others;
  {
    const MutexLock lock(s.mutex);
    for (auto& [key, of] : s.used) {
      if (of.stream.id == 0)
        s.inspect_here(of, false);
      else if (devices)
        others.push_back(key);
    }
  }
  for (const Key& key : others) {
    Used of;
    {
      const MutexLock lock(s.mutex);
      const auto at = s.used.find(key);
      if (at == s.used.end() || at->second.reported || at->second.read) continue;
      at->second.read = true;
      of = at->second;
    }
    FirstFailure ignored;  // of a device that failed
    ignored.run([&] { send(of, false); });
    const MutexLock lock(s.mutex);
    s.used.at(key).read = false;  // close() waits until then
    s.read.notify_all();
  }
}

// Waits for all copies, and looks at them.
void finish_copies() {
  State& s = state();
  std::deque<Copies> all;
  {
    const MutexLock lock(s.mutex);
    all.swap(s.copies);
  }
  for (Copies& c : all) {
    FirstFailure ignored;
    ignored.run([&] { device(c.arrived.context).wait_host(c.arrived); });
    {
      const MutexLock lock(s.mutex);
      s.inspect(c);
    }
    release(c);
  }
}

// The text of all damage that was found and not reported yet; "" if there is none.
std::string take_damage() {
  State& s = state();
  std::vector<std::string> found;
  {
    const MutexLock lock(s.mutex);
    found.swap(s.damage);
  }
  if (found.empty()) return "";
  const size_t n = found.size();
  std::string text =
      text_of("LOCUS_MEMORY=redzones: memory outside of ", n, n == 1 ? " block" : " blocks",
              " was written; expected that kernels and copies stay inside their "
              "tensors:");
  for (size_t i = 0; i < std::min(n, kMostTexts); ++i) text += "\n  " + found[i];
  if (n > kMostTexts) text += text_of("\n  and ", n - kMostTexts, " more");
  return text;
}

}  // namespace

size_t zone(size_t rounding) {
  if (!memory_events::red_zones() || WithoutZones::on) return 0;
  return std::max(kLeast, rounding);
}

void* open(void* block, size_t bytes, size_t zone, StreamView stream, Context c) {
  poll();
  auto* const low = static_cast<std::byte*>(block);
  std::byte* const data = low + zone;
  std::byte* const high = data + bytes;
  if (stream.id == 0) {
    std::fill_n(low, zone, kPattern);
    std::fill_n(high, zone, kPattern);
  } else {
    static const auto& pattern = *new std::vector<std::byte>(kMost, kPattern);
    Device& d = device(c);
    const StreamView on = is_recording_home(stream) ? d.stream(Lane::to_device) : stream;
    d.copy(low, c, pattern.data(), cpu(0), zone, on);
    d.copy(high, c, pattern.data(), cpu(0), zone, on);
    if (on.id != stream.id) {
      const EventView filled = d.record(on);
      d.wait_host(filled);
      d.release(filled);
    }
  }
  State& s = state();
  const MutexLock lock(s.mutex);
  s.used[{c, data}] = {memory_events::described({.context = c, .bytes = bytes, .data = data}),
                       stream, zone, ++s.serial};
  return data;
}

Block close(void* data, size_t bytes, StreamView stream, Context c,
            std::span<const EventView>& pending) noexcept {
  if (WithoutZones::on || !memory_events::red_zones()) return {data, bytes};
  State& s = state();
  Used of;
  {
    MutexLock lock(s.mutex);
    const auto at = s.used.find({c, data});
    if (at == s.used.end()) return {data, bytes};
    while (at->second.read) lock.wait(s.read);
    of = at->second;
    s.used.erase(at);
  }
  of.stream = stream;
  FirstFailure ignored;  // of a device that failed; surfaces at synchronize()
  for (const EventView& e : std::exchange(pending, {})) {
    ignored.run([&] { wait_for(stream, c, e); });
    device(e.context).release(e);
  }
  ignored.run([&] {
    if (stream.id != 0) {
      if (!of.reported) send(of, true);
      poll();
      return;
    }
    const MutexLock lock(s.mutex);
    s.inspect_here(of, true);
  });
  return {static_cast<std::byte*>(data) - of.zone, bytes + 2 * of.zone};
}

void check(Caller from) {
  check_live(true);
  finish_copies();
  if (const std::string text = take_damage(); !text.empty())
    throw MemoryError(with_line(text, from));
}

void check_at_exit() noexcept {
  FirstFailure ignored;  // in a child of fork() no device runs
  ignored.run([&] {
    check_live(!devices_unload);
    if (!devices_unload) finish_copies();
    if (const std::string text = take_damage(); !text.empty())
      std::fprintf(stderr, "%s\n", text.c_str());
  });
}

}  // namespace red_zones

void check_red_zones(Caller from) {
  memory_events::read_environment();
  if (!memory_events::red_zones())
    throw Error(
        with_line("check_red_zones: the blocks have no red zones; run the program with "
                  "LOCUS_MEMORY=redzones",
                  from));
  wait_all(from);
}

}  // namespace locus
