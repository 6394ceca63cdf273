#include <locus/core/io/atomic_file.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <system_error>

#include <locus/core/error.h>

namespace locus {

AtomicFile::AtomicFile(std::string who, std::string path)
    : who_(std::move(who)), path_(std::move(path)) {
  struct stat there {};
  if (::stat(path_.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode))
    throw Error(who_, ": ", path_, " is a device or a pipe; expected a file, or none");
  static std::atomic<unsigned> count{0};
  do {  // another host, or a killed process, may have left a file of this name
    temp_ = path_ + ".tmp-" + std::to_string(getpid()) + "-" + std::to_string(count++);
    fd_ = ::open(temp_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  } while (fd_ < 0 && errno == EEXIST);
  if (fd_ < 0) fail("cannot create", path_);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!done_) ::unlink(temp_.c_str());
}

void AtomicFile::write(const void* data, size_t bytes) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, p, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write", temp_);
    p += n;
    bytes -= static_cast<size_t>(n);
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail("cannot flush", temp_);
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) fail("cannot close", temp_);
  if (std::rename(temp_.c_str(), path_.c_str()) != 0) fail("cannot rename to", path_);
  done_ = true;
  const size_t slash = path_.rfind('/');
  flush_folder(slash == std::string::npos ? "." : path_.substr(0, slash + 1));
}

void AtomicFile::fail(const char* what, const std::string& where) const {
  throw Error(who_, ": ", what, " ", where, ": ", std::generic_category().message(errno));
}

std::string read_file(const std::string& path, std::string_view expected) {
  std::ifstream file(path, std::ios::binary);
  std::string text, line;
  // By lines: for a folder, an iterator throws, but not an Error.
  while (std::getline(file, line)) text += file.eof() ? line : line + "\n";
  if (!file.is_open() || file.bad())
    throw FormatError(path, ": cannot be read; expected ", expected);
  return text;
}

void flush_folder(const std::string& folder) {
  const int dir = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return;
  ::fsync(dir);
  ::close(dir);
}

}  // namespace locus
