// Text about a replay.
#include <algorithm>
#include <set>
#include <utility>

#include <locus/core/base/table.h>
#include <locus/core/base/text.h>
#include <locus/core/compile.h>
#include <locus/core/replay/replay.h>

namespace locus {
namespace {

size_t moved(const ReplayCall& call) {
  if (!call.op) return 2 * call.bytes;
  size_t sum = 0;
  for (const View& v : call.views) sum += bytes_of(v.meta);
  return sum;
}

// "f32(2,3)x2 f32(3,)": the types of views, with equal neighbours counted.
std::string types(const std::vector<View>& views, size_t begin, size_t end) {
  constexpr int kMost = 16;
  std::string text;
  int shown = 0;
  for (size_t i = begin; i < end; ++shown) {
    const std::string type = text_of(name(views[i].meta.dtype), Shape(views[i].meta));
    size_t same = i;
    while (same < end && type == text_of(name(views[same].meta.dtype), Shape(views[same].meta)))
      ++same;
    if (shown == kMost) return text + text_of(" and ", end - i, " more");
    text += (i == begin ? "" : " ") + type + (same - i > 1 ? text_of("x", same - i) : "");
    i = same;
  }
  return text;
}

std::string operands(const ReplayCall& call) {
  if (!call.op) return text_of(call.from, " to ", call.to);
  const auto n_in = static_cast<size_t>(call.n_in);
  const std::string reads = types(call.views, 0, n_in);
  if (n_in == call.views.size()) return reads;
  return reads + " > " + types(call.views, n_in, call.views.size());
}

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (const int n : numbers) text += (text.empty() ? "" : " ") + std::to_string(n);
  return text;
}

// The end of the segment at `begin`.
auto end_of_segment(auto begin, auto end) {
  return std::find_if(begin, end,
                      [&](const CompiledCall& c) { return c.segment != begin->segment; });
}

// "gpu(0): 12 calls as one graph, 2 branches, 1.2 MB moved".
std::string segment_text(auto begin, auto end) {
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

std::vector<CompiledCall> Replay::calls() const {
  std::vector<CompiledCall> list;
  std::vector<int> first;  // index of each segment's first call
  for (const Segment& segment : segments_) {
    first.push_back(static_cast<int>(list.size()));
    for (const ReplayCall& call : segment.calls) {
      std::set<int> after;
      for (const int n : call.after) after.insert(first.back() + n);
      for (const auto& [p, n] : call.across) after.insert(first[p] + n);
      list.push_back({.op = call.name(),
                      .context = segment.context,
                      .from = call.op ? segment.context : call.from,
                      .to = call.op ? segment.context : call.to,
                      .operands = operands(call),
                      .bytes = moved(call),
                      .after = {after.begin(), after.end()},
                      .segment = static_cast<int>(first.size()) - 1,
                      .branch = call.branch,
                      .graph = segment.graph != nullptr});
    }
  }
  return list;
}

std::string Replay::describe() {
  const std::vector<CompiledCall> list = measured();
  std::vector<std::vector<std::string>> rows{
      {"", "context", "branch", "call", "µs", "moves", "after", "operands"}};
  std::string text;
  double sum = 0;
  for (auto begin = list.begin(); begin != list.end();) {
    const auto end = end_of_segment(begin, list.end());
    text += segment_text(begin, end);
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
  text += text_of("arena memory: ", memory_text(own), "; call by call ", formatted("%.1f", sum),
                  " µs\n\n");
  for (const std::string& line : table_lines(rows, "rlrlrrll")) text += line + "\n";
  return text;
}

std::string Replay::dot() const {
  const std::vector<CompiledCall> list = calls();
  std::string nodes, edges;
  size_t number = 0;
  for (auto begin = list.begin(); begin != list.end();) {
    const auto end = end_of_segment(begin, list.end());
    nodes +=
        text_of("  subgraph cluster_", begin->segment, " {\n    label=\"", begin->context, "\";\n");
    for (; begin != end; ++begin, ++number) {
      nodes += text_of("    n", number, " [label=\"", begin->op, "\\n", begin->operands, "\"];\n");
      for (const int before : begin->after) edges += text_of("  n", before, " -> n", number, ";\n");
    }
    nodes += "  }\n";
  }
  return "digraph replay {\n  node [shape=box, fontname=\"sans-serif\"];\n" + nodes + edges + "}\n";
}

}  // namespace locus
