// Computes when each call of a recording runs, and what each call waits for.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <locus/core/compile.h>

namespace examples {

using Calls = std::vector<locus::CompiledCall>;

bool is_copy(const locus::CompiledCall& c);

// The calls of one row run in order: a branch of a context, or copies from one device to another.
struct CallRow {
  locus::Context context, from;
  int branch = 0;

  explicit CallRow(const locus::CompiledCall& c);
  bool operator==(const CallRow&) const = default;
  bool copies() const { return !(from == context); }
  // Whether both rows belong to one context, or to copies between the same two devices.
  bool beside(const CallRow& r) const { return context == r.context && from == r.from; }
};
// Rows that are beside() each other are adjacent, by branch. Groups are sorted by first call.
std::vector<CallRow> rows_of(const Calls& calls);
size_t row_of(const std::vector<CallRow>& rows, const locus::CompiledCall& c);
// "gpu(0)", "gpu(0), branch 1" or "gpu(0) to gpu(1)".
std::string row_name(const std::vector<CallRow>& rows, size_t i);

// Times in microseconds, from the time of each call run alone. A segment begins after all segments
// that it waits for, earlier calls on its context's rows, and the host's own segments before it.
struct Schedule {
  std::vector<double> begin;
  std::vector<int> critical;  // the chain of calls that determines `end`, in order
  double end = 0;
  double sum = 0;  // of all calls
};
Schedule schedule(const Calls& calls);

// The waits that do not follow from other waits or from the order of rows: pairs (earlier call,
// later call).
std::vector<std::pair<int, int>> needed_waits(const Calls& calls);

}  // namespace examples
