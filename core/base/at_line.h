// The user's line in errors: "... (at train.cc:152)", for functions that take a Caller. Internal.
#pragma once

#include <string>

#include <locus/core/caller.h>
#include <locus/core/error.h>

namespace locus {

// Appends the line to the text. A text that ends with a line stays as it is: the innermost line of
// the user's code is the one to look at. Lines of Locus itself are never appended.
std::string with_line(const std::string& text, Caller from);
std::string without_line(const std::string& text);
std::string line_in(const std::string& text);  // " (at train.cc:152)", or ""
// In a catch block: throws the Error that is handled, with the line:
//   void Tensor::wait_to_read(Caller from) const try {
//     ...
//   } catch (const Error&) {
//     rethrow_at(from);
//   }
[[noreturn]] void rethrow_at(Caller from);

}  // namespace locus
