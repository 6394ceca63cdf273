// Formats an array exactly as NumPy (numpy.array2string with default options, NumPy 1.24):
// shortest digits that round-trip in the dtype, at most 8 decimals, common width, summarised past
// 1000 elements, lines of 75 columns.
#pragma once

#include <string>

#include <locus/core/kernel.h>

namespace locus {

// `data` is row-major on the host.
std::string format_array(const void* data, const Meta& meta);

}  // namespace locus
