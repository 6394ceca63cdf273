#include <locus/core/program/source_key.h>

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

// Whether code depends on the source and the compiler alone, and on no other files or processor.
bool self_contained(const ProgramSource& source) {
  for (const std::string_view option : source.options)
    for (const std::string_view reads : {"-I", "-i", "--include", "--pre-include", "@"})
      if (option.starts_with(reads) || option.ends_with("=native")) return false;
  constexpr std::string_view kInclude = "include";
  for (size_t at = 0; (at = source.text.find(kInclude, at)) != source.text.npos;) {
    const size_t hash = source.text.find_last_not_of(" \t", at - 1);
    at = source.text.find_first_not_of(" \t", at + kInclude.size());
    if (hash != source.text.npos && source.text[hash] == '#' && at != source.text.npos &&
        source.text[at] != '<')
      return false;
  }
  return true;
}

}  // namespace

std::string source_key(const ProgramSource& source) {
  std::string key;
  for (const auto* list : {&source.options, &source.functions}) {
    add_field(key, std::to_string(list->size()));
    for (const std::string& field : *list) add_field(key, field);
  }
  add_field(key, source.contract ? "contract" : "");
  add_field(key, digest_of(source.headers));
  add_field(key, source.name);
  add_field(key, source.text);
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
