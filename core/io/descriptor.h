// File descriptors of the system's own calls. Internal.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string_view>

#include <locus/core/noncopyable.h>

namespace locus {

// Closed at the end of a scope. -1: none.
struct Descriptor : NonCopyable {
  explicit Descriptor(int descriptor) : fd(descriptor) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  const int fd;
};

// False: an error, see errno.
inline bool write_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    data.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace locus
