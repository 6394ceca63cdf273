#include "common/wrap.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include <fmt/core.h>

namespace examples {

size_t characters(const std::string& text) {
  // Bytes that do not continue a UTF-8 sequence.
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::vector<std::string> wrapped(const std::string& text, size_t width) {
  std::vector<std::string> lines;
  std::istringstream given(text);
  for (std::string whole; std::getline(given, whole);) {
    const std::string indent(std::min(whole.find_first_not_of(' '), whole.size()), ' ');
    std::istringstream words(whole);
    std::string line;
    for (std::string word; words >> word;) {
      if (!line.empty() && characters(line) + 1 + characters(word) > width) {
        lines.push_back(line);
        line.clear();
      }
      line += (line.empty() ? indent : " ") + word;
    }
    lines.push_back(line);
  }
  return lines;
}

size_t terminal_width() {
  winsize size{};
  constexpr size_t kDefault = 80, kLeast = 20;
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return kDefault;
  return size.ws_col < kLeast ? kDefault : size.ws_col;
}

void print_text(const std::string& text) {
  for (const std::string& line : wrapped(text, terminal_width())) fmt::print("{}\n", line);
}

}  // namespace examples
