// Decompositions of matrices, and systems of linear equations.
//
//   const Tensor l = cholesky(a);                 // a = l l'
//   const Tensor x = solve(a, b);                 // a x = b
//   const auto [p, l, u] = lu(a);                 // a = p l u
//
// The last two axes are matrices; the other axes are a batch. f32 and f64 are computed in their
// dtype, integers and bool in f64. f16 and bf16 are a DTypeError, matrices that are not
// square a ShapeError. The functions have gradients of any order.
//
// A matrix without a result, such as a singular one, is a ValueError that names the entry of the
// batch. The host waits for this check. With {.check = false} nothing waits, and the entry's result
// is NaN. NaN in one entry gives NaN or the error there, and nowhere else. Contexts agree up to
// rounding; on each the bits are the same in every run.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

struct CholeskyOptions {
  bool upper = false;  // read the upper triangle, and return l'
  bool check = true;
};
struct SolveOptions {
  bool check = true;
};
struct TriangularOptions {
  bool upper = false;          // a's upper triangle is read, else the lower
  bool transpose = false;      // solve a' x = b
  bool unit_diagonal = false;  // a's diagonal counts as ones and is not read
  bool check = true;
};

// The lower triangular l with a positive diagonal and l l' = a. Only a's lower triangle is read.
// The gradient is that of a symmetric a: a symmetric matrix.
Tensor cholesky(const Tensor& a, const CholeskyOptions& = {}, Caller = Caller::here());

// x with a x = b. A b of one axis is a vector, else its last two axes are columns of right sides.
// Batches broadcast. A matrix is singular if a diagonal element of its u is 0.
Tensor solve(const Tensor& a, const Tensor& b, const SolveOptions& = {}, Caller = Caller::here());
// The same for a triangular a, of which the other triangle is not read.
Tensor solve_triangular(const Tensor& a, const Tensor& b, const TriangularOptions& = {},
                        Caller = Caller::here());
// The inverse: a inv(a) is the identity matrix.
Tensor inv(const Tensor& a, const SolveOptions& = {}, Caller = Caller::here());

// a = p l u by partial pivoting, for a of shape (..., m, n) and k = min(m, n): p (m, m) is a
// permutation, l (m, k) is lower triangular with ones on its diagonal, u (k, n) upper triangular.
struct Lu {
  Tensor p, l, u;
};
Lu lu(const Tensor& a, Caller = Caller::here());

// a = q r for a of shape (..., m, n), k = min(m, n): q has orthonormal columns, r is upper
// triangular with a diagonal that is not negative. NumPy does not fix signs.
//   reduced   q (m, k), r (k, n); unique if the first k columns of a are independent
//   complete  q (m, m), r (m, n); the last m - n columns of q only complete a basis
//   r         q is undefined, r (k, n)
// A matrix with NaN or infinity has NaN in q, and in r on and above its diagonal. The gradient has
// no meaning if the first k columns are dependent, and is an Error for a complete q with m > n.
enum class QrMode : uint8_t { reduced, complete, r };
struct Qr {
  Tensor q, r;
};
Qr qr(const Tensor& a, QrMode mode = QrMode::reduced, Caller = Caller::here());

// The determinant, 0 of a singular matrix. There the gradient is NaN.
Tensor det(const Tensor& a, Caller = Caller::here());
// The determinant's sign, -1, 0 or 1, and the logarithm of its absolute value, -inf for 0.
// There the gradient is NaN.
struct Slogdet {
  Tensor sign, logabsdet;
};
Slogdet slogdet(const Tensor& a, Caller = Caller::here());

// The exponential of a square matrix, 1 + a + a a / 2 + a a a / 6 and so on, by scaling, a rational
// approximant and squaring. The host waits for the norms of a, so a capture refuses the call. NaN
// or infinity gives NaN in that matrix. The gradient keeps every power that is squared.
Tensor expm(const Tensor& a, Caller = Caller::here());

// --- Eigenvalues and singular values ---
//
//   const auto [w, v] = eigh(a);                              // a = v diag(w) v'
//   const auto [u, s, vh] = svd(a, {.full_matrices = false}); // a = u diag(s) vh
//
// A matrix that is not finite, or whose iteration did not converge, has no result.
//
// In each eigenvector and each column of u, the component of the largest absolute value is
// positive; of those within 1/256 of the largest, the first. The same holds for rows of vh that
// belong to no column of u. Vectors of equal values are not unique. Details: at the end.

struct EighOptions {
  bool upper = false;  // read the upper triangle, else the lower
  bool check = true;
};
// The eigenvalues of a symmetric a, ascending, and eigenvectors as columns. One triangle is read.
struct Eigh {
  Tensor eigenvalues, eigenvectors;
};
Eigh eigh(const Tensor& a, const EighOptions& = {}, Caller = Caller::here());
Tensor eigvalsh(const Tensor& a, const EighOptions& = {}, Caller = Caller::here());

struct SvdOptions {
  bool full_matrices = true;  // u (m, m) and vh (n, n), else (m, k) and (k, n), k = min(m, n)
  bool check = true;
};
// a = u diag(s) vh for a of shape (..., m, n). The columns of u and the rows of vh are orthonormal.
// s (..., k) is descending and not negative.
struct Svd {
  Tensor u, s, vh;
};
Svd svd(const Tensor& a, const SvdOptions& = {}, Caller = Caller::here());
// svd's s alone.
Tensor svdvals(const Tensor& a, const SolveOptions& = {}, Caller = Caller::here());

// Singular values up to rcond times the largest count as 0. The default is max(m, n) times the
// distance from 1 to the next number of the dtype.
struct RcondOptions {
  std::optional<double> rcond = {};
  bool check = true;
};
// The Moore-Penrose inverse.
Tensor pinv(const Tensor& a, const RcondOptions& = {}, Caller = Caller::here());

// The x of the smallest norm among those that minimise |a x - b|. A b of one axis is a vector, else
// its last two axes are columns. Batches broadcast. s are a's singular values, rank (i64) counts
// those above 0. `residuals` are the squares of |a x - b| for each column, if m > n and all ranks
// are n; else they have shape (0).
struct Lstsq {
  Tensor x, residuals, rank, s;
};
Lstsq lstsq(const Tensor& a, const Tensor& b, const RcondOptions& = {}, Caller = Caller::here());

// The number (i64) of singular values above tol, or above rtol times the largest. The default is
// lstsq's.
struct RankOptions {
  std::optional<double> tol = {}, rtol = {};
  bool check = true;
};
Tensor matrix_rank(const Tensor& a, const RankOptions& = {}, Caller = Caller::here());

// The order of a matrix norm:
//   "fro"       the square root of the sum of squares
//   "nuc"       the sum of singular values
//   2, -2       the largest, the smallest singular value
//   inf, -inf   the largest, the smallest sum of absolute values of a row
//   1, -1       the same of a column
class MatrixOrd {
 public:
  MatrixOrd(const char* text) : text_(text), is_number_(false) {}
  MatrixOrd(std::string_view text) : text_(text), is_number_(false) {}
  template <class T>
  requires std::is_arithmetic_v<T> MatrixOrd(T number) : number_(static_cast<double>(number)) {}

  bool is_number() const { return is_number_; }
  const std::string& text() const { return text_; }  // empty for a number
  double number() const { return number_; }          // 0 for text

 private:
  std::string text_;
  double number_ = 0;
  bool is_number_ = true;
};
struct MatrixNormOptions {
  MatrixOrd ord = "fro";
  bool keepdims = false;
};
// The norms of the matrices in the last two axes. Vectors: norm() in ops/reduce.h. Nothing waits.
// An entry with NaN has the norm NaN.
Tensor matrix_norm(const Tensor& x, const MatrixNormOptions& = {}, Caller = Caller::here());
// The condition number matrix_norm(a) matrix_norm(inv(a)). Order 2 takes rectangular matrices. The
// condition number of a singular matrix is inf, and 0 for p = -2. Nothing waits.
Tensor cond(const Tensor& a, const MatrixOrd& p = 2, Caller = Caller::here());

// --- Details ---
//
// - eigh and svd compute f32 in f64, except several matrices of at most 32 x 32 on a GPU.
// - {.check = false}: matrix_rank of an entry without a result is 0. residuals have elements if m >
//   n, and are NaN where the rank is below n.
// - Gradients of eigh and eigvalsh are symmetric. Those of pinv and lstsq hold if the singular
//   values that count as 0 are 0.
// - Values count as equal if they differ by at most max(m, n) epsilon times the largest. Turning
//   vectors of equal values into each other counts as 0, so no gradient is infinite. There, first
//   gradients are right for functions of the values, and of the projector on all vectors of a
//   value; those of v diag(w) v', and second gradients, lack the part between these vectors.
// - Singular values up to that limit are not divided by.
// - u and vh have gradients if they are reduced or a is square, else a ValueError.

}  // namespace locus
