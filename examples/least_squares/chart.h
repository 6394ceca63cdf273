// Draws points, curves through them, and the error of an iteration.
#pragma once

#include <string>
#include <vector>

#include "common/svg.h"

namespace least_squares {

struct Curve {
  std::string name;
  examples::svg::Points points;  // x from -1 to 1
  examples::svg::Plot::CurveStyle style;
};

// SVG elements for a page of width 960. They begin at kTop and have the height kHeight. The points
// and the first curve determine the box of the curves. Other curves end where they leave the box.
// errors[i] is drawn at step i + 1, on logarithmic axes.
std::string draw_chart(const examples::svg::Points& points, const std::vector<Curve>& curves,
                       const std::vector<double>& errors);
inline constexpr double kTop = 84, kHeight = 446;

}  // namespace least_squares
