// The names of all LOCUS_* environment variables. Internal.
#pragma once

#include <span>
#include <string_view>

namespace locus {

// The variables that any build reads. A build without CUDA knows LOCUS_P2P, too.
std::span<const std::string_view> environment_variables();

}  // namespace locus
