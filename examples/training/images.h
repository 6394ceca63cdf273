// Images as SVG.
#pragma once

#include <string>
#include <vector>

namespace training {

// Gray values in [0, 1], dark for 1, row by row, in a box `size` wide at (x, y). A vector graphic.
std::string gray_image(const std::vector<float>& pixels, int height, int width, double x, double y,
                       double size);

// Values in [-1, 1], blue above 0 and red below, darker farther from 0.
std::string signed_image(const std::vector<float>& values, int height, int width, double x,
                         double y, double size);

}  // namespace training
