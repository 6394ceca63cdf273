#include <locus/core/base/text.h>

#include <cstdarg>
#include <cstdio>

namespace locus {

std::string formatted(const char* format, ...) {
  char text[512];
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return text;
}

}  // namespace locus
