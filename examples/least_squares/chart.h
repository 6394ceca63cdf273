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

// SVG elements of a page 960 wide, in kHeight below kTop. Curves end where they leave the box,
// which the points and the first curve determine. `errors` are of the steps from 1 on, on
// logarithmic axes.
std::string draw_chart(const examples::svg::Points& points, const std::vector<Curve>& curves,
                       const std::vector<double>& errors);
inline constexpr double kTop = 84, kHeight = 446;

}  // namespace least_squares
