// What every checkpoint has beside the program's parts. Internal to checkpoint*.cc.
#pragma once

#include <locus/nn/checkpoint.h>

namespace locus::checkpoint {

// A part only where something was chosen (core/tuning.h).
inline constexpr const char* kTuning = "tuning";

// With random numbers and choices. ValueError where two have one name.
Parts with_own(const Parts& parts);

}  // namespace locus::checkpoint
