// What collective calls are for, as ranks compare it. Internal to core, ops and nn.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <locus/core/noncopyable.h>

namespace locus::cluster {

// A hash of the members of a struct, one after the other: the same in every process.
class Hash {
 public:
  Hash& add(std::string_view text);
  Hash& add(const char* text) { return add(std::string_view(text)); }
  Hash& add(double number);
  Hash& add(std::integral auto number) { return mix(static_cast<uint64_t>(number)); }
  uint64_t value() const { return value_; }

 private:
  Hash& mix(uint64_t word);

  uint64_t value_ = 0xcbf29ce484222325u;
};
uint64_t hash_of(std::string_view text);

// While it lives, this thread's collective calls are for this purpose, within the purpose around
// it. Ranks whose purposes differ in their hashes throw, also if their tensors are alike
// (core/cluster.h). Only then, or if a call fails, `text` is called: it says the same in words.
class [[nodiscard]] Purpose : NonCopyable {
 public:
  Purpose(const Hash& hash, std::function<std::string()> text);
  ~Purpose();

  // Of this thread, the outermost purpose first.
  static bool any();
  static uint64_t hash();
  static std::string text();  // "": none

 private:
  std::string all() const;

  const Purpose* const outer_;
  const uint64_t hash_;
  const std::function<std::string()> text_;
};

}  // namespace locus::cluster
