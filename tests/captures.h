// What the tests of captures share.
#pragma once

#include <locus/core/capture.h>
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

}  // namespace locus::test
