// SHA-256, and keys made of several fields. Internal.
#pragma once

#include <string>
#include <string_view>

namespace locus {

// The 64 hexadecimal digits of the text's SHA-256 (FIPS 180-4).
std::string sha256(std::string_view text);

// Appends a field with its length, so different lists of fields make different keys.
void add_field(std::string& key, std::string_view field);

}  // namespace locus
