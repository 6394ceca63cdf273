// The names of all LOCUS_* variables of the environment. Internal.
#pragma once

#include <span>
#include <string_view>

namespace locus {

// Those that some build of the library reads: one list, so that a build without CUDA knows
// LOCUS_P2P.
std::span<const std::string_view> environment_variables();

}  // namespace locus
