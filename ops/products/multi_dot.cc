// multi_dot: a product of matrices in the order of fewest multiplications.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/call_check.h>
#include <locus/ops/elementwise/call.h>
#include <locus/ops/products.h>
#include <locus/ops/products/contract.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

// The best order of a chain of matrices, by dynamic programming.
class Chain {
 public:
  explicit Chain(const Tensors& matrices)
      : matrices_(matrices), n_(matrices.size()), cost_(n_ * n_), cut_(n_ * n_) {
    for (size_t length = 1; length < n_; ++length)
      for (size_t i = 0; i + length < n_; ++i) choose(i, i + length);
  }
  // The product of matrices i to j.
  Tensor product(size_t i, size_t j) const {
    if (i == j) return matrices_[i];
    const size_t cut = cut_[i * n_ + j];
    return detail::matrix_product(product(i, cut), product(cut + 1, j));
  }

 private:
  double rows(size_t i) const { return static_cast<double>(matrices_[i].shape()[0]); }
  double columns(size_t i) const { return static_cast<double>(matrices_[i].shape()[1]); }

  // Where to cut the product of i to j. The product of i to `cut` is the left factor.
  void choose(size_t i, size_t j) {
    double& least = cost_[i * n_ + j];
    least = std::numeric_limits<double>::infinity();
    for (size_t cut = i; cut < j; ++cut) {
      const double cost =
          cost_[i * n_ + cut] + cost_[(cut + 1) * n_ + j] + rows(i) * columns(cut) * columns(j);
      if (cost < least) least = cost, cut_[i * n_ + j] = cut;
    }
  }

  const Tensors& matrices_;
  const size_t n_;
  std::vector<double> cost_;
  std::vector<size_t> cut_;
};

// Axes of a factor: a matrix, or a vector at an end.
void check_factors(const Tensors& all) {
  if (all.size() < 2)
    throw ValueError("multi_dot: got ", all.size(), " matrices; expected two or more");
  for (size_t i = 0; i < all.size(); ++i) {
    detail::expect_tensor("multi_dot", all[i], "matrix ", i);
    detail::expect_together("multi_dot", "matrices[0]", all[0], text_of("matrices[", i, "]"),
                            all[i]);
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
  check_factors(matrices);
  DType d = matrices[0].dtype();
  for (const Tensor& x : matrices) d = promote(d, x.dtype());
  Tensors all;
  for (const Tensor& x : matrices) all.push_back(detail::as(x, d));
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
  return detail::reshape_exact(Chain(all).product(0, all.size() - 1), Shape(shape));
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus
