// Memory layout of views. Internal to core.
#pragma once

#include <algorithm>
#include <cstddef>

#include <locus/core/kernel.h>

namespace locus {

inline bool same_layout(const View& a, const View& b) {
  return a.meta.dtype == b.meta.dtype && a.meta.rank == b.meta.rank &&
         std::equal(a.meta.shape, a.meta.shape + a.meta.rank, b.meta.shape) &&
         std::equal(a.stride, a.stride + a.meta.rank, b.stride);
}

// Whether elements fill memory without gaps, in some order of the axes.
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

// Whether several elements share memory.
inline bool repeats(const View& v) {
  bool any = false;
  for (int i = 0; i < v.meta.rank; ++i) any = any || (v.stride[i] == 0 && v.meta.shape[i] > 1);
  return any && v.meta.size() > 0;
}

// The bytes of a view with elements: from its first byte to one past its last.
struct ByteRange {
  const std::byte *begin, *end;
  bool filled;  // without gaps
};
inline ByteRange byte_range(const View& v) {
  int64_t first = 0, last = 0;
  for (int i = 0; i < v.meta.rank; ++i) {
    const int64_t reach = (v.meta.shape[i] - 1) * v.stride[i];
    (reach < 0 ? first : last) += reach;
  }
  const auto* const data = static_cast<const std::byte*>(v.data);
  const int size = size_of(v.meta.dtype);
  return {data + first * size, data + (last + 1) * size, dense(v)};
}
// Sharing of views with gaps is found only if both begin at the same byte.
inline bool share_bytes(const ByteRange& a, const ByteRange& b) {
  return a.begin < b.end && b.begin < a.end && ((a.filled && b.filled) || a.begin == b.begin);
}

}  // namespace locus
