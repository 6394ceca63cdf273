#include <locus/core/program/source_key.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include <locus/core/base/text.h>
#include <locus/core/program/digest.h>
#include <locus/core/program/once.h>

namespace locus {
namespace {

// Headers have static lifetime, so their digest is computed once.
std::string digest_of(std::span<const SourceFile> headers) {
  static auto& digests = *new Once<std::string, std::string>;
  const auto address = reinterpret_cast<uintptr_t>(headers.data());
  return digests.get(text_of(address, ' ', headers.size()), [&] {
    std::string all;
    for (const SourceFile& header : headers) {
      add_field(all, header.name);
      add_field(all, header.text);
    }
    return sha256(all);
  });
}

// Whether the text includes files that are neither among the headers nor the compiler's.
bool includes_others(std::string_view text, std::span<const SourceFile> headers) {
  constexpr std::string_view kInclude = "include";
  for (size_t at = 0; (at = text.find(kInclude, at)) != text.npos;) {
    const size_t hash = text.find_last_not_of(" \t", at - 1);
    at = text.find_first_not_of(" \t", at + kInclude.size());
    if (hash == text.npos || text[hash] != '#' || at == text.npos || text[at] == '<') continue;
    const std::string_view rest = text.substr(at);
    if (std::ranges::none_of(headers, [&](const SourceFile& header) {
          return rest.starts_with(text_of('"', header.name, '"'));
        }))
      return true;
  }
  return false;
}

// Whether code depends on the source and the compiler alone, and on no other files or processor.
bool self_contained(const ProgramSource& source) {
  for (const std::string_view option : source.options)
    for (const std::string_view reads : {"-I", "-i", "--include", "--pre-include", "@"})
      if (option.starts_with(reads) || option.ends_with("=native")) return false;
  return !includes_others(source.text, source.headers) &&
         std::ranges::none_of(source.headers, [&](const SourceFile& header) {
           return includes_others(header.text, source.headers);
         });
}

}  // namespace

std::string source_key(const ProgramSource& source) {
  std::string key;
  for (const auto* list : {&source.options, &source.functions, &source.expressions}) {
    add_field(key, std::to_string(list->size()));
    for (const std::string& field : *list) add_field(key, field);
  }
  add_field(key, source.contract ? "contract" : "");
  add_field(key, digest_of(source.headers));
  add_field(key, source.name);
  add_field(key, source.text);
  add_field(key, source.code.empty() ? "" : sha256(source.code));
  return key;
}

std::string code_key(const ProgramSource& source,
                     std::initializer_list<std::string_view> compiler) {
  if (!self_contained(source)) return "";
  std::string key;
  for (const std::string_view field : compiler) add_field(key, field);
  return key + source_key(source);
}

}  // namespace locus
