// Caller: the user's source line, passed to ops, copies and waits. Errors and reports name the
// line.
#pragma once

#include <string>

// true while Locus itself is compiled.
#ifndef LOCUS_LIBRARY
#define LOCUS_LIBRARY false
#endif

namespace locus {

// Use as the last default argument: `Caller from = Caller::here()` is evaluated at the call site.
// clang 14 lacks std::source_location.
struct Caller {
  const char* file = nullptr;
  unsigned line = 0;
  bool in_library = false;  // a line of Locus: named by reports of copies, not by errors

  static constexpr Caller here(const char* file = __builtin_FILE(),
                               unsigned line = __builtin_LINE(), bool in_library = LOCUS_LIBRARY) {
    return {file, line, in_library};
  }
};
#undef LOCUS_LIBRARY
// "train.cc:152"
inline std::string to_string(Caller c) {
  return c.file ? std::string(c.file) + ":" + std::to_string(c.line) : "(line not known)";
}

// For operators, which have no default arguments: converting the operand records the line. Borrows
// `value` for the duration of the full expression.
template <class V>
struct At {
  At(const V& v, Caller c = Caller::here()) : value(v), from(c) {}
  const V& value;
  Caller from;
};

}  // namespace locus
