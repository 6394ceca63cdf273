// The LOCUS_* variables of the environment. A value that makes no sense throws Error naming the
// variable, the value and what it may be, at each call that needs it (LOCUS_P2P: a copy between
// GPUs); it is never guessed. A misspelled variable is a warning on stderr when the program starts.
// Threads: any, as long as nobody calls setenv.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace locus {

// nullopt when the variable is unset or empty.
std::optional<int64_t> environment_number(const char* variable, int64_t lowest, int64_t highest);
// Bytes: "512M", "2G", "65536"; suffixes K, M, G mean powers of 1024.
std::optional<size_t> environment_bytes(const char* variable);
// The position of the value in `choices`.
std::optional<size_t> environment_choice(const char* variable,
                                         std::initializer_list<std::string_view> choices);

// All variables that some build of the library reads: one list, so that a build without CUDA knows
// LOCUS_P2P too.
std::span<const std::string_view> environment_variables();
// A line for each LOCUS_* variable that is set, not in environment_variables() and nearly one of
// them: less than half of what follows LOCUS_ differs. Others belong to other programs.
std::string misspelled_environment();

}  // namespace locus
