// Caller: the user's source line, passed to ops, copies and waits. Errors and reports name the
// line. Example:
//   Tensor lerp(const Tensor& x, const Tensor& y, double t, Caller from = Caller::here()) try {
//     return invoke(lerp_op(), {x, y}, LerpAttrs{t});
//   } catch (const Error&) {
//     rethrow_at(from);
//   }
#pragma once

#include <string>

// true while Locus is compiled.
#ifndef LOCUS_LIBRARY
#define LOCUS_LIBRARY false
#endif

namespace locus {

// Caller::here() as the last default argument: the line of the call.
struct Caller {
  const char* file = nullptr;
  unsigned line = 0;
  bool in_library = false;  // a line of Locus: reports name it, errors do not

  constexpr Caller() = default;  // so that no list of numbers becomes a Caller
  static constexpr Caller here(const char* file = __builtin_FILE(),
                               unsigned line = __builtin_LINE(), bool in_library = LOCUS_LIBRARY) {
    Caller c;
    c.file = file;
    c.line = line;
    c.in_library = in_library;
    return c;
  }
};
#undef LOCUS_LIBRARY
// "train.cc:152"
inline std::string to_string(Caller c) {
  return c.file ? std::string(c.file) + ":" + std::to_string(c.line) : "(line not known)";
}
// Rethrows the caught Error with the line.
[[noreturn]] void rethrow_at(Caller from);

// For operators, which have no default arguments. Borrows `value`.
template <class V>
struct At {
  At(const V& v, Caller c = Caller::here()) : value(v), from(c) {}
  const V& value;
  Caller from;
};

}  // namespace locus
