// What a plan consists of, for readers.
#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include <locus/core/autograd.h>
#include <locus/core/communicator.h>
#include <locus/core/compile.h>
#include <locus/core/observe/trace.h>
#include <locus/core/plan.h>
#include <locus/core/stream.h>
#include <locus/core/table.h>
#include <locus/core/text.h>

namespace locus {
namespace {

constexpr int kRounds = 5;
// A short call is timed so many times in a row: the events around one take longer.
constexpr double kShort = 100;  // us
constexpr int kInARow = 16;

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

// Calls that have one Meeting: of the one that came last, which waits for none.
using Together = std::vector<std::pair<PlanCall*, CompiledCall*>>;
double time_of(Plan& plan, const Together& calls) {
  const MutexLock turn(meeting_turns());
  std::deque<trace::Bracket> events;
  for (const auto& [call, shown] : calls) {
    Device& d = device(call->context);
    const StreamView s = current_stream(call->context, d);
    before_meeting(s);
    trace::Bracket& around = events.emplace_back(d, s);
    FirstFailure failure;
    failure.run([&, &each = *call] { plan.run(each, s, false); });
    around.finish();
    after_meeting(s);
    failure.rethrow();
  }
  double least = std::numeric_limits<double>::infinity();
  for (const trace::Bracket& e : events) {
    e.wait();
    least = std::min(least, e.seconds() * 1e6);
  }
  return least;
}

size_t moved(const PlanCall& call) {
  if (!call.op) return 2 * call.bytes;
  size_t sum = 0;
  for (const View& v : call.views) sum += bytes_of(v.meta);
  return sum;
}

std::string operands(const PlanCall& call) {
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

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (const int n : numbers) text += (text.empty() ? "" : " ") + std::to_string(n);
  return text;
}

// The first call of another part.
auto end_of_part(auto begin, auto end) {
  return std::find_if(begin, end, [&](const CompiledCall& c) { return c.part != begin->part; });
}

// "gpu(0): 12 calls as one graph, 2 branches, 1.2 MB moved".
std::string part_text(auto begin, auto end) {
  int branches = 0;
  size_t bytes = 0;
  for (auto c = begin; c != end; ++c) {
    branches = std::max(branches, c->branch + 1);
    bytes += c->bytes;
  }
  return text_of(begin->context, ": ", end - begin, end - begin == 1 ? " call" : " calls",
                 begin->graph ? " as one graph" : "", ", ", branches,
                 branches == 1 ? " branch, " : " branches, ", memory_text(bytes), " moved\n");
}

}  // namespace

std::vector<CompiledCall> Plan::calls() const {
  std::vector<CompiledCall> list;
  std::vector<int> first;  // call of each part
  for (const Part& part : versions_[0]) {
    first.push_back(static_cast<int>(list.size()));
    for (const PlanCall& call : part.calls) {
      std::set<int> after;
      for (const int n : call.after) after.insert(first.back() + n);
      for (const auto& [p, n] : call.across) after.insert(first[p] + n);
      list.push_back({.op = call.name(),
                      .context = part.context,
                      .from = call.op ? part.context : call.from,
                      .to = call.op ? part.context : call.to,
                      .operands = operands(call),
                      .bytes = moved(call),
                      .after = {after.begin(), after.end()},
                      .part = static_cast<int>(first.size()) - 1,
                      .branch = call.branch,
                      .graph = part.graph != nullptr});
    }
  }
  return list;
}

std::vector<CompiledCall> Plan::measured() {
  const autograd::Pause pause;
  struct Written {
    Tensor now, before;
    uint64_t version;
  };
  std::vector<Written> saved;
  std::set<const Storage*> written;
  for (const Part& part : versions_[0])
    for (const Use& u : part.uses)
      if (u.write) written.insert(u.storage);
  for (const auto& [memory, storage] : seen_) {
    if (!written.contains(storage.get())) continue;
    const Tensor now = bytes_of(storage);
    saved.push_back({now, made(*storage) ? now : now.copyto(now.context()), storage->version()});
  }
  wait_all();
  // Its own memory as well: what a backward() that is to come reads may not be what would be made
  // now.
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
  std::map<const void*, Together> meetings;
  size_t number = 0;
  for (Part& part : versions_[0])
    for (PlanCall& call : part.calls) {
      CompiledCall& shown = list[number++];
      if (call.op && call.op->meets && !broken_)
        meetings[call.attrs.owner.memory.get()].emplace_back(&call, &shown);
    }
  const auto measure = [&] {
    for (int round = 0; round < kRounds; ++round) {
      for (const auto& [meeting, together] : meetings) {
        double us = 0;
        try {
          us = time_of(*this, together);
        } catch (...) {
          break_off(versions_[0]);
          throw;
        }
        for (const auto& [call, shown] : together)
          shown->us = round == 0 ? us : std::min(shown->us, us);
      }
      size_t i = 0;
      for (Part& part : versions_[0]) {
        Device& d = device(part.context);
        const StreamView s = part.crosses ? d.stream(Lane::peer) : current_stream(part.context, d);
        for (PlanCall& call : part.calls) {
          if (call.op && call.op->meets) {
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
  // Whatever failed, all is restored, and nothing that had begun stores into it behind that.
  FirstFailure failure;
  failure.run(measure);
  failure.run([] { wait_all(); });
  for (const auto& block : inside)
    failure.run([&, &now = block.first, &before = block.second] {
      copy(before.context(), now.data(), before.data_ptr(), now.size());
    });
  for (const Written& w : saved)
    failure.run([&] {
      w.before.copyto(w.now);
      w.now.impl().storage->restored(w.version);
    });
  failure.run([] { wait_all(); });
  failure.rethrow();
  return list;
}

std::string Plan::describe() {
  const std::vector<CompiledCall> list = measured();
  std::vector<std::vector<std::string>> rows{
      {"", "context", "branch", "call", "us", "moves", "after", "operands"}};
  std::string text;
  double sum = 0;
  for (auto begin = list.begin(); begin != list.end();) {
    const auto end = end_of_part(begin, list.end());
    text += part_text(begin, end);
    for (; begin != end; ++begin) {
      const CompiledCall& c = *begin;
      rows.push_back({std::to_string(rows.size() - 1), to_string(c.context),
                      std::to_string(c.branch), c.op, formatted("%.1f", c.us), memory_text(c.bytes),
                      joined(c.after), c.operands});
      sum += c.us;
    }
  }
  size_t own = 0;
  for (const auto& arena : arenas_) own += arena->bytes();
  text += text_of("memory of its own: ", memory_text(own), "; call by call ",
                  formatted("%.1f", sum), " us\n\n");
  for (const std::string& line : table_lines(rows, "rlrlrrll")) text += line + "\n";
  return text;
}

std::string Plan::dot() const {
  const std::vector<CompiledCall> list = calls();
  std::string nodes, edges;
  size_t number = 0;
  for (auto begin = list.begin(); begin != list.end();) {
    const auto end = end_of_part(begin, list.end());
    nodes +=
        text_of("  subgraph cluster_", begin->part, " {\n    label=\"", begin->context, "\";\n");
    for (; begin != end; ++begin, ++number) {
      nodes += text_of("    n", number, " [label=\"", begin->op, "\\n", begin->operands, "\"];\n");
      for (const int before : begin->after) edges += text_of("  n", before, " -> n", number, ";\n");
    }
    nodes += "  }\n";
  }
  return "digraph plan {\n  node [shape=box, fontname=\"sans-serif\"];\n" + nodes + edges + "}\n";
}

}  // namespace locus
