#include <locus/core/base/at_line.h>

namespace locus {
namespace {

constexpr const char* kBegin = " (at ";

}  // namespace

std::string without_line(const std::string& text) {
  const size_t at = text.rfind(kBegin);
  const bool ends = at != std::string::npos && text.find(')', at) + 1 == text.size();
  return ends ? text.substr(0, at) : text;
}

std::string with_line(const std::string& text, Caller from) {
  return from.file && !from.in_library ? without_line(text) + kBegin + to_string(from) + ")" : text;
}

void rethrow_at(Caller from) {
  std::rethrow_exception(reworded([&](const std::string& text) { return with_line(text, from); }));
}

}  // namespace locus
