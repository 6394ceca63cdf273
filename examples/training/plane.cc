#include "training/plane.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "common/svg.h"

namespace training {

std::string draw_class_plane(const std::vector<float>& points, const std::vector<int>& labels,
                             double left, double top, double width, double height) {
  constexpr const char* kColors[] = {"#1f5fbf", "#c2410c", "#15803d", "#b91c1c", "#7e22ce",
                                     "#854d0e", "#be185d", "#4b5563", "#4d7c0f", "#0e7490"};
  constexpr double kMargin = 12, kApart = 22;
  const auto range = [&](size_t axis) {
    std::vector<float> v;
    for (size_t i = axis; i < points.size(); i += 2) v.push_back(points[i]);
    std::ranges::sort(v);
    return std::pair{v[v.size() / 100], v[v.size() - 1 - v.size() / 100]};
  };
  const auto [west, east] = range(0);
  const auto [south, north] = range(1);
  std::string s = fmt::format(
      "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#f8f9fb\"/>\n",
      left, top, width, height);
  struct Center {
    double x = 0, y = 0;
    int dots = 0;
  };
  std::array<Center, 10> centers;
  for (size_t i = 0; i < labels.size(); ++i) {
    const double u = (points[2 * i] - west) / std::max(east - west, 1e-12f);
    const double v = (points[2 * i + 1] - south) / std::max(north - south, 1e-12f);
    if (u < 0 || u > 1 || v < 0 || v > 1) continue;
    const double x = left + kMargin + u * (width - 2 * kMargin),
                 y = top + kMargin + (1 - v) * (height - 2 * kMargin);
    s += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" fill=\"{}\" fill-opacity=\".75\"/>\n", x, y,
        kColors[labels[i]]);
    Center& c = centers[static_cast<size_t>(labels[i])];
    c = {c.x + x, c.y + y, c.dots + 1};
  }
  std::vector<std::pair<double, double>> numbers;
  for (size_t label = 0; label < centers.size(); ++label) {
    const Center& c = centers[label];
    if (c.dots == 0) continue;
    double x = c.x / c.dots, y = c.y / c.dots + 7;
    while (std::ranges::any_of(numbers, [&](const auto& other) {
      return std::hypot(other.first - x, other.second - y) < kApart;
    }))
      x += kApart / 4;
    numbers.emplace_back(x, y);
    s += examples::svg::text(
        x, y, fmt::format("{}", label),
        {.color = kColors[label], .size = 22, .anchor = "middle", .weight = 700, .halo = true});
  }
  for (int label = 0; label < 10; ++label) {
    const std::string name = fmt::format("{}", label);
    s += examples::svg::key(left, top + height + 24, name, std::string(kColors[label]));
    left += examples::svg::key_width(name) + 12;
  }
  return s;
}

}  // namespace training
