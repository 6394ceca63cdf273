// Draws loss and accuracy curves and, below, what the network learnt.
#pragma once

#include <string>

#include "training/history.h"

namespace training {

// SVG elements in a box of kStripWidth x height, its corner at (0, 0).
inline constexpr double kStripWidth = 856;
struct Strip {
  std::string title, body;
  double height = 0;  // 0: none
};

std::string chart(const History& history, const Strip& strip);  // an SVG document

}  // namespace training
