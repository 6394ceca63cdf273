#include "least_squares/chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/measure.h"

namespace least_squares {

using namespace examples::svg;

namespace {

constexpr double kLeft = 84, kRight = 576, kPlotTop = kTop + 66, kPlotHeight = 330;

std::string draw_curves(const Points& points, const std::vector<Curve>& curves) {
  double most = 0;
  for (const Points* list : {&points, &curves.front().points})
    for (const auto& [x, y] : *list) most = std::max(most, std::abs(y));
  const double end = std::ceil(2 * most) / 2;
  const Plot plot({kLeft, kPlotTop, 400, kPlotHeight}, {-1, 1}, {-end, end});
  std::string s = text(kLeft, kPlotTop - 18, "Points and curves", {.weight = 600});
  for (const double part : {-1., -.5, 0., .5, 1.})
    s += plot.line_at(end * part, fmt::format("{:g}", end * part)) +
         plot.tick_at(part, fmt::format("{:g}", part));
  s += plot.title_below("x");
  double at = kLeft;
  for (const Curve& c : curves) {
    Points inside;
    for (const auto& point : c.points) {
      if (std::abs(point.second) <= end) {
        inside.push_back(point);
      } else {
        s += plot.curve(inside, c.style);
        inside.clear();
      }
    }
    s += plot.curve(inside, c.style) + key(at, kPlotTop - 52, c.name, c.style);
    at += key_width(c.name) + 30;
  }
  for (const auto& [x, y] : points)
    s += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\" "
        "stroke=\"#ffffff\"/>\n",
        plot.x(x), plot.y(y), kInk);
  return s;
}

std::string draw_errors(const std::vector<double>& errors) {
  constexpr double kRounding = 1e-15;  // smaller errors are drawn there
  const double steps = static_cast<double>(errors.size());
  Points points;
  double least = 1, most = 1;
  for (double at = 1; at <= steps; at = std::max(at + 1, std::floor(at * 1.05))) {
    const double error = std::max(errors[static_cast<size_t>(at) - 1], kRounding);
    points.emplace_back(at, error);
    least = std::min(least, error);
    most = std::max(most, 1.01 * error);
  }
  least = std::pow(10, std::floor(std::log10(least)));
  const Plot plot({kRight, kPlotTop, 344, kPlotHeight}, {1, steps, true}, {least, most, true});
  std::string s =
      text(kRight, kPlotTop - 18, "Gradient descent: mean square above lstsq's", {.weight = 600});
  const double decades = std::max(1.0, std::ceil(std::log10(most / least) / 8));
  for (double v = least; v <= most; v *= std::pow(10, decades))
    s += plot.line_at(v, fmt::format("{:.0e}", v));
  for (double v = 1; v <= steps; v *= steps > 1e5 ? 100 : 10)
    s += plot.tick_at(v, examples::count_text(v));
  return s + plot.title_below("step") + plot.curve(points, {kAmber, 2.4, false});
}

}  // namespace

std::string draw_chart(const Points& points, const std::vector<Curve>& curves,
                       const std::vector<double>& errors) {
  return draw_curves(points, curves) + draw_errors(errors);
}

}  // namespace least_squares
