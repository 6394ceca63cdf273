// What a plan consists of, for readers.
#include <algorithm>
#include <chrono>
#include <set>

#include <locus/core/autograd.h>
#include <locus/core/observe/trace.h>
#include <locus/core/plan.h>
#include <locus/core/stream.h>
#include <locus/core/table.h>
#include <locus/core/text.h>

namespace locus {
namespace {

constexpr int kRounds = 5;

// Microseconds of `run` on s.
double time_of(Device& d, StreamView s, const auto& run) {
  const double start = trace::now();
  trace::Bracket events(d, s);
  run();
  events.finish();
  if (!events.timed()) return (trace::now() - start) * 1e6;
  events.wait();
  return events.seconds() * 1e6;
}

size_t moved(const PlanCall& call) {
  if (!call.op) return 2 * call.bytes;
  size_t sum = 0;
  for (const View& v : call.views) sum += bytes_of(v.meta);
  return sum;
}

std::string shapes(const PlanCall& call) {
  constexpr size_t kMost = 8;
  if (!call.op) return text_of(call.from, " to ", call.to);
  std::string text;
  for (size_t i = 0; i < call.views.size(); ++i) {
    if (i == kMost) return text + text_of(" and ", call.views.size() - kMost, " more");
    if (static_cast<int>(i) == call.n_in) text += " > ";
    const Meta& m = call.views[i].meta;
    text += text_of(i == 0 || static_cast<int>(i) == call.n_in ? "" : " ", name(m.dtype), Shape(m));
  }
  return text;
}

std::string joined(const std::vector<int>& numbers, size_t first) {
  std::string text;
  for (const int n : numbers)
    text += (text.empty() ? "" : " ") + std::to_string(static_cast<size_t>(n) + first);
  return text;
}

}  // namespace

std::vector<double> Plan::measure() {
  const autograd::Pause pause;
  std::vector<std::pair<Tensor, Tensor>> saved;
  std::set<const Storage*> written;
  for (const Part& part : versions_[0])
    for (const Use& u : part.uses)
      if (u.write) written.insert(u.storage);
  for (const auto& [memory, storage] : seen_) {
    if (!written.contains(storage.get())) continue;
    const Tensor now = bytes_of(storage);
    saved.emplace_back(now, now.copyto(now.context()));
  }
  wait_all();
  const auto restore = [&] {
    for (const auto& [now, before] : saved) before.copyto(now);
  };
  std::vector<double> least;
  try {
    for (int round = 0; round < kRounds; ++round) {
      size_t i = 0;
      for (Part& part : versions_[0]) {
        Device& d = device(part.context);
        const StreamView s = part.crosses ? d.stream(Lane::peer) : current_stream(part.context, d);
        for (PlanCall& call : part.calls) {
          const double us = time_of(d, s, [&] { run(call, s, false); });
          if (round == 0) least.push_back(us);
          least[i] = std::min(least[i], us);
          ++i;
        }
        d.synchronize(s);
      }
    }
  } catch (...) {
    restore();
    throw;
  }
  restore();
  return least;
}

std::string Plan::describe() {
  const std::vector<double> us = measure();
  std::vector<std::vector<std::string>> rows{
      {"", "context", "branch", "call", "us", "moves", "after", "operands"}};
  std::string text;
  size_t number = 0;
  double sum = 0;
  for (const Part& part : versions_[0]) {
    int branches = 0;
    size_t bytes = 0;
    const size_t first = number;
    for (const PlanCall& call : part.calls) {
      branches = std::max(branches, call.branch + 1);
      bytes += moved(call);
      sum += us[number];
      rows.push_back({std::to_string(number), to_string(part.context), std::to_string(call.branch),
                      call.name(), formatted("%.1f", us[number]), memory_text(moved(call)),
                      joined(call.after, first), shapes(call)});
      ++number;
    }
    text +=
        text_of(part.context, ": ", part.calls.size(), part.calls.size() == 1 ? " call" : " calls",
                part.graph ? " as one graph" : "", ", ", branches,
                branches == 1 ? " branch, " : " branches, ", memory_text(bytes), " moved\n");
  }
  size_t own = 0;
  for (const auto& arena : arenas_) own += arena->bytes();
  text += text_of("memory of its own: ", memory_text(own), "; call by call ",
                  formatted("%.1f", sum), " us\n\n");
  for (const std::string& line : table_lines(rows, "rlrlrrll")) text += line + "\n";
  return text;
}

std::string Plan::dot() const {
  std::string text = "digraph plan {\n  node [shape=box, fontname=\"sans-serif\"];\n";
  size_t number = 0;
  for (size_t p = 0; p < versions_[0].size(); ++p) {
    const Part& part = versions_[0][p];
    const size_t first = number;
    text += text_of("  subgraph cluster_", p, " {\n    label=\"", part.context, "\";\n");
    for (const PlanCall& call : part.calls)
      text += text_of("    n", number++, " [label=\"", call.name(), "\\n", shapes(call), "\"];\n");
    text += "  }\n";
    for (size_t i = 0; i < part.calls.size(); ++i)
      for (const int before : part.calls[i].after)
        text += text_of("  n", first + static_cast<size_t>(before), " -> n", first + i, ";\n");
    if (p > 0 && first > 0) text += text_of("  n", first - 1, " -> n", first, " [style=dashed];\n");
  }
  return text + "}\n";
}

}  // namespace locus
