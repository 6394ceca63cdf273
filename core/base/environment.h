// The LOCUS_* environment variables. An invalid value throws Error at each call that needs it
// (LOCUS_P2P: a copy between GPUs). The text names the variable, the value and valid values. When a
// program starts, stderr names each LOCUS_* variable that is set but never read, once per process.
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

// nullopt if the variable is unset or empty.
std::optional<int64_t> environment_number(const char* variable, int64_t lowest, int64_t highest);
// Bytes: "512M", "2G", "65536"; suffixes K, M, G mean powers of 1024.
std::optional<size_t> environment_bytes(const char* variable);
// The index of the value in `choices`.
std::optional<size_t> environment_choice(const char* variable,
                                         std::initializer_list<std::string_view> choices);

// A line for each LOCUS_* variable that is set and not in `read`, such as
//   LOCUS_SYNK is set, but nothing reads it; did you mean LOCUS_SYNC?
// The question follows if one of `read` is near: less than half of the letters after LOCUS_ differ.
// Empty if there is no such variable.
std::string unread_environment(std::span<const std::string_view> read);

}  // namespace locus
