// Atomic files: readers see a whole file or none, also after a crash of the machine.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <locus/core/noncopyable.h>

namespace locus {

// Writes a file beside `path`; commit() renames it to `path`. Without commit(), no file is left.
// `who` starts the texts of errors, which are Errors.
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

// A file's contents. If it cannot be read, FormatError with its name and what was expected.
std::string read_file(const std::string& path, std::string_view expected);

// Flushes a folder's entries to disk. Not every file system can, so errors are ignored.
void flush_folder(const std::string& folder);

}  // namespace locus
