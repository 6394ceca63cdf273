#include "common/svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "common/measure.h"
#include "common/wrap.h"

namespace examples::svg {
namespace {

std::string escaped(const std::string& s) {
  std::string out;
  for (const char c : s) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out;
}

// 1, 2 or 5 times a power of ten, such that about `parts` steps fill `whole`.
double round_step(double whole, int parts) {
  const double raw = whole / parts, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double m : {1.0, 2.0, 5.0}) {
    if (raw <= m * power) return m * power;
  }
  return 10 * power;
}

std::array<int, 3> channels(const std::string& color) {
  const auto channel = [&](size_t at) { return std::stoi(color.substr(at, 2), nullptr, 16); };
  return {channel(1), channel(3), channel(5)};
}

}  // namespace

const char* palette(size_t i) { return kPalette[i % std::size(kPalette)]; }

std::string text(double x, double y, const std::string& s, const TextStyle& style) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\" font-size=\"{}\" text-anchor=\"{}\" "
      "font-weight=\"{}\"{}>{}</text>\n",
      x, y, style.color, style.size, style.anchor, style.weight,
      style.halo ? " stroke=\"#ffffff\" stroke-width=\"5\" paint-order=\"stroke\"" : "",
      escaped(s));
}

std::string line(double x1, double y1, double x2, double y2, const std::string& color,
                 double width) {
  return fmt::format(
      "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
      "stroke-width=\"{}\"/>\n",
      x1, x2, y1, y2, color, width);
}

std::string arrow(double x1, double y1, double x2, double y2, const std::string& color,
                  double width) {
  constexpr double kHead = 6, kHalf = 3;
  const double base = y2 > y1 ? y2 - kHead : y2 + kHead, middle = (y1 + base) / 2;
  return fmt::format(
      "<path fill=\"none\" d=\"M{0:.1f} {1:.1f}C{0:.1f} {2:.1f} {3:.1f} {2:.1f} {3:.1f} {4:.1f}\" "
      "stroke=\"{5}\" stroke-width=\"{6}\"/>"
      "<path fill=\"{5}\" d=\"M{7:.1f} {4:.1f}h{8}L{3:.1f} {9:.1f}z\"/>\n",
      x1, y1, middle, x2, base, color, width, x2 - kHalf, 2 * kHalf, y2);
}

std::string rectangle(const Rectangle& r) {
  const std::string shape = fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" rx=\"2\" fill=\"{}\"",
      r.x, r.y, r.width, r.height, r.color);
  if (r.hint.empty()) return shape + "/>\n";
  return shape + "><title>" + escaped(r.hint) + "</title></rect>\n";
}

std::string paler(const std::string& color) {
  const auto mix = [](int c) { return (9 * c + 11 * 255) / 20; };
  const auto [red, green, blue] = channels(color);
  return fmt::format("#{:02x}{:02x}{:02x}", mix(red), mix(green), mix(blue));
}

const char* ink_on(const std::string& color) {
  const auto [red, green, blue] = channels(color);
  return 299 * red + 587 * green + 114 * blue > 150000 ? kInk : "#ffffff";
}

double Axis::position(double v) const {
  const double t =
      logarithmic ? std::log(v / low) / std::log(high / low) : (v - low) / (high - low);
  return std::clamp(t, 0.0, 1.0);
}

std::string Plot::line_at(double v, const std::string& label) const {
  return line(box_.left, y(v), box_.left + box_.width, y(v), kGrid) +
         text(box_.left - 8, y(v) + 4, label, {.color = kMuted, .size = 12, .anchor = "end"});
}

std::string Plot::tick_at(double v, const std::string& label) const {
  return text(x(v), box_.top + box_.height + 20, label,
              {.color = kMuted, .size = 12, .anchor = "middle"});
}

std::string Plot::title_below(const std::string& s) const {
  return text(box_.left + box_.width / 2, box_.top + box_.height + 40, s,
              {.color = kMuted, .size = 12, .anchor = "middle"});
}

std::string Plot::curve(const Points& points, const CurveStyle& style) const {
  if (points.empty()) return "";
  std::string s = "<polyline fill=\"none\" stroke-linejoin=\"round\" points=\"";
  for (const auto& [px, py] : points) s += fmt::format("{:.1f},{:.1f} ", x(px), y(py));
  s += fmt::format("\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n", style.color, style.width,
                   style.dashed ? " stroke-dasharray=\"6 4\"" : "");
  if (!style.dots) return s;
  for (const auto& [px, py] : points) {
    s += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\" stroke=\"#fff\" "
        "stroke-width=\"1.5\"/>\n",
        x(px), y(py), style.color);
  }
  return s;
}

std::string key(double x, double y, const std::string& name, const Plot::CurveStyle& style) {
  constexpr double kLength = 28;
  return fmt::format(
             "<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" "
             "stroke-width=\"{4}\"{5}/>\n",
             x, x + kLength, y - 4, style.color, style.width,
             style.dashed ? " stroke-dasharray=\"6 4\"" : "") +
         text(x + kLength + 8, y, name);
}

std::string key(double x, double y, const std::string& name, const std::string& color) {
  return rectangle({x, y - 10, 12, 12, color}) + text(x + 18, y, name, {.color = kMuted});
}
double key_width(const std::string& name) { return 44 + 7 * static_cast<double>(characters(name)); }

std::string bars(double left, double top, double width, double names, const std::vector<Bar>& list,
                 bool logarithmic) {
  constexpr double kLabel = 170, kThick = 20;
  double longest = 0, least = 1e300;
  for (const Bar& b : list) {
    longest = std::max(longest, b.value);
    least = std::min(least, b.value);
  }
  const double start = left + names, room = width - names - kLabel;
  const double low = logarithmic ? std::pow(10, std::ceil(std::log10(least)) - 1) : 0;
  const Axis axis{low, longest > low ? longest : low + 1, logarithmic};
  const double bottom = top + kBarRow * static_cast<double>(list.size()) - kBarRow + kThick + 6;
  std::string s;
  for (double t = low; logarithmic && t <= longest; t *= 10) {
    const double x = start + room * axis.position(t);
    s += line(x, top - 6, x, bottom, kGrid);
    s += text(x, bottom + 18, tick_text(t), {.color = kMuted, .size = 12, .anchor = "middle"});
  }
  double y = top;
  for (const Bar& b : list) {
    const double length = std::max(1.0, room * axis.position(b.value));
    s += text(start - 12, y + 15, b.name, {.anchor = "end"});
    s += rectangle({start, y, length, kThick, b.color});
    s += text(start + length + 8, y + 15, b.label, {.color = kMuted, .halo = logarithmic});
    y += kBarRow;
  }
  return s + line(start, top - 6, start, bottom, kMuted);
}

double TimeAxis::x(double t) const { return left_ + width_ * std::clamp(t / seconds_, 0.0, 1.0); }

std::string TimeAxis::grid(double top, double bottom) const {
  std::string s;
  const double step = round_step(seconds_, 6);
  for (double t = 0; t <= seconds_ * 1.0001; t += step) {
    s += line(x(t), top, x(t), bottom, kGrid);
    s += text(x(t), bottom + 18, t == 0 ? "0" : tick_text(t),
              {.color = kMuted, .size = 12, .anchor = "middle"});
  }
  return s;
}

std::pair<std::string, double> spread(const TimeAxis& axis, double low, double high, double y) {
  constexpr double kHead = 7;
  const bool cut = axis.clips(high);
  const double from = axis.x(low), to = axis.x(high);
  std::string s;
  for (const auto& [color, width] : {std::pair{"#ffffff", 5.}, {kInk, 2.}}) {
    s += line(from, y, to, y, color, width);
    if (cut)
      s += line(to - kHead, y - kHead, to, y, color, width) +
           line(to - kHead, y + kHead, to, y, color, width);
  }
  return {s, to};
}

double end_with_spreads(double longest, double longest_with_spread) {
  return std::max(longest, std::min(longest_with_spread, 1.3 * longest));
}

std::string timeline(double left, double top, double width, double names,
                     const std::vector<std::string>& rows, const std::vector<Span>& spans,
                     double seconds) {
  constexpr double kThick = 22;
  const double start = left + names;
  const TimeAxis axis(start, width - names, seconds);
  std::string s = axis.grid(top - 6, top + kBarRow * static_cast<double>(rows.size()));
  for (size_t r = 0; r < rows.size(); ++r) {
    s += text(start - 12, top + kBarRow * static_cast<double>(r) + 16, rows[r], {.anchor = "end"});
  }
  for (const Span& p : spans) {
    const double y = top + kBarRow * p.row;
    const double from = axis.x(p.begin), length = axis.x(p.end) - from;
    const double gap = length > 3 ? 1 : 0;  // separates neighbours of one color
    s += rectangle({from, y, std::max(1.0, length - gap), kThick, p.color, p.hint});
    const double room = 7.0 * static_cast<double>(characters(p.label)) + 4;
    if (p.label.empty()) continue;
    if (length > room) {
      s += text(from + (length - gap) / 2, y + 15, p.label,
                {.color = ink_on(p.color), .size = 12, .anchor = "middle"});
    } else {
      double next = start + width - names;
      for (const Span& other : spans)
        if (other.row == p.row && other.end > p.end) next = std::min(next, axis.x(other.begin));
      if (next - axis.x(p.end) > room)
        s += text(axis.x(p.end) + 2, y + 15, p.label, {.color = kMuted, .size = 12});
    }
  }
  return s;
}

std::pair<std::string, double> paragraph(double left, double top, const std::string& s,
                                         size_t columns, const char* color) {
  constexpr double kLine = 20;
  std::string out;
  double y = top;
  for (const std::string& line : wrapped(s, columns)) {
    out += text(left, y, line, {.color = color, .size = 13});
    y += kLine;
  }
  return {out, y - top};
}

std::string page(double width, double height, const std::string& body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"Inter, 'Segoe UI', Helvetica, Arial, sans-serif\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n{2}</svg>\n",
      width, height, body);
}

std::string figure(const Figure& f) {
  constexpr double kLeft = 40;
  const auto [explanation, height] = paragraph(kLeft, f.top + f.height + 24, f.explanation);
  return page(f.width, f.top + f.height + height + 34,
              text(kLeft, 38, f.title, {.size = 19, .weight = 700}) +
                  paragraph(kLeft, 60, f.subtitle, 132, kMuted).first + f.body + explanation);
}

}  // namespace examples::svg
