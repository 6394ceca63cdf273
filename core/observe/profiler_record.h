// Data of the profiler while it records. Internal to core.
#pragma once

#include <iosfwd>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/observe/trace.h>

namespace locus::profiler {

// One bar of the timeline.
struct Bar {
  enum class Kind : uint8_t { op, copy, wait, range };
  Kind kind = Kind::op;
  const char* name = "";                          // of an op or range; of a wait, its call
  std::vector<Meta> in = {}, out = {};            // of an op
  Context from = {}, to = {};                     // of a copy; `from` of a wait
  size_t bytes = 0;                               // of a copy
  Caller caller = {};                             // of a copy or a wait
  uint32_t mirror = 0;                            // of a copy: its row in the other context
  double start = 0, end = 0;                      // seconds on the host's clock
  std::shared_ptr<tracing::Bracket> events = {};  // until they give start and end
};

// A stream of a device (its id), or a thread of the host (its number).
struct RowId {
  Context context;
  uint32_t id = 0;
  friend auto operator<=>(const RowId&, const RowId&) = default;
};
// Copies are also shown in their other context, in a row for each stream or thread that runs them.
inline constexpr uint32_t kMirrorOfStream = 1u << 30, kMirrorOfThread = 1u << 29;

struct Row {
  std::vector<Bar> bars;
  size_t resolved = 0;  // bars whose times are known
  std::shared_ptr<tracing::Bracket> last;
  double last_end = 0;
};

struct MemorySample {
  Context context;
  double time = 0;
  size_t in_use = 0, reserved = 0;
};

struct Profile {
  double start = 0;
  std::set<std::string> range_names = {};
  std::map<RowId, Row> rows;
  std::vector<MemorySample> memory;
};

// A range of this thread, from `start` until now. No effect if no trace is being recorded.
void add_range(const std::string& name, double start);

void write_trace(std::ostream& os, const Profile& profile);

}  // namespace locus::profiler
