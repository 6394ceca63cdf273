// Labelled points in a plane, as SVG.
#pragma once

#include <string>
#include <vector>

namespace training {

// Draws a dot for each point in a box at (left, top), and the colors of the classes below the box.
// x and y of point i are points[2 * i] and points[2 * i + 1], and its class, 0 to 9, is labels[i].
// The box leaves out 1 % of the points at each end of both axes.
std::string draw_class_plane(const std::vector<float>& points, const std::vector<int>& labels,
                             double left, double top, double width, double height);
inline constexpr double kPlaneKeys = 44;  // the height below the box

}  // namespace training
