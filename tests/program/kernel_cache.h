// What tests of the kernel cache share.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <locus/core/program/cache.h>
#include <locus/core/program/digest.h>
#include "tests/support/contexts.h"
#include "tests/support/folder.h"

namespace locus::test {

namespace fs = std::filesystem;
inline constexpr size_t kLarge = 1 << 30;

inline std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<fs::path> code_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().size() == 64) files.push_back(entry.path());
  return files;
}

class KernelCacheTest : public testing::Test {
 protected:
  // Through a cache as a new process has it. Counts compiles_.
  std::string get(const std::string& key, const std::string& code = "code") {
    KernelCache cache(path_, kLarge);
    return get(cache, key, code);
  }
  std::string get(KernelCache& cache, const std::string& key, const std::string& code = "code") {
    return *cache.get(key, [&] {
      ++compiles_;
      return code;
    });
  }
  fs::path file_of(const std::string& key) const { return fs::path(path_) / sha256(key); }
  Folder folder_;
  const std::string path_ = folder_ / "kernels";
  int compiles_ = 0;
};

}  // namespace locus::test
