#include <locus/core/ranks/rank_purpose.h>

#include <bit>
#include <utility>

namespace locus::cluster {
namespace {

thread_local const Purpose* innermost = nullptr;

}  // namespace

Hash& Hash::mix(uint64_t word) {
  value_ = (value_ ^ word) * 0x9e3779b97f4a7c15u;
  value_ ^= value_ >> 32;
  return *this;
}

Hash& Hash::add(std::string_view text) {
  mix(text.size());
  for (const char c : text) value_ = (value_ ^ static_cast<uint8_t>(c)) * 0x100000001b3u;  // FNV-1a
  return *this;
}

Hash& Hash::add(double number) { return mix(std::bit_cast<uint64_t>(number)); }

uint64_t hash_of(std::string_view text) { return Hash().add(text).value(); }

Purpose::Purpose(const Hash& hash, std::function<std::string()> text)
    : outer_(std::exchange(innermost, this)),
      hash_(outer_ ? Hash().add(outer_->hash_).add(hash.value()).value() : hash.value()),
      text_(std::move(text)) {}
Purpose::~Purpose() { innermost = outer_; }

bool Purpose::any() { return innermost != nullptr; }
uint64_t Purpose::hash() { return innermost ? innermost->hash_ : 0; }
std::string Purpose::text() { return innermost ? innermost->all() : ""; }

std::string Purpose::all() const { return outer_ ? outer_->all() + ": " + text_() : text_(); }

}  // namespace locus::cluster
