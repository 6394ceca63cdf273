// Purposes of collective calls, which ranks compare. Internal to core, ops and nn.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <locus/core/noncopyable.h>

namespace locus::cluster {

// A hash of values in order, the same in every process.
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

// While it lives, this thread's collective calls have this purpose, nested in the outer purpose. If
// the hashes of ranks' purposes differ, every rank throws, also for equal tensors (core/cluster.h).
// `text` describes the purpose; it is called only for errors.
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
