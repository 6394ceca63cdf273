// Small tiles of registers over packed panels, for matrix products and convolutions on the host.
// Compiled once per instruction set; included by *_cpu.cc only.
//
// A panel of `a` holds R rows, adjacent for each step of the sum; a panel of `b` holds kColumns<T>
// columns. Each element is summed along the depth in one order. Results do not depend on panels or
// threads.
#pragma once

#include <cstring>

#include <locus/core/hd.h>

namespace locus::LOCUS_ISA_NAMESPACE {

#if defined(__AVX512F__)
inline constexpr int64_t kVectorBytes = 64, kMaxRows = 12;
#elif defined(__AVX2__)
inline constexpr int64_t kVectorBytes = 32, kMaxRows = 6;
#else
inline constexpr int64_t kVectorBytes = 16, kMaxRows = 6;
#endif

template <class T>
inline constexpr int64_t kVectorLanes = kVectorBytes / static_cast<int64_t>(sizeof(T));
template <class T>
inline constexpr int64_t kColumns = 2 * kVectorLanes<T>;
// Longer sums are sums of blocks, for accuracy, and a panel of b stays in the first-level cache.
inline constexpr int64_t kBlockDepth = 256;

// c[i][j] (ldc apart) = the sum over k < depth of a[k][i] · b[k][j]. a is a panel of 1 to kMaxRows
// rows, b a panel of kColumns<T> columns with steps `b_step` apart. With `add` the sum is added to
// c.
template <class T>
void multiply_panel(int64_t rows, int64_t depth, const T* a, const T* b, int64_t b_step, T* c,
                    int64_t ldc, bool add);
extern template void multiply_panel(int64_t, int64_t, const float*, const float*, int64_t, float*,
                                    int64_t, bool);
extern template void multiply_panel(int64_t, int64_t, const double*, const double*, int64_t,
                                    double*, int64_t, bool);

// Divides rows into panels of about equal size.
struct Panels {
  explicit Panels(int64_t n)
      : rows(n),
        count((n + kMaxRows - 1) / kMaxRows),
        each(count > 0 ? (n + count - 1) / count : 1) {}
  int64_t rows, count, each;
  int64_t padded() const { return count * each; }
};

// The same for all panels of rows; a's panels are adjacent. c holds padded() rows.
template <class T>
void multiply(const Panels& rows, int64_t depth, const T* a, const T* b, T* c, int64_t ldc,
              bool add) {
  for (int64_t panel = 0; panel < rows.count; ++panel)
    multiply_panel(rows.each, depth, a + panel * rows.each * depth, b, kColumns<T>,
                   c + panel * rows.each * ldc, ldc, add);
}

}  // namespace locus::LOCUS_ISA_NAMESPACE
