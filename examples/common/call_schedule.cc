#include "common/call_schedule.h"

#include <algorithm>

#include <fmt/format.h>

namespace examples {

using namespace locus;

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

}  // namespace

bool is_copy(const CompiledCall& c) { return !(c.from == c.to); }

CallRow::CallRow(const CompiledCall& c)
    : context(c.context),
      from(is_copy(c) && !is_host(c.from) && !is_host(c.to) ? c.from : c.context),
      branch(c.branch) {}

std::vector<CallRow> rows_of(const Calls& calls) {
  std::vector<CallRow> rows;
  for (const CompiledCall& c : calls) {
    const CallRow row(c);
    if (std::find(rows.begin(), rows.end(), row) != rows.end()) continue;
    const auto last = std::find_if(rows.rbegin(), rows.rend(), [&](const CallRow& r) {
      return r.beside(row) && r.branch < row.branch;
    });
    const auto first =
        std::find_if(rows.begin(), rows.end(), [&](const CallRow& r) { return r.beside(row); });
    rows.insert(last == rows.rend() ? first : last.base(), row);
  }
  return rows;
}

size_t row_of(const std::vector<CallRow>& rows, const CompiledCall& c) {
  return static_cast<size_t>(std::find(rows.begin(), rows.end(), CallRow(c)) - rows.begin());
}

std::string row_name(const std::vector<CallRow>& rows, size_t i) {
  const CallRow& r = rows[i];
  if (r.copies()) return to_string(r.from) + " to " + to_string(r.context);
  const auto branches = std::count_if(rows.begin(), rows.end(),
                                      [&](const CallRow& other) { return other.beside(r); });
  return to_string(r.context) + (branches > 1 ? fmt::format(", branch {}", r.branch) : "");
}

Schedule schedule(const Calls& calls) {
  struct Moment {
    double us = 0;
    int by = -1;  // the call that ends at this time
    void wait_for(const Moment& other) {
      if (other.us > us) *this = other;
    }
  };
  Schedule s;
  const std::vector<CallRow> rows = rows_of(calls);
  std::vector<Moment> row_end(rows.size()), end, part_end;
  std::vector<int> before;
  Moment host, last;
  for (size_t first = 0; first < calls.size();) {
    size_t behind = first;
    while (behind < calls.size() && calls[behind].segment == calls[first].segment) ++behind;
    Moment start = host;
    for (size_t i = first; i < behind; ++i)
      for (const int n : calls[i].after)
        if (at(n) < first) start.wait_for(part_end[at(calls[at(n)].segment)]);
    for (size_t r = 0; r < rows.size(); ++r)
      if (rows[r].beside(CallRow(calls[first]))) start.wait_for(row_end[r]);
    Moment part = start;
    for (size_t i = first; i < behind; ++i) {
      Moment begin = start;
      for (const int n : calls[i].after)
        if (at(n) >= first) begin.wait_for(end[at(n)]);
      Moment& row = row_end[row_of(rows, calls[i])];
      begin.wait_for(row);
      s.begin.push_back(begin.us);
      before.push_back(begin.by);
      s.sum += calls[i].us;
      end.push_back(row = {begin.us + calls[i].us, static_cast<int>(i)});
      part.wait_for(row);
    }
    part_end.push_back(part);
    if (is_host(calls[first].context)) host = part;
    last.wait_for(part);
    first = behind;
  }
  s.end = last.us;
  for (int i = last.by; i >= 0; i = before[at(i)]) s.critical.push_back(i);
  std::reverse(s.critical.begin(), s.critical.end());
  return s;
}

std::vector<std::pair<int, int>> needed_waits(const Calls& calls) {
  const std::vector<CallRow> rows = rows_of(calls);
  // comes[i][j]: call j precedes call i
  std::vector<std::vector<bool>> comes(calls.size(), std::vector<bool>(calls.size()));
  std::vector<int> last(rows.size(), -1);
  std::vector<std::pair<int, int>> waits;
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto add = [&](int n) {
      comes[i][at(n)] = true;
      for (size_t k = 0; k < at(n); ++k)
        if (comes[at(n)][k]) comes[i][k] = true;
    };
    int& previous = last[row_of(rows, calls[i])];
    if (previous >= 0) add(previous);
    previous = static_cast<int>(i);
    // Latest first: predecessors of an added call need no arrow.
    std::vector<int> after = calls[i].after;
    std::sort(after.rbegin(), after.rend());
    for (const int n : after) {
      if (comes[i][at(n)]) continue;
      waits.emplace_back(n, static_cast<int>(i));
      add(n);
    }
  }
  return waits;
}

}  // namespace examples
