// Eigenvalues and eigenvectors of symmetric matrices on the host. Compiled once per instruction
// set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include <Eigen/Eigenvalues>

#include <locus/ops/linalg/matrices_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {

using ColumnMatrix = Eigen::MatrixXd;  // f32 is computed in f64, too

// The largest absolute value, rounded down to a power of 2. 1 if all elements are 0.
inline double find_scale(const auto& x) {
  const double max_abs = x.size() > 0 ? x.cwiseAbs().maxCoeff() : 0;
  return max_abs > 0 ? std::scalbn(1., std::ilogb(max_abs)) : 1;
}

using Order = Eigen::Matrix<int64_t, Eigen::Dynamic, 1>;

// Records rotations of neighboring columns of a matrix. Threads apply them later, each to
// its own panels of rows. Rows are independent of each other, so the bits do not depend on the
// number of threads.
class RotatedColumns {
 public:
  explicit RotatedColumns(const ColumnMatrix& q) : m_(q.rows()), n_(q.cols()) {
    for (int64_t first = 0; first < m_; first += kRows) {
      panels_.push_back(Panel::Zero(kRows, n_));
      const int64_t rows = std::min(kRows, m_ - first);
      panels_.back().topRows(rows) = q.middleRows(first, rows);
    }
    rotations_.reserve(static_cast<size_t>(std::min(kMaxRotations, n_ * n_) + n_));
  }

  // The next `count` rotations are of columns (first, first + 1), (first + 1, first + 2) and so on.
  void begin_sweep(int64_t first, int64_t count) {
    if (std::ssize(rotations_) > kMaxRotations) apply();
    sweeps_.push_back({first, count});
  }
  // Columns x and y become c x + s y and c y - s x.
  void rotate(double c, double s) { rotations_.push_back({c, s}); }

  // Applies the rotations and returns the columns in this order.
  ColumnMatrix permuted(const Order& order) {
    apply();
    ColumnMatrix q(m_, n_);
    for (int64_t first = 0; first < m_; first += kRows) {
      const Panel& panel = panels_[static_cast<size_t>(first / kRows)];
      const int64_t rows = std::min(kRows, m_ - first);
      for (int64_t j = 0; j < n_; ++j)
        q.col(j).segment(first, rows) = panel.col(order[j]).head(rows);
    }
    return q;
  }

 private:
  static constexpr int64_t kRows = 32;  // of a panel: with AVX, registers hold a column
  static constexpr int64_t kMaxRotations = 1 << 14;  // 256 KiB stay in the cache
  using Panel = Eigen::Matrix<double, kRows, Eigen::Dynamic>;
  using Column = Eigen::Array<double, kRows, 1>;
  struct Rotation {
    double c, s;
  };
  struct Sweep {
    int64_t first, count;
  };

  void apply() {
    for_each_matrix(std::ssize(panels_), kRows, std::ssize(rotations_), 1,
                    [&](int64_t i) { apply(panels_[static_cast<size_t>(i)]); });
    rotations_.clear();
    sweeps_.clear();
  }
  void apply(Panel& panel) const {
    const Rotation* rotation = rotations_.data();
    for (const auto& [first, count] : sweeps_) {
      Column x = panel.col(first);
      for (int64_t j = first; j < first + count; ++j, ++rotation) {
        const Column y = panel.col(j + 1);
        panel.col(j) = rotation->c * x + rotation->s * y;
        x = rotation->c * y - rotation->s * x;
      }
      panel.col(first + count) = x;
    }
  }

  const int64_t m_, n_;
  std::vector<Panel> panels_;
  std::vector<Rotation> rotations_;
  std::vector<Sweep> sweeps_;
};

// c and s with c x + s y = r and c y - s x = 0. Returns r.
inline double find_rotation(double x, double y, double& c, double& s) {
  constexpr double kSmall = 0x1p-300;
  double r = std::sqrt(x * x + y * y);
  if (r < kSmall) r = std::hypot(x, y);  // the squares underflow
  c = r == 0 ? 1 : x / r;
  s = r == 0 ? 0 : y / r;
  return r;
}

// Calls sweep(start, end) until no element of e is left that is at least `tiny` and is not
// negligible beside its neighbors in d. Between start and end, none is negligible. Returns false if
// this takes too many sweeps.
inline bool iterate(const Eigen::VectorXd& d, const Eigen::VectorXd& e, double tiny,
                    const auto& sweep) {
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  constexpr int64_t kMaxSweeps = 30;  // for each element of d
  const auto is_negligible = [&](int64_t i) {
    const double x = std::abs(e[i]);
    return x < tiny || x <= kEpsilon * (std::abs(d[i]) + std::abs(d[i + 1]));
  };
  int64_t end = d.size() - 1, sweeps = 0;
  while (end > 0) {
    if (is_negligible(end - 1)) {
      --end;
      continue;
    }
    if (++sweeps > kMaxSweeps * d.size()) return false;
    int64_t start = end - 1;
    while (start > 0 && !is_negligible(start - 1)) --start;
    sweep(start, end);
  }
  return d.allFinite();
}

// Diagonalizes the symmetric tridiagonal matrix with diagonal d and off-diagonal e, whose elements
// are at most 1e100. Eigenvalues replace d, in no order, and e is lost. `columns`, if given, are
// rotated with the matrix. Returns false if the iteration does not converge.
//
// The method is the implicit QR iteration with Wilkinson's shift: imtql2 of EISPACK, from top to
// bottom.
inline bool diagonalize(Eigen::VectorXd& d, Eigen::VectorXd& e, RotatedColumns* columns) {
  constexpr double kTiny = 0x1p-500;  // smaller elements of e count as 0
  return iterate(d, e, kTiny, [&](int64_t start, int64_t end) {
    if (columns) columns->begin_sweep(start, end - start);
    const double half = (d[end - 1] - d[end]) / (2 * e[end - 1]);
    const double root = std::copysign(std::hypot(half, 1.), half);
    double g = d[start] - d[end] + e[end - 1] / (half + root);
    double c = 1, s = 1, p = 0;
    for (int64_t i = start; i < end; ++i) {
      const double f = s * e[i], b = c * e[i];
      const double r = find_rotation(g, f, c, s);
      if (i > start) e[i - 1] = r;
      g = d[i] - p;
      const double t = (d[i + 1] - g) * s + 2 * c * b;
      p = s * t;
      d[i] = g + p;
      g = c * t - b;
      if (columns) columns->rotate(c, s);
    }
    d[end] -= p;
    e[end - 1] = g;
  });
}

struct Eigenpairs {
  Eigen::VectorXd values;  // ascending
  ColumnMatrix vectors;    // columns; empty unless asked for
};

// Decomposes the symmetric matrix (n x n, n > 0, finite) whose lower triangle is given. Elements
// above it are at most as large as the largest below. Returns nullopt if the iteration does not
// converge.
inline std::optional<Eigenpairs> decompose_symmetric(const ColumnMatrix& lower, bool vectors) {
  const int64_t n = lower.rows();
  const double scale = find_scale(lower);
  const Eigen::Tridiagonalization<ColumnMatrix> form(lower / scale);
  Eigen::VectorXd d = form.diagonal(), e = form.subDiagonal();
  std::optional<RotatedColumns> columns;
  if (vectors) columns.emplace(form.matrixQ());
  if (!diagonalize(d, e, columns ? &*columns : nullptr)) return std::nullopt;

  Order order(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(),
            [&](int64_t i, int64_t j) { return d[i] < d[j] || (d[i] == d[j] && i < j); });
  Eigenpairs pairs;
  pairs.values = d(order) * scale;
  if (columns) pairs.vectors = columns->permuted(order);
  return pairs;
}

}  // namespace locus::LOCUS_ISA_NAMESPACE
