// The LOCUS_* variables of the environment. A value that makes no sense throws Error naming the
// variable, the value and what it may be, at each call that needs it (LOCUS_P2P: a copy between
// GPUs); it is never guessed. When a program starts, stderr names each LOCUS_* variable that is set
// but that nothing reads, once per process.
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

// A line for each LOCUS_* variable that is set and is not one of `read`, such as
//   LOCUS_SYNK is set, but nothing reads it; did you mean LOCUS_SYNC?
// The question follows if one of `read` is near: less than half of the letters after LOCUS_ differ.
// Empty if there is no such variable.
std::string unread_environment(std::span<const std::string_view> read);

}  // namespace locus
