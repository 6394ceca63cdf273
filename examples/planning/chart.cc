#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "common/measure.h"
#include "common/svg.h"
#include "planning/study.h"

namespace svg = examples::svg;
using namespace locus;

namespace planning {
namespace {

constexpr double kWidth = 960, kLeft = 40, kEnd = 780, kRow = 24;
constexpr size_t kMostBars = 16, kMostRows = 8;
constexpr const char* kBubble = "#cbd5e1";
constexpr const char* kLink = svg::kAmber;
constexpr const char* kHost = "#7c3aed";

struct Page {
  std::string body;
  double y;
};

// Bars of predicted steps by part, with a mark at the measured time.
void bars(Page& page, const std::vector<Result>& results) {
  page.body += svg::text(kLeft, page.y, "predicted:", {.color = svg::kMuted});
  double x = kLeft + 84;
  for (const auto& [name, color] :
       {std::pair{"compute", svg::kBlue}, {"bubble", kBubble}, {"link", kLink}, {"host", kHost}}) {
    page.body += svg::key(x, page.y, name, color);
    x += svg::key_width(name);
  }
  page.body += svg::line(x + 4, page.y - 12, x + 4, page.y + 4, svg::kInk, 2.5) +
               svg::text(x + 14, page.y, "measured, its spread, and the prediction's error",
                         {.color = svg::kMuted});
  page.y += 22;
  const size_t shown = std::min(results.size(), kMostBars);
  double longest = 0, with_spread = 0;
  for (size_t i = 0; i < shown; ++i) {
    longest = std::max({longest, results[i].predicted.seconds, results[i].measured});
    with_spread = std::max(with_spread, results[i].measured + results[i].spread);
  }
  size_t letters = 0;
  for (size_t i = 0; i < shown; ++i) letters = std::max(letters, results[i].plan.summary().size());
  const double begin = kLeft + 12 + 6.5 * static_cast<double>(letters);
  const svg::TimeAxis axis(begin, kEnd - begin, svg::end_with_spreads(longest, with_spread));
  const double bottom = page.y + kRow * static_cast<double>(shown) + 4;
  page.body += axis.grid(page.y - 2, bottom);
  for (size_t i = 0; i < shown; ++i) {
    const Result& r = results[i];
    const Prediction& p = r.predicted;
    const double y = page.y + kRow * static_cast<double>(i) + 4;
    page.body += svg::text(begin - 12, y + 15, r.plan.summary(), {.size = 12, .anchor = "end"});
    double at = 0;
    for (const auto& [part, color] : {std::pair{p.compute, svg::kBlue},
                                      {p.bubble, kBubble},
                                      {p.link, kLink},
                                      {p.host, kHost}}) {
      const double from = axis.x(at), to = axis.x(at += part);
      if (to > from)
        page.body +=
            svg::rectangle({from, y, to - from, kRow - 4, color, examples::time_text(part)});
    }
    double end = axis.x(p.seconds);
    if (r.measured > 0) {
      const double m = axis.x(r.measured);
      const auto [spread, high] =
          svg::spread(axis, r.measured - r.spread, r.measured + r.spread, y + kRow / 2 - 2);
      page.body += spread;
      for (const auto& [color, width] : {std::pair{"#ffffff", 5.5}, {svg::kInk, 2.5}})
        page.body += svg::line(m, y - 2, m, y + kRow - 2, color, width);
      end = std::max(end, high);
    }
    page.body += svg::text(
        end + 8, y + 15,
        r.measured > 0
            // Rounded first, and + 0.: no -0.0.
            ? fmt::format(
                  "{}{} ({:+.1f} %)", examples::time_text(r.measured),
                  axis.clips(r.measured + r.spread) ? " ± " + examples::time_text(r.spread) : "",
                  std::round(1000 * r.error()) / 10 + 0.)
            : examples::time_text(p.seconds) + ", not run",
        {.size = 12, .halo = true});
  }
  page.y = bottom + 30;
  if (shown < results.size()) {
    page.body +=
        svg::text(kLeft, page.y + 8, fmt::format("{} more, in plans.csv", results.size() - shown),
                  {.color = svg::kMuted, .size = 12});
    page.y += 16;
  }
}

const char* color_of(char what) {
  return what == 'F'   ? svg::kBlue
         : what == 'B' ? svg::kPaleBlue
         : what == 'S' ? kLink
                       : svg::kGreen;
}
svg::Span span(int row, double begin, double end, char what, int microbatch, bool numbered) {
  const char* const name = what == 'F'   ? "forward"
                           : what == 'B' ? "backward"
                           : what == 'S' ? "sum"
                                         : "update";
  return {row,
          begin,
          end,
          what == 'F' || what == 'B'
              ? (numbered ? fmt::format("{}", microbatch) : std::string(name))
              : "",
          color_of(what),
          fmt::format("{}: {}", name, examples::time_text(end - begin))};
}

// A predicted step beside the measured one, one row per context.
void timelines(Page& page, const Result& r) {
  const std::vector<Context> contexts = r.plan.contexts();
  const size_t shown = std::min(contexts.size(), kMostRows);
  const Layout& l = r.predicted.layout;
  std::vector<std::string> rows;
  for (size_t i = 0; i < shown; ++i) rows.push_back(to_string(contexts[i]));
  const auto row_of = [&](Context c) {
    return static_cast<int>(std::ranges::find(contexts, c) - contexts.begin());
  };
  std::vector<svg::Span> predicted, measured;
  const bool numbered = l.microbatches > 1;
  double longest = r.predicted.seconds;
  const auto add = [&](std::vector<svg::Span>& list, Context c, const auto& w) {
    longest = std::max(longest, w.end);
    const int row = row_of(c);
    if (row < static_cast<int>(shown))
      list.push_back(span(row, w.begin, w.end, w.what, w.microbatch, numbered));
  };
  for (const Work& w : r.predicted.timeline)
    for (const Context c :
         l.cut > 1 ? contexts : r.plan.stages[static_cast<size_t>(w.row)].contexts)
      add(predicted, c, w);
  for (const Ran& w : r.ran) add(measured, w.where, w);
  if (l.cut > 1)
    for (svg::Span& s : predicted) s.label.clear();  // layers
  page.body += svg::text(kLeft, page.y, fmt::format("{}: {}", l.kind(), r.plan.summary()),
                         {.size = 14, .weight = 600});
  page.y += 20;
  page.body += svg::text(kLeft + 52, page.y, "predicted", {.color = svg::kMuted, .size = 12}) +
               svg::text(kLeft + 502, page.y, "traced", {.color = svg::kMuted, .size = 12});
  page.y += 12;
  page.body += svg::timeline(kLeft, page.y, 430, 52, rows, predicted, longest) +
               svg::timeline(kLeft + 450, page.y, 430, 52, rows, measured, longest);
  page.y += svg::kBarRow * static_cast<double>(shown) + 50;
}

}  // namespace

std::string picture(const std::vector<Result>& results, const std::string& title,
                    const std::string& conditions) {
  Page page{svg::text(kLeft, 38, title, {.size = 19, .weight = 700}), 60};
  const auto [subtitle, height] = svg::paragraph(kLeft, page.y, conditions, 132, svg::kMuted);
  page.body += subtitle;
  page.y += height + 16;
  bars(page, results);
  page.y += 20;
  double x = kLeft;
  for (const auto& [name, what] : {std::pair{"forward", 'F'},
                                   {"backward", 'B'},
                                   {"sums", 'S'},
                                   {"update (traced: with sums)", 'U'}}) {
    page.body += svg::key(x, page.y, name, color_of(what));
    x += svg::key_width(name);
  }
  page.body += svg::text(x, page.y, "numbers: microbatches", {.color = svg::kMuted});
  page.y += 34;
  std::vector<std::string> seen;  // the best of each kind
  for (const Result& r : results) {
    const std::string kind = r.predicted.layout.kind();
    if (r.ran.empty() || std::ranges::find(seen, kind) != seen.end()) continue;
    seen.push_back(kind);
    timelines(page, r);
  }
  const auto [text, lines] = svg::paragraph(kLeft, page.y, explanation(results));
  return svg::page(kWidth, page.y + lines + 12, page.body + text);
}

std::string picture(const std::vector<Prediction>& all, int64_t batch, const std::string& title,
                    const std::string& explanation) {
  const Prediction* const base = base_of(all);
  std::map<std::string, svg::Points> kinds;
  double most = 2, high = base ? 2 : 0, low = base ? 1 : INFINITY;
  for (const Prediction& p : all) {
    const double n = p.layout.devices(), rate = n * static_cast<double>(batch) / p.seconds,
                 value = base ? n * base->seconds / p.seconds : rate;
    most = std::max(most, n);
    high = std::max(high, value);
    low = std::min(low, value);
    if (p.layout.kind() == std::string("one")) continue;
    kinds[p.layout.kind()].emplace_back(n, value);
  }
  std::vector<double> lines;
  const double step = most > 64 ? 4 : 2;
  if (base) {
    high = std::max(high, most);
    for (double v = 1; v <= high; v *= step) lines.push_back(v);
  } else {  // round numbers, from one below all to one above
    for (double decade = std::pow(10, std::floor(std::log10(low)));
         lines.empty() || lines.back() <= high; decade *= 10)
      for (const double m : {1, 2, 5})
        if (lines.empty() || lines.back() <= high) lines.push_back(m * decade);
    while (lines.size() > 2 && lines[1] <= low) lines.erase(lines.begin());
    low = lines.front(), high = lines.back();
  }
  constexpr double kTop = 110, kHeight = 340;
  const svg::Plot plot({100, kTop, 600, kHeight - 60}, {1, most, true}, {low, high, true});
  const std::string heading =
      !base ? "samples per second"
            : "samples per second, relative to one GPU" +
                  (base->layout.microbatches > 1 ? " (" + base->layout.summary() + ")" : "");
  std::string s = svg::text(100, kTop - 14, heading, {.color = svg::kMuted, .size = 12});
  for (double v = 1; v <= most; v *= step) s += plot.tick_at(v, fmt::format("{:.0f}", v));
  for (const double v : lines) s += plot.line_at(v, examples::count_text(v));
  s += plot.title_below("GPUs, each with the same batch size");
  const svg::Plot::CurveStyle dashed{
      .color = svg::kMuted, .width = 1.5, .dots = false, .dashed = true};
  double y = kTop + 20;
  if (base)
    s += plot.curve({{1, 1}, {most, most}}, dashed) + svg::key(730, y, "linear speed-up", dashed);
  size_t i = 0;
  const char* const colors[] = {svg::kBlue, svg::kGreen, svg::kAmber, kHost};
  for (const auto& [kind, points] : kinds) {
    const svg::Plot::CurveStyle style{.color = colors[i++ % 4]};
    s += plot.curve(points, style) + svg::key(730, y += 30, kind, style);
  }
  return svg::figure({.title = title,
                      .subtitle = "Predicted from the times of layers, not measured",
                      .body = s,
                      .explanation = explanation,
                      .top = kTop,
                      .height = kHeight});
}

}  // namespace planning
