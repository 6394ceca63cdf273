// Text of errors and reports, made of pieces. Internal.
#pragma once

#include <charconv>
#include <concepts>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace locus {

// Joins pieces: strings, characters, numbers, and types with a to_string(). A floating number
// becomes the shortest text that reads back equal: 5, 0.1, 1e-09.
template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::string text;
  [[maybe_unused]] char digits[32];
  const auto append = [&]<class P>(const P& part) {
    using std::to_string;
    if constexpr (std::is_convertible_v<const P&, std::string_view>)
      text += std::string_view(part);
    else if constexpr (std::same_as<P, char>)
      text += part;
    else if constexpr (std::floating_point<P>)
      text.append(digits, std::to_chars(digits, std::end(digits), part).ptr);
    else
      text += to_string(part);
  };
  (append(parts), ...);
  return text;
}

// s without blanks at its ends.
inline std::string_view trimmed(std::string_view s) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t begin = s.find_first_not_of(kBlank);
  return begin == s.npos ? std::string_view()
                         : s.substr(begin, s.find_last_not_of(kBlank) - begin + 1);
}

// Joins of(item) for each item, with `between` between.
template <class F = std::identity>
std::string listed(const auto& items, F of = {}, std::string_view between = ", ") {
  std::string text;
  for (const auto& item : items)
    text += text_of(text.empty() ? "" : between, std::invoke(of, item));
  return text;
}

// As printf, for up to 511 characters.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

// The number that all of `text` spells, or nullopt.
template <class T>
std::optional<T> number_in(std::string_view text) {
  T number{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  return error == std::errc{} && end == last ? std::optional(number) : std::nullopt;
}

}  // namespace locus
