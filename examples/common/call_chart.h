// A picture of what a compiled function recorded.
#pragma once

#include <string>

#include "common/call_schedule.h"

namespace examples {

// An SVG page: time to the right, a row for each branch of a context and for copies between
// devices, a box for each call, arrows for the waits between rows, and the calls' list. `where`: a
// line about the machine.
std::string call_chart(const std::string& title, const std::string& where, const Calls& calls);

}  // namespace examples
