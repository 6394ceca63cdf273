// The functions that the public headers of ops declare.
#pragma once

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

namespace locus::test {

// Functions of ops/*.h that take or give tensors, except those in `detail` and `fusion`.
inline std::set<std::string> functions_of_headers() {
  const std::regex line("^(?:inline )?([A-Za-z_:]+(?:<[^>]*>)?&?) ([a-z_0-9]+)\\((.*)");
  std::set<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(LOCUS_TEST_DATA "/../../ops")) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream file(entry.path());
    std::smatch match;
    bool detail = false;
    for (std::string text; std::getline(file, text);) {
      if (text.starts_with("namespace") &&
          (text.find("detail") != std::string::npos || text.find("fusion") != std::string::npos))
        detail = true;
      if (text.starts_with("}  // namespace")) detail = false;
      if (detail || !std::regex_match(text, match, line)) continue;
      if ((match[1].str() + match[3].str()).find("Tensor") != std::string::npos)
        all.insert(match[2]);
    }
  }
  return all;
}

}  // namespace locus::test
