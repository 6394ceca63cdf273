// Checks of numeric options: the range of each, and a ValueError that names option, value and
// range.
#pragma once

#include <cmath>
#include <optional>

#include <locus/core/error.h>

namespace locus::options {

struct Range {
  const char* text;
  bool (*holds)(double);
};
inline constexpr Range finite{"a finite number", [](double v) { return std::isfinite(v); }};
inline constexpr Range not_negative{"a finite number >= 0",
                                    [](double v) { return v >= 0 && std::isfinite(v); }};
inline constexpr Range positive{"a finite number > 0",
                                [](double v) { return v > 0 && std::isfinite(v); }};
inline constexpr Range share{"a number in [0, 1]", [](double v) { return v >= 0 && v <= 1; }};
inline constexpr Range decay{"a number in [0, 1)", [](double v) { return v >= 0 && v < 1; }};
inline constexpr Range count{"a number >= 1", [](double v) { return v >= 1; }};

void expect(const auto& who, const char* option, const auto& value, bool fits,
            const auto&... expected) {
  if (!fits) [[unlikely]]
    throw ValueError(who, ": ", option, " ", value, "; expected ", expected...);
}
void expect(const auto& who, const char* option, const auto& value, const Range& range) {
  expect(who, option, value, range.holds(static_cast<double>(value)), range.text);
}
// An unset option passes.
void expect(const auto& who, const char* option, const std::optional<double>& value,
            const Range& range) {
  if (value) expect(who, option, *value, range);
}

// Checks that an enum's value is 0 to `last`.
template <class E>
void expect_enumerator(const auto& who, const char* option, E value, E last, const char* names) {
  const int v = static_cast<int>(value);
  expect(who, option, v, v >= 0 && v <= static_cast<int>(last), names);
}

// Checks that a function is not empty.
void expect_function(const auto& who, const char* option, const auto& f) {
  if (!f) [[unlikely]]
    throw ValueError(who, ": ", option, " is empty; expected a function");
}

}  // namespace locus::options
