// Keys of programs' sources. Internal.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <locus/core/program.h>

namespace locus {

// All fields of a source.
std::string source_key(const ProgramSource& source);
// The key of a source's code. `compiler`: the compiler, its version, its target. "" if the source
// includes other files than its headers and the compiler's: their content is not in the key.
std::string code_key(const ProgramSource& source, std::initializer_list<std::string_view> compiler);

}  // namespace locus
