#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "placement/report.h"

using namespace locus;

namespace placement {
namespace {

constexpr const char* kInk = "#1f2937";
constexpr const char* kMuted = "#6b7280";
constexpr const char* kGrid = "#e5e7eb";
constexpr const char* kCompute = "#3b6fd4";
constexpr const char* kMove = "#ea8a2e";
constexpr const char* kColors[] = {"#94a3b8", "#2a9d8f", "#8b5cf6", "#d6609b",
                                   "#b8a12c", "#5b8def", "#c2694a", "#4b5563"};
constexpr double kWidth = 960, kLeft = 300, kRight = 870, kBar = 24;
constexpr size_t kBars = 16;

std::string escaped(const std::string& s) {
  std::string out;
  for (const char c : s) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  return out;
}

std::string label(double x, double y, const std::string& s, const char* color, int size,
                  const char* anchor = "start", const char* weight = "400") {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\" font-size=\"{}\" text-anchor=\"{}\" "
      "font-weight=\"{}\">{}</text>\n",
      x, y, color, size, anchor, weight, escaped(s));
}

std::string box(double x, double y, double width, double height, const char* color,
                const std::string& title, double opacity = 1) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" rx=\"1.5\" fill=\"{}\" "
      "fill-opacity=\"{}\"><title>{}</title></rect>\n",
      x, y, std::max(width, 0.6), height, color, opacity, escaped(title));
}

// From 0 to `highest` ms along the page.
struct Scale {
  explicit Scale(double ms) : highest(ms) {
    const double rough = ms / 6, power = std::pow(10, std::floor(std::log10(rough)));
    step = power * (rough / power > 5 ? 10 : rough / power > 2 ? 5 : rough / power > 1 ? 2 : 1);
  }
  double x(double ms) const { return kLeft + (kRight - kLeft) * ms / highest; }
  std::string grid(double top, double bottom) const {
    std::string s;
    for (double v = 0; v <= highest * 1.0001; v += step) {
      s += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\"/>\n",
          x(v), top, bottom, kGrid);
      s += label(x(v), bottom + 16, fmt::format("{:g}", v), kMuted, 11, "middle");
    }
    return s + label(kRight + 14, bottom + 16, "ms", kMuted, 11);
  }
  double highest, step = 1;
};

const char* color_of(const std::vector<Memory>& contexts, Context c) {
  size_t i = 0;
  while (i < contexts.size() && contexts[i].context != c) ++i;
  return kColors[i % std::size(kColors)];
}

std::string legend(double x, double y, const char* color, const std::string& s) {
  return box(x, y - 10, 12, 12, color, s) + label(x + 18, y, s, kMuted, 12);
}

std::string bar(const Result& r, const Scale& scale, size_t rank, double y) {
  std::string s = label(52, y + 15, fmt::format("{}", rank), kMuted, 12, "end");
  const double cell = std::min(22.0, 214 / static_cast<double>(r.placement.size()));
  for (size_t i = 0; i < r.placement.size(); ++i)
    s += box(64 + cell * static_cast<double>(i), y + 2, cell - 2, kBar - 8,
             color_of(r.memory, r.placement[i]),
             fmt::format("layer {} on {}", i, to_string(r.placement[i])));
  s += box(kLeft, y, scale.x(r.compute_ms()) - kLeft, kBar - 4, kCompute,
           fmt::format("compute {:.3f} ms", r.compute_ms()));
  if (r.moves() > 0)
    s += box(scale.x(r.compute_ms()), y,
             scale.x(r.compute_ms() + r.move_ms()) - scale.x(r.compute_ms()), kBar - 4, kMove,
             fmt::format("{} moves, {} bytes, {:.3f} ms", r.moves(), r.moved_bytes(), r.move_ms()));
  s += fmt::format(
      "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" "
      "stroke-width=\"2.5\"/>\n",
      scale.x(r.step_ms), y - 2, y + kBar - 2, kInk);
  const double end = std::max(scale.x(r.step_ms), scale.x(r.compute_ms() + r.move_ms()));
  return s + label(end + 8, y + 14, fmt::format("{:.3f}", r.step_ms), kInk, 12, "start", "600");
}

// A row a context and one for moves; parts follow each other from left to right.
std::string timeline(const Result& r, const Scale& scale, double top, const std::string& title) {
  std::string s = label(64, top, title, kInk, 14, "start", "600");
  s += label(64 + 84, top, text(r.placement), kMuted, 13);
  const auto rows = static_cast<double>(r.memory.size() + 1);
  const double first = top + 14;
  s += scale.grid(first, first + rows * kBar);
  const auto row = [&](const Part& p) {
    size_t i = 0;
    while (p.kind != Kind::move && i < r.memory.size() && r.memory[i].context != p.where) ++i;
    return first + kBar * static_cast<double>(p.kind == Kind::move ? r.memory.size() : i);
  };
  for (size_t i = 0; i <= r.memory.size(); ++i)
    s += label(kLeft - 12, first + kBar * static_cast<double>(i) + 16,
               i < r.memory.size() ? to_string(r.memory[i].context) : "moves", kMuted, 12, "end");
  double at = 0;
  for (const Part& p : r.parts) {
    const double x = scale.x(at), width = scale.x(at + p.ms) - x;
    const double gap = width > 3 ? 1 : 0;
    s += box(x, row(p) + 3, width - gap, kBar - 6,
             p.kind == Kind::move ? kMove : color_of(r.memory, p.where),
             fmt::format("{}: {:.3f} ms", p.name, p.ms), p.kind == Kind::backward ? 0.6 : 1);
    std::string short_name = p.name.substr(p.name.rfind(' ') + 1);
    if (p.kind == Kind::forward) short_name.insert(0, "f");
    if (p.kind == Kind::backward) short_name.insert(0, "b");
    if (p.kind != Kind::move && width > 7.5 * static_cast<double>(short_name.size()))
      s += label(x + (width - gap) / 2, row(p) + 16, short_name, "#ffffff", 11, "middle", "600");
    at += p.ms;
  }
  return s;
}

}  // namespace

std::string chart(const std::vector<Result>& results, const Model& model) {
  std::vector<size_t> shown;  // positions: all, or the first and the last
  for (size_t i = 0; i < results.size(); ++i)
    if (results.size() <= kBars || i < kBars / 2 || i >= results.size() - kBars / 2)
      shown.push_back(i);
  double longest = 0, longest_step = 0;
  for (const Result& r : results) {
    longest = std::max(longest, r.compute_ms() + r.move_ms());
    longest_step = std::max({longest_step, r.step_ms, longest});
  }
  std::string s = label(64, 38, fmt::format("Where should {} layers live?", model.layers()), kInk,
                        19, "start", "700");
  s +=
      label(64, 60,
            fmt::format("A training step of {} samples, the batch starting on cpu(0)", model.batch),
            kMuted, 13);
  bool emulated = false, modelled = false;
  for (const Memory& m : results[0].memory) {
    emulated = emulated || context_info(m.context).emulated;
    modelled = modelled || context_info(m.context).modelled;
  }
  if (emulated)
    s += label(
        kRight + 30, 60,
        modelled ? "emulated GPUs; times of moves are modelled" : "emulated GPUs; no link model",
        kMove, 13, "end", "600");
  double x = 64;
  for (const Memory& m : results[0].memory) {
    s += legend(x, 88, color_of(results[0].memory, m.context), to_string(m.context));
    x += 34 + 8 * static_cast<double>(to_string(m.context).size());
  }
  s += legend(kLeft + 200, 88, kCompute, "compute") + legend(kLeft + 294, 88, kMove, "moves");
  s += fmt::format(
           "<line x1=\"{0}\" x2=\"{0}\" y1=\"76\" y2=\"92\" stroke=\"{1}\" "
           "stroke-width=\"2.5\"/>\n",
           kLeft + 376, kInk) +
       label(kLeft + 388, 88, "the step when nothing waits", kMuted, 12);

  const Scale bars(longest_step);
  const double top = 108, bottom = top + kBar * static_cast<double>(shown.size()) + 4;
  std::string rows = bars.grid(top, bottom);
  for (size_t k = 0; k < shown.size(); ++k)
    rows += bar(results[shown[k]], bars, shown[k] + 1, top + 4 + kBar * static_cast<double>(k));
  s += rows;
  double y = bottom + 38;
  if (shown.size() < results.size()) {
    s +=
        label(64, y - 10,
              fmt::format("{} placements between {} and {} are in placements.csv",
                          results.size() - shown.size(), kBars / 2, results.size() - kBars / 2 + 1),
              kMuted, 12);
    y += 14;
  }
  const Scale time(longest);
  const double height = 14 + kBar * static_cast<double>(results[0].memory.size() + 1) + 50;
  y += 14;
  s += timeline(results.front(), time, y, "The best:");
  if (results.size() > 1) {
    y += height;
    s += timeline(results.back(), time, y, "The worst:");
  }
  y += height;
  s += label(64, y - 4,
             "f: forward, b: backward, by layer. Each part waits for the one before, to be timed.",
             kMuted, 12);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" "
             "height=\"{1:.0f}\" font-family=\"Inter, 'Segoe UI', Helvetica, Arial, "
             "sans-serif\">\n<rect width=\"{0}\" height=\"{1:.0f}\" fill=\"#ffffff\"/>\n",
             kWidth, y + 16) +
         s + "</svg>\n";
}

}  // namespace placement
