#include <locus/core/base/at_line.h>

#include <string_view>

namespace locus {
namespace {

constexpr const char* kBegin = " (at ";

bool is_line_number(std::string_view s) {
  return !s.empty() && s.find_first_not_of("0123456789") == s.npos;
}

// The position of " (at FILE:LINE)" at the end, or npos.
size_t line_of(std::string_view text) {
  const size_t begin = text.rfind(kBegin), colon = text.rfind(':');
  const bool ends = begin != text.npos && colon != text.npos && colon > begin &&
                    text.ends_with(')') &&
                    is_line_number(text.substr(colon + 1, text.size() - colon - 2));
  return ends ? begin : text.npos;
}

}  // namespace

// Inline functions of headers are compiled with the user's code.
bool is_users(Caller from) {
  const std::string_view file = from.file ? from.file : "";
  const auto in = [&](const char* folder) { return file.find(folder) != file.npos; };
  return !file.empty() && !from.in_library && !in("/include/locus/") && !in("/include/c++/");
}

std::string without_line(const std::string& text) { return text.substr(0, line_of(text)); }

std::string line_in(const std::string& text) {
  const size_t at = line_of(text);
  return at == text.npos ? "" : text.substr(at);
}

std::string with_line(const std::string& text, Caller from) {
  return is_users(from) && line_of(text) == text.npos ? text + kBegin + to_string(from) + ")"
                                                      : text;
}

void rethrow_at(Caller from) {
  std::rethrow_exception(reworded([&](const std::string& text) { return with_line(text, from); }));
}

}  // namespace locus
