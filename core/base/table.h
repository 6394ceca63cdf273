// Text of reports: columns, and amounts of memory and time.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace locus {

// "12 B", "1.794 MiB".
std::string memory_text(uint64_t bytes);
// Three digits and a unit: "1.50 MB". Units: their sizes and names, the largest first.
std::string scaled_text(double value, std::initializer_list<std::pair<double, const char*>> units);
std::string time_text(double seconds);  // "1.50 ms"
// One line per row. Columns are two blanks apart, as wide as their longest cell in characters.
// `align`: 'l' or 'r' per column.
std::vector<std::string> table_lines(const std::vector<std::vector<std::string>>& rows,
                                     std::string_view align);

}  // namespace locus
