#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <locus/core/error.h>
#include <locus/core/noncopyable.h>

namespace locus::test {

// A new temporary directory, removed by the destructor.
class Folder : NonCopyable {
 public:
  Folder() : path(made()) {}
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string operator/(const std::string& name) const { return path / name; }

  const std::filesystem::path path;

 private:
  static std::filesystem::path made() {
    std::string name = std::filesystem::temp_directory_path() / "locus_XXXXXX";
    if (!mkdtemp(name.data())) throw Error("no directory ", name, " can be made");
    return name;
  }
};

}  // namespace locus::test
