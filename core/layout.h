// How a view lies in memory. Internal to core.
#pragma once

#include <algorithm>

#include <locus/core/kernel.h>

namespace locus {

inline bool same_layout(const View& a, const View& b) {
  return a.meta.dtype == b.meta.dtype && a.meta.rank == b.meta.rank &&
         std::equal(a.meta.shape, a.meta.shape + a.meta.rank, b.meta.shape) &&
         std::equal(a.stride, a.stride + a.meta.rank, b.stride);
}

// Whether its elements fill memory, in some order of the axes, without gaps.
inline bool dense(const View& v) {
  int64_t expected = 1;
  int used = 0;
  for (int found = 0; found < v.meta.rank; ++found) {
    int next = -1;
    for (int i = 0; i < v.meta.rank; ++i)
      if (!(used >> i & 1) && (v.meta.shape[i] == 1 || v.stride[i] == expected)) {
        next = i;
        break;
      }
    if (next < 0) return false;
    used |= 1 << next;
    expected *= v.meta.shape[next];
  }
  return true;
}

}  // namespace locus
