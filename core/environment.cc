#include <locus/core/environment.h>

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

}  // namespace locus
