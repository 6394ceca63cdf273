#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include <locus/core/capture.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/ops/create.h>

namespace locus::test {

// A capture of f; f's result is the graph's.
inline Graph recorded(Context c, auto f) {
  Capture capture(c);
  f();
  return capture.end();
}

// Takes and frees memory of many sizes, with other bytes in it.
inline void churn(Context c) {
  for (int64_t n : {1, 40, 300, 3000, 70000}) full({n}, 77, c).copyto(c);
}

// During its lifetime, a context has no memory beyond its current use and `spare` bytes.
class Shortage {
 public:
  explicit Shortage(Context c, size_t spare = 0)
      : pool_(memory_pool(c)), stream_(device(c).stream(Lane::compute)) {
    wait_all();
    pool_.release_cached();
    const size_t reserved = pool_.stats().reserved;
    pool_.set_limit(std::max(reserved, size_t{1}));
    // Takes free memory beside blocks in use.
    for (size_t bytes = size_t{1} << 30; bytes >= size_t{16} << 20; bytes /= 2) try {
        for (;;) taken_.emplace_back(pool_.allocate(bytes, stream_), bytes);
      } catch (const OutOfMemory&) {
      }
    pool_.set_limit(reserved + spare);
  }
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;
  ~Shortage() {
    for (const auto& [memory, bytes] : taken_) pool_.deallocate(memory, bytes, stream_);
    pool_.set_limit(0);
  }

 private:
  MemoryPool& pool_;
  const StreamView stream_;
  std::vector<std::pair<void*, size_t>> taken_;
};

}  // namespace locus::test
