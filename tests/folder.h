// Where a test keeps its files.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <locus/core/error.h>
#include <locus/core/noncopyable.h>

namespace locus::test {

// A new directory in testing::TempDir(), which no other run of the tests has; gone with this.
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
    std::string name = testing::TempDir() + "locus_XXXXXX";
    if (!mkdtemp(name.data())) throw Error("no directory ", name, " can be made");
    return name;
  }
};

}  // namespace locus::test
