// When each call of a recording runs, and what it waits for.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <locus/core/compile.h>

namespace examples {

using Calls = std::vector<locus::CompiledCall>;

bool is_copy(const locus::CompiledCall& c);

// Calls that run in order: those of a branch of a context, or copies there from another device.
struct CallRow {
  locus::Context context, from;
  int branch = 0;

  explicit CallRow(const locus::CompiledCall& c);
  bool operator==(const CallRow&) const = default;
  bool copies() const { return !(from == context); }
  // Whether both are of one context, or of copies between the same two.
  bool beside(const CallRow& r) const { return context == r.context && from == r.from; }
};
// Those beside each other stand together, in the order in which the first call of each comes.
std::vector<CallRow> rows_of(const Calls& calls);
size_t row_of(const std::vector<CallRow>& rows, const locus::CompiledCall& c);
// "gpu(0)", "gpu(0), branch 1" or "gpu(0) to gpu(1)".
std::string row_name(const std::vector<CallRow>& rows, size_t i);

// By what each call takes by itself, in microseconds. A row runs in order. A part begins when those
// have ended that it waits for, that are before it on its rows, and that the host computes itself.
struct Schedule {
  std::vector<double> begin;
  std::vector<int> critical;  // the path of calls that the end waits for, in order
  double end = 0;
  double sum = 0;  // of all calls
};
Schedule schedule(const Calls& calls);

// Waits that do not follow from others and from the order of rows: pairs of calls, the earlier
// first.
std::vector<std::pair<int, int>> needed_waits(const Calls& calls);

}  // namespace examples
