// Base of what stays where it was made: scopes, locks, owners of handles.
#pragma once

namespace locus {

class NonCopyable {
 protected:
  NonCopyable() = default;
  NonCopyable(const NonCopyable&) = delete;
  NonCopyable& operator=(const NonCopyable&) = delete;
};

}  // namespace locus
