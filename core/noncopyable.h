// Base of classes without copy or move: scopes, locks, owners.
#pragma once

namespace locus {

class NonCopyable {
 protected:
  NonCopyable() = default;
  NonCopyable(const NonCopyable&) = delete;
  NonCopyable& operator=(const NonCopyable&) = delete;
};

}  // namespace locus
