#include <algorithm>

#include <fmt/format.h>

#include "common/measure.h"
#include "common/svg.h"
#include "placement/report.h"

namespace svg = examples::svg;
using namespace locus;

namespace placement {
namespace {

constexpr const char* kCompute = svg::kBlue;
constexpr const char* kMove = svg::kAmber;
constexpr const char* kCompiled = "#16a34a";
constexpr double kWidth = 960, kLeft = 64, kStart = 300, kEnd = 820, kRow = 24;
constexpr size_t kRows = 16;

double seconds(double ms) { return ms / 1000; }
double parts_ms(const Trial& r) { return r.compute_ms() + r.move_ms(); }

const char* color_of(const std::vector<Memory>& contexts, Context c) {
  size_t i = 0;
  while (i < contexts.size() && contexts[i].context != c) ++i;
  return svg::palette(i);
}

// A part of the page and its height.
using Piece = std::pair<std::string, double>;

// The legend of colors. The entries for bars are above the bars, on a second line if there are many
// contexts.
Piece legend(const std::vector<Memory>& contexts, double top) {
  std::string s;
  double x = kLeft, y = top;
  for (const Memory& m : contexts) {
    const std::string name = to_string(m.context);
    s += svg::key(x, y, name, color_of(contexts, m.context));
    x += svg::key_width(name);
  }
  const bool second_line = x > 340;
  if (second_line) y += 24;
  x = second_line ? kStart : std::max(x, kStart);
  for (const auto& [name, color] : {std::pair{"compute", kCompute}, {"moves", kMove}}) {
    s += svg::key(x, y, name, color);
    x += svg::key_width(name);
  }
  s += svg::line(x + 2, y - 12, x + 2, y + 4, svg::kInk, 2.5);
  s += svg::text(x + 14, y, "whole step and its spread", {.color = svg::kMuted});
  x += 205;
  s += svg::line(x + 2, y - 12, x + 2, y + 4, kCompiled, 2.5);
  s += svg::text(x + 14, y, "compiled", {.color = svg::kMuted});
  return {s, y + 20 - top};
}

// A placement as cells, one per layer, and the cost of a step.
std::string bar(const Trial& r, const svg::TimeAxis& axis, size_t rank, double y) {
  std::string s = svg::text(kLeft - 12, y + 15, fmt::format("{}", rank),
                            {.color = svg::kMuted, .size = 12, .anchor = "end"});
  const double cell = std::min(54.0, 220 / static_cast<double>(r.placement.size()));
  for (size_t i = 0; i < r.placement.size(); ++i)
    s += svg::rectangle({kLeft + cell * static_cast<double>(i), y + 2, std::max(1.0, cell - 2),
                         kRow - 8, color_of(r.memory, r.placement[i]),
                         fmt::format("layer {} on {}", i, to_string(r.placement[i]))});
  const double compute = axis.x(seconds(r.compute_ms())), all = axis.x(seconds(parts_ms(r)));
  s += svg::rectangle({kStart, y, compute - kStart, kRow - 4, kCompute,
                       fmt::format("compute {:.3f} ms", r.compute_ms())});
  if (r.moves() > 0)
    s += svg::rectangle(
        {compute, y, std::max(0.6, all - compute), kRow - 4, kMove,
         fmt::format("{} moves, {} bytes, {:.3f} ms", r.moves(), r.moved_bytes(), r.move_ms())});
  const auto [spread, to] = svg::spread(axis, seconds(r.step_ms - r.spread_ms),
                                        seconds(r.step_ms + r.spread_ms), y + kRow / 2 - 2);
  s += spread;
  // A white edge keeps the mark visible on dark bars.
  const auto mark = [&](double ms, const char* color) {
    const double x = axis.x(seconds(ms));
    s += svg::line(x, y - 2, x, y + kRow - 2, "#ffffff", 5) +
         svg::line(x, y - 2, x, y + kRow - 2, color, 2.5);
  };
  mark(r.step_ms, svg::kInk);
  if (r.compiled_ms) mark(*r.compiled_ms, kCompiled);
  const double end = std::max({to, all, axis.x(seconds(r.compiled_ms.value_or(0)))});
  std::string label = examples::time_text(seconds(r.step_ms));
  if (axis.clips(seconds(r.step_ms + r.spread_ms)))
    label += " ± " + examples::time_text(seconds(r.spread_ms));
  return s + svg::text(end + 8, y + 15, label, {.size = 12, .weight = 600});
}

// The fastest placements and, of many, the slowest.
Piece bars(const std::vector<Trial>& results, double top) {
  double longest = 0, with_spread = 0;
  for (const Trial& r : results) {
    longest = std::max({longest, parts_ms(r), r.step_ms, r.compiled_ms.value_or(0)});
    with_spread = std::max(with_spread, r.step_ms + r.spread_ms);
  }
  const bool all = results.size() <= kRows;
  const size_t shown = std::min(results.size(), kRows), left_out = results.size() - shown;
  const auto row_top = [&](size_t k) { return top + kRow * static_cast<double>(k) + 4; };
  const double bottom = row_top(shown + (all ? 0 : 1));
  const svg::TimeAxis axis(kStart, kEnd - kStart,
                           seconds(svg::end_with_spreads(longest, with_spread)));
  std::string s = axis.grid(top - 2, bottom);
  for (size_t k = 0; k < shown; ++k) {
    const bool slow = !all && k >= kRows / 2;
    const size_t i = slow ? k + left_out : k;
    s += bar(results[i], axis, i + 1, row_top(k + (slow ? 1 : 0)));
  }
  if (!all)
    s += svg::text(kLeft, row_top(kRows / 2) + 14,
                   fmt::format("{} more, in placements.csv", left_out),
                   {.color = svg::kMuted, .size = 12});
  return {s, bottom + 56 - top};
}

// One row per context that works, and one for moves. Parts follow each other from left to right.
Piece timeline(const Trial& r, double longest_ms, double top, const std::string& title) {
  constexpr double kTitle = 112;
  const auto [named, height] = svg::paragraph(kLeft + kTitle, top, text(r.placement), 105);
  std::vector<std::string> rows;
  for (const Memory& m : r.memory)
    if (std::count(r.placement.begin(), r.placement.end(), m.context) > 0)
      rows.push_back(to_string(m.context));
  if (r.moves() > 0) rows.push_back("moves");
  std::vector<svg::Span> spans;
  double at = 0;
  for (const Part& p : r.parts) {
    const bool move = p.kind == Kind::move;
    const std::string where = move ? "moves" : to_string(p.where);
    const std::string color = move ? kMove : color_of(r.memory, p.where);
    // "2" for "forward 2" and "backward 2", "update" for "update".
    const std::string label = p.name.substr(p.name.rfind(' ') + 1);
    for (size_t row = 0; row < rows.size(); ++row) {
      // The update is on all contexts.
      if (p.kind == Kind::update ? rows[row] == "moves" : rows[row] != where) continue;
      spans.push_back({.row = static_cast<int>(row),
                       .begin = seconds(at),
                       .end = seconds(at + p.ms),
                       .label = move ? "" : label,
                       .color = p.kind == Kind::backward ? svg::paler(color)
                                : p.kind == Kind::update
                                    ? color_of(r.memory, Context::parse(rows[row]))
                                    : color,
                       .hint = fmt::format("{}: {:.3f} ms", p.name, p.ms)});
    }
    at += p.ms;
  }
  return {svg::text(kLeft, top, title, {.size = 14, .weight = 600}) + named +
              svg::timeline(kLeft, top + height, kEnd - kLeft, kStart - kLeft, rows, spans,
                            seconds(longest_ms)),
          height + svg::kBarRow * static_cast<double>(rows.size()) + 56};
}

// The note below the title; empty for real contexts.
std::string caution(const std::vector<Memory>& contexts) {
  std::vector<Context> list;
  for (const Memory& m : contexts) list.push_back(m.context);
  return examples::emulation_note(list);
}

}  // namespace

std::string chart(const std::vector<Trial>& results, const Model& model) {
  const std::vector<Memory>& contexts = results[0].memory;
  std::string s = svg::text(kLeft, 38, fmt::format("Where should {} layers live?", model.layers()),
                            {.size = 19, .weight = 700});
  s += svg::text(
      kLeft, 60,
      fmt::format("A training step of {} samples, the batch starting on cpu(0)", model.batch),
      {.color = svg::kMuted});
  double y = 92;
  if (const std::string note = caution(contexts); !note.empty()) {
    const auto [lines, height] = svg::paragraph(kLeft, 82, note, 120, svg::kAmber);
    s += lines;
    y += height + 2;
  }
  const auto add = [&](const Piece& part) {
    s += part.first;
    y += part.second;
  };
  add(legend(contexts, y));
  add(bars(results, y));
  const double longest = std::max(parts_ms(results.front()), parts_ms(results.back()));
  if (results.size() == 1) {
    add(timeline(results.front(), longest, y, "The only placement:"));
  } else {
    add(timeline(results.front(), longest, y, "The fastest:"));
    add(timeline(results.back(), longest, y, "The slowest:"));
  }
  add(svg::paragraph(kLeft, y,
                     "Numbers are layers: forward in full color, backward in pale color. The "
                     "update is on all contexts.\n"
                     "Each part waits for the one before, because it is timed alone.\n"
                     "cpu(0) x2 > gpu(0): two layers on cpu(0), then one on gpu(0)."));
  return svg::page(kWidth, y + 12, s);
}

}  // namespace placement
