// Row-major matrices as Eigen sees them, and loops over them. Compiled once per instruction set.
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
using VectorMap = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>>;

template <class T>
bool are_finite(const T* x, int64_t n) {
  return std::all_of(x, x + n, [](T v) { return std::isfinite(v); });
}

// Calls f(i) for each of `count` matrices; several threads share them. The time of a call grows
// with rows * columns * depth.
inline void for_each_matrix(int64_t count, int64_t rows, int64_t columns, int64_t depth,
                            const auto& f) {
  constexpr double kWork = 1 << 16;  // of a thread
  const double work =
      static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth);
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(kWork / std::max(1., work)));
  parallel_ranges(count, grain, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) f(i);
  });
}

}  // namespace locus::LOCUS_ISA_NAMESPACE
