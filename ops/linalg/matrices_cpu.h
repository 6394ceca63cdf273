// Matrices as Eigen sees them, and loops over them. Compiled once per instruction set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <Eigen/Core>

#include <locus/devices/cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using MatrixMap = Eigen::Map<Matrix<T>>;
template <class T>
using ConstMap = Eigen::Map<const Matrix<T>>;
template <class T>
using ColumnMap = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>>;
template <class T>
using VectorMap = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>>;

template <class T>
bool are_finite(const T* x, int64_t n) {
  return std::all_of(x, x + n, [](T v) { return std::isfinite(v); });
}

// The calls that one thread makes, if the time of a call grows with rows * columns * depth.
inline int64_t choose_grain(int64_t rows, int64_t columns, int64_t depth) {
  constexpr double kWork = 1 << 16;
  const double work =
      static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth);
  return std::max<int64_t>(1, static_cast<int64_t>(kWork / std::max(1., work)));
}

// Calls f(i) for each of `count` matrices; several threads share them. The time of a call grows
// with rows * columns * depth.
inline void for_each_matrix(int64_t count, int64_t rows, int64_t columns, int64_t depth,
                            const auto& f) {
  parallel_ranges(count, choose_grain(rows, columns, depth), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) f(i);
  });
}

// Calls f(first, width) for blocks of `count` columns; several threads share them, unless they
// share matrices. The time of a column grows with rows * rows. The blocks, and so the bits, do not
// depend on the number of threads.
inline void for_each_block(int64_t count, int64_t rows, const auto& f) {
  constexpr int64_t kWidth = 64;
  const int64_t blocks = (count + kWidth - 1) / kWidth;
  parallel_ranges(blocks, choose_grain(rows, rows, kWidth), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) f(i * kWidth, std::min(kWidth, count - i * kWidth));
  });
}

}  // namespace locus::LOCUS_ISA_NAMESPACE
