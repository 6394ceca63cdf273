// Files that a reader sees whole or not at all, also after a crash of the machine.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <locus/core/noncopyable.h>

namespace locus {

// Written beside its path, and renamed over it by commit(). What is not committed leaves nothing.
// `who` begins the texts of errors, which are Errors.
class AtomicFile : NonCopyable {
 public:
  AtomicFile(std::string who, std::string path);
  ~AtomicFile();

  void write(const void* data, size_t bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* what, const std::string& where) const;

  std::string who_, path_, temp_;
  int fd_ = -1;
  bool done_ = false;
};

// All that a file has. FormatError where it cannot be read, which names it and what was expected.
std::string read_file(const std::string& path, std::string_view expected);

// The names in a folder reach the disk. Not every file system can do that: errors are ignored.
void flush_folder(const std::string& folder);

}  // namespace locus
