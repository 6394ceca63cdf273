// Packs the operands of a product into panels (matmul_tile_cpu.h). Compiled once per instruction
// set; included by *_cpu.cc only.
//
// Every function packs `lines` lines (rows of a, columns of b) of `depth` elements: element k of
// line i goes to to[k * step + i]. It may write up to kVectorLanes<T> elements past the panel.
#pragma once

#include <utility>

#include <locus/ops/matmul/matmul_tile_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {

template <class T>
struct PackVector {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};

// Swaps the off-diagonal S x S blocks of each 2S x 2S block.
template <int64_t S, class T, int64_t... I>
LOCUS_HD void exchange(typename PackVector<T>::type* v, std::integer_sequence<int64_t, I...>) {
  constexpr int64_t n = kVectorLanes<T>;
#pragma GCC unroll 16
  for (int64_t i = 0; i < n; ++i) {
    if ((i & S) != 0) continue;
    const auto a = v[i], b = v[i + S];
    v[i] = __builtin_shufflevector(a, b, ((I & S) != 0 ? n + I - S : I)...);
    v[i + S] = __builtin_shufflevector(a, b, ((I & S) != 0 ? n + I : I + S)...);
  }
}

// Transposes kVectorLanes<T> vectors as a square matrix.
template <class T>
LOCUS_HD void transpose(typename PackVector<T>::type* v) {
  constexpr int64_t n = kVectorLanes<T>;
  constexpr auto lanes = std::make_integer_sequence<int64_t, n>{};
  if constexpr (n >= 2) exchange<1, T>(v, lanes);
  if constexpr (n >= 4) exchange<2, T>(v, lanes);
  if constexpr (n >= 8) exchange<4, T>(v, lanes);
  if constexpr (n >= 16) exchange<8, T>(v, lanes);
}

// A line's elements are contiguous; lines are `ld` apart. At most kVectorLanes<T> lines; missing
// lines are zeros.
template <class T>
void pack_across_vector(const T* from, int64_t ld, int64_t lines, int64_t depth, T* to,
                        int64_t step) {
  constexpr int64_t n = kVectorLanes<T>;
  using V = typename PackVector<T>::type;
  int64_t k = 0;
  for (; k + n <= depth; k += n) {
    V v[n];
#pragma GCC unroll 16
    for (int64_t i = 0; i < n; ++i) {
      v[i] = V{};
      if (i < lines) std::memcpy(&v[i], from + i * ld + k, sizeof(V));
    }
    transpose<T>(v);
#pragma GCC unroll 16
    for (int64_t i = 0; i < n; ++i) std::memcpy(to + (k + i) * step, &v[i], sizeof(V));
  }
  for (; k < depth; ++k)
    for (int64_t i = 0; i < n; ++i) to[k * step + i] = i < lines ? from[i * ld + k] : T(0);
}

// From the last vector of lines to the first: later writes overwrite what a vector writes past its
// lines.
template <class T>
void pack_across(const T* from, int64_t ld, int64_t lines, int64_t depth, T* to, int64_t step) {
  constexpr int64_t n = kVectorLanes<T>;
  for (int64_t i = (lines - 1) / n * n; i >= 0; i -= n)
    pack_across_vector(from + i * ld, ld, lines - i < n ? lines - i : n, depth, to + i, step);
}

// Lines are adjacent; steps are `ld` apart.
template <class T>
void pack_along(const T* from, int64_t ld, int64_t lines, int64_t depth, T* to, int64_t step) {
  constexpr int64_t n = kVectorLanes<T>;
  for (int64_t i = (lines - 1) / n * n; i >= 0; i -= n) {
    const int64_t some = lines - i < n ? lines - i : n;
    // Copies whole vectors while these end within the lines of a later step.
    int64_t k = 0;
    for (; k * ld + n <= (depth - 1) * ld + some; ++k)
      std::memcpy(to + k * step + i, from + k * ld + i, kVectorBytes);
    for (; k < depth; ++k)
      for (int64_t j = i; j < i + some; ++j) to[k * step + j] = from[k * ld + j];
  }
}

// A panel of kColumns<T> columns. Columns from n on are zeros.
template <class T>
void pack_columns(const T* from, int64_t ld, bool column_major, int64_t n, int64_t depth, T* to) {
  constexpr int64_t all = kColumns<T>, half = kVectorLanes<T>;
  if (column_major) {
    pack_across_vector(from, ld, n < half ? n : half, depth, to, all);
    pack_across_vector(n > half ? from + half * ld : from, ld, n > half ? n - half : 0, depth,
                       to + half, all);
  } else if (n == all) {
    for (int64_t k = 0; k < depth; ++k) std::memcpy(to + k * all, from + k * ld, all * sizeof(T));
  } else {
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t j = 0; j < all; ++j) to[k * all + j] = j < n ? from[k * ld + j] : T(0);
  }
}

}  // namespace locus::LOCUS_ISA_NAMESPACE
