// Text of reports: columns, and amounts of memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace locus {

// "12 B", "1.794 MiB".
std::string memory_text(uint64_t bytes);
// One line per row. Columns are two blanks apart, as wide as their longest cell in characters.
// `align`: 'l' or 'r' per column.
std::vector<std::string> table_lines(const std::vector<std::vector<std::string>>& rows,
                                     std::string_view align);

}  // namespace locus
