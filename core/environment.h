// The LOCUS_* variables of the environment. A value that makes no sense throws Error naming the
// variable, the value and what it may be, at each call that needs it (LOCUS_P2P: a copy between
// GPUs); it is never guessed. A LOCUS_* variable that no part of the library reads is a warning on
// stderr when the program starts. Threads: any, as long as nobody calls setenv.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
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

// Each part of the library declares what it reads when it is registered; core's own variables are
// declared in environment.cc.
void declare_environment(std::initializer_list<const char*> variables);
// A line for each LOCUS_* variable that is set and not declared, with the nearest name.
std::string unknown_environment();

}  // namespace locus
