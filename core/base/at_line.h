// The user's line in errors: "... (at train.cc:152)", for functions that take a Caller. Internal.
#pragma once

#include <string>

#include <locus/core/caller.h>
#include <locus/core/error.h>

namespace locus {

// Appends the line to the text. A text that ends with a line is unchanged, so that the innermost
// line of the user's code stays. Lines of Locus and of the standard library are never appended.
std::string with_line(const std::string& text, Caller from);
std::string without_line(const std::string& text);
// Whether the line is known and of the user's code: not of Locus or the standard library.
bool is_users(Caller from);
std::string line_in(const std::string& text);  // " (at train.cc:152)", or ""

}  // namespace locus
