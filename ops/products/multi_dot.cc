// multi_dot: a product of matrices in the order of fewest multiplications.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include <locus/core/base/at_line.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/call_check.h>
#include <locus/ops/products.h>
#include <locus/ops/products/contract.h>
#include <locus/ops/products/operands.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

// The order of fewest multiplications, by dynamic programming.
class MatrixChain {
 public:
  explicit MatrixChain(const Tensors& matrices)
      : matrices_(matrices), n_(matrices.size()), cost_(n_ * n_), cut_(n_ * n_) {
    for (size_t length = 1; length < n_; ++length)
      for (size_t i = 0; i + length < n_; ++i) choose_cut(i, i + length);
  }
  // The product of matrices i to j.
  Tensor multiply(size_t i, size_t j) const {
    if (i == j) return matrices_[i];
    const size_t cut = cut_[i * n_ + j];
    return detail::multiply_matrices(multiply(i, cut), multiply(cut + 1, j));
  }

 private:
  double rows(size_t i) const { return static_cast<double>(matrices_[i].shape()[0]); }
  double columns(size_t i) const { return static_cast<double>(matrices_[i].shape()[1]); }

  // Chooses where to cut the product of matrices i to j: its left factor is the product of i to
  // cut.
  void choose_cut(size_t i, size_t j) {
    double& best = cost_[i * n_ + j];
    best = std::numeric_limits<double>::infinity();
    for (size_t cut = i; cut < j; ++cut) {
      const double cost =
          cost_[i * n_ + cut] + cost_[(cut + 1) * n_ + j] + rows(i) * columns(cut) * columns(j);
      if (cost >= best) continue;
      best = cost;
      cut_[i * n_ + j] = cut;
    }
  }

  const Tensors& matrices_;
  const size_t n_;
  std::vector<double> cost_;
  std::vector<size_t> cut_;
};

// Each operand is a matrix. The first and the last may be vectors.
void check_shapes(const Tensors& all) {
  for (size_t i = 0; i < all.size(); ++i) {
    const bool end = i == 0 || i + 1 == all.size();
    if (all[i].ndim() != 2 && !(end && all[i].ndim() == 1))
      throw ShapeError("multi_dot: matrix ", i, " ", describe(all[i]),
                       end ? ": expected a matrix or a vector" : ": expected a matrix");
    if (i > 0 && all[i - 1].shape()[-1] != all[i].shape()[0])
      throw ShapeError("multi_dot: matrix ", i - 1, " ", describe(all[i - 1]), ", matrix ", i, " ",
                       describe(all[i]),
                       ": expected the last axis of each as long as the first axis of the next");
  }
}

}  // namespace

Tensor multi_dot(const Tensors& matrices, Caller from) try {
  const UserLine user_line(from);
  if (matrices.size() < 2)
    throw ValueError("multi_dot: got ", matrices.size(), " matrices; expected two or more");
  detail::check_operands("multi_dot", matrices, "matrix", "matrices");
  check_shapes(matrices);
  Tensors all = detail::promote_all(matrices);
  std::vector<int64_t> shape;
  const int64_t rows = all.front().shape()[0], columns = all.back().shape()[-1];
  if (all.front().ndim() == 2)
    shape.push_back(rows);
  else
    all.front() = detail::reshape_exact(all.front(), Shape{1, rows});
  if (all.back().ndim() == 2)
    shape.push_back(columns);
  else
    all.back() = detail::reshape_exact(all.back(), Shape{columns, 1});
  return detail::reshape_exact(MatrixChain(all).multiply(0, all.size() - 1), Shape(shape));
} catch (const Error&) {
  detail::rethrow_as("multi_dot", from);
}

}  // namespace locus
