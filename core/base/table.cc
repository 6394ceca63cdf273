#include <locus/core/base/table.h>

#include <algorithm>

#include <locus/core/base/text.h>

namespace locus {
namespace {

// The characters of UTF-8 text: bytes that do not continue a sequence.
size_t characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace

std::string memory_text(uint64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double v = static_cast<double>(bytes);
  int unit = 0;
  for (; v >= 1024 && unit < 4; ++unit) v /= 1024;
  return formatted("%.4g %s", v, units[unit]);
}

std::string scaled_text(double value, std::initializer_list<std::pair<double, const char*>> units) {
  const std::pair<double, const char*>* unit = units.begin();
  while (unit + 1 != units.end() && value < unit->first) ++unit;
  const double x = value / unit->first;
  return formatted("%.*f %s", x < 9.995 ? 2 : x < 99.95 ? 1 : 0, x, unit->second);
}

std::string time_text(double seconds) {
  return scaled_text(seconds, {{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}});
}

std::vector<std::string> table_lines(const std::vector<std::vector<std::string>>& rows,
                                     std::string_view align) {
  std::vector<size_t> width(align.size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], characters(row[i]));
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string& line = lines.emplace_back();
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(width[i] - characters(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (align[i] == 'r' ? pad + row[i] : row[i] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
  }
  return lines;
}

}  // namespace locus
