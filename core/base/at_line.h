// The user's line in errors: "... (at train.cc:152)", for functions that take a Caller. Internal.
#pragma once

#include <string>

#include <locus/core/caller.h>
#include <locus/core/error.h>

namespace locus {

// The text with the line at its end, instead of the line that an inner call put there: the
// outermost call that knows a line is the user's. The text as it is for a line of Locus itself.
std::string with_line(const std::string& text, Caller from);
std::string without_line(const std::string& text);
// In a catch block: throws the Error that is handled, with the line:
//   void Tensor::wait_to_read(Caller from) const try {
//     ...
//   } catch (const Error&) {
//     rethrow_at(from);
//   }
[[noreturn]] void rethrow_at(Caller from);

}  // namespace locus
