// Eigenvalues of symmetric tridiagonal matrices by Eigen. Compiled once per instruction set.
#pragma once

#include <algorithm>
#include <cmath>

#include <Eigen/Eigenvalues>

namespace locus::LOCUS_ISA_NAMESPACE {

using ColumnMatrix = Eigen::MatrixXd;  // f32 is computed in f64, too

// The largest absolute value, rounded down to a power of 2. 1 if all elements are 0.
inline double find_scale(const auto& x) {
  const double max_abs = x.size() > 0 ? x.cwiseAbs().maxCoeff() : 0;
  return max_abs > 0 ? std::scalbn(1., std::ilogb(max_abs)) : 1;
}

// Eigen's iteration compares squares of elements with elements. It always ends if the eigenvalues
// are at most 1, so the matrix is divided by a power of 2 that bounds its eigenvalues.
class TridiagonalSolver {
 public:
  TridiagonalSolver(const Eigen::VectorXd& diagonal, const Eigen::VectorXd& off_diagonal,
                    bool vectors)
      : bound_(8 * std::max(find_scale(diagonal), find_scale(off_diagonal))) {
    solver_.computeFromTridiagonal(diagonal / bound_, off_diagonal / bound_,
                                   vectors ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
  }

  bool succeeded() const {
    return solver_.info() == Eigen::Success && solver_.eigenvalues().allFinite();
  }
  Eigen::VectorXd eigenvalues() const { return solver_.eigenvalues() * bound_; }  // ascending
  const ColumnMatrix& eigenvectors() const { return solver_.eigenvectors(); }

 private:
  const double bound_;
  Eigen::SelfAdjointEigenSolver<ColumnMatrix> solver_;
};

}  // namespace locus::LOCUS_ISA_NAMESPACE
