#include <locus/core/base/environment.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include <locus/core/base/edit_distance.h>
#include <locus/core/error.h>

namespace locus {
namespace {

constexpr std::string_view kPrefix = "LOCUS_";

std::string_view value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

[[noreturn]] void refuse(const char* variable, std::string_view value, const std::string& accepts) {
  throw Error(variable, "=", value, ": expected ", accepts);
}

}  // namespace

std::optional<int64_t> environment_number(const char* variable, int64_t lowest, int64_t highest) {
  const std::string_view value = value_of(variable);
  if (value.empty()) return std::nullopt;
  const auto number = number_in<int64_t>(value);
  if (!number || *number < lowest || *number > highest)
    refuse(variable, value, text_of("a whole number from ", lowest, " to ", highest));
  return number;
}

std::optional<size_t> environment_bytes(const char* variable) {
  const std::string_view value = value_of(variable);
  if (value.empty()) return std::nullopt;
  const char unit = value.back();
  const int shift = unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0;
  const auto number = number_in<uint64_t>(value.substr(0, value.size() - (shift > 0)));
  if (!number || *number == 0 || *number > (UINT64_MAX >> 1 >> shift))
    refuse(variable, value, "a number of bytes above 0, such as 512M or 2G");
  return *number << shift;
}

std::optional<size_t> environment_choice(const char* variable,
                                         std::initializer_list<std::string_view> choices) {
  const std::string_view value = value_of(variable);
  if (value.empty()) return std::nullopt;
  std::string accepts;
  for (const std::string_view& choice : choices) {
    if (choice == value) return static_cast<size_t>(&choice - choices.begin());
    accepts += (accepts.empty() ? "" : " or ") + std::string(choice);
  }
  refuse(variable, value, accepts);
}

std::string unread_environment(std::span<const std::string_view> read) {
  std::string text;
  for (char** entry = environ; entry && *entry; ++entry) {
    std::string_view name = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
    if (!name.starts_with(kPrefix) || std::ranges::count(read, name) > 0) continue;
    const auto distance = [&](std::string_view other) { return edit_distance(name, other); };
    const std::string_view nearest = *std::ranges::min_element(read, {}, distance);
    const size_t letters = std::max(name.size(), nearest.size()) - kPrefix.size();
    text += text_of(name, " is set, but nothing reads it");
    if (2 * distance(nearest) < letters)  // LOCUS_THREADS: LOCUS_NUM_THREADS
      text += text_of("; did you mean ", nearest, "?");
    text += '\n';
  }
  return text;
}

}  // namespace locus
