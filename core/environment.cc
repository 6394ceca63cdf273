#include <locus/core/environment.h>

#include <charconv>
#include <cstdlib>
#include <string>

#include <locus/core/error.h>

namespace locus {
namespace {

std::string_view value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

[[noreturn]] void refuse(const char* variable, std::string_view value, const std::string& accepts) {
  throw Error(std::string(variable) + "=" + std::string(value) + ": expected " + accepts);
}

}  // namespace

std::optional<int64_t> environment_number(const char* variable, int64_t lowest, int64_t highest) {
  const std::string_view value = value_of(variable);
  if (value.empty()) return std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || number < lowest ||
      number > highest) {
    refuse(variable, value,
           "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest));
  }
  return number;
}

std::optional<size_t> environment_bytes(const char* variable) {
  const std::string_view value = value_of(variable);
  if (value.empty()) return std::nullopt;
  uint64_t number = 0;
  const char* last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, number);
  int shift = 0;
  if (end + 1 == last) shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : -1;
  if (error != std::errc{} || last - end > 1 || shift < 0 || number == 0 ||
      number > (UINT64_MAX >> 1 >> shift))
    refuse(variable, value, "a number of bytes above 0, such as 512M or 2G");
  return number << shift;
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

}  // namespace locus
