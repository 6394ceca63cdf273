// Draws a recording of a compiled function.
#pragma once

#include <string>

#include "common/call_schedule.h"

namespace examples {

// Returns an SVG page: a row per branch of a context and per pair of devices with copies, a box per
// call, an arrow per wait between rows, and a list of the calls. Time runs right. `where`
// describes the machine.
std::string call_chart(const std::string& title, const std::string& where, const Calls& calls);

}  // namespace examples
