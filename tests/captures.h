// What the tests of captures share.
#pragma once

#include <locus/core/capture.h>
#include <locus/core/device.h>
#include <locus/ops/create.h>

namespace locus::test {

// A capture of what f does; f's result is the graph's.
inline Graph recorded(Context c, auto f) {
  Capture capture(c);
  f();
  return capture.end();
}

// Takes and frees memory of many sizes, with other bytes in it.
inline void churn(Context c) {
  for (int64_t n : {1, 40, 300, 3000, 70000}) full({n}, 77, c).copyto(c);
}

// While one lives, a context has no more memory than it uses now, and `spare` bytes.
class Shortage {
 public:
  explicit Shortage(Context c, size_t spare = 0) : pool_(memory_pool(c)) {
    wait_all();
    pool_.release_cached();
    pool_.set_limit(pool_.stats().reserved + spare);
  }
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;
  ~Shortage() { pool_.set_limit(0); }

 private:
  MemoryPool& pool_;
};

}  // namespace locus::test
