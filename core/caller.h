// The user's source line, carried to whatever copies or waits so that reports can name it.
#pragma once

#include <string>

namespace locus {

// Pass as the last default argument: `Caller from = Caller::here()` is evaluated at the call site.
// (Not std::source_location, which clang 14 lacks.)
struct Caller {
  const char* file = nullptr;
  unsigned line = 0;

  static constexpr Caller here(const char* file = __builtin_FILE(),
                               unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

// "train.cc:152"
inline std::string to_string(Caller c) {
  return c.file ? std::string(c.file) + ":" + std::to_string(c.line) : "(line not known)";
}

// For operators, which take no default arguments: converting the operand records the line.
// Borrows `value` for the duration of the full expression.
template <class V>
struct At {
  At(const V& v, Caller c = Caller::here()) : value(v), from(c) {}
  const V& value;
  Caller from;
};

}  // namespace locus
