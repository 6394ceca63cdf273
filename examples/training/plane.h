// Labelled points in a plane, as SVG.
#pragma once

#include <string>
#include <vector>

namespace training {

// A dot for each point in a box at (left, top), and the colors of the classes below it. `points`
// has x and y of each, `labels` its class, 0 to 9. The box leaves out 1 % of the points at each end
// of both axes.
std::string draw_class_plane(const std::vector<float>& points, const std::vector<int>& labels,
                             double left, double top, double width, double height);
inline constexpr double kPlaneKeys = 44;  // the height below the box

}  // namespace training
