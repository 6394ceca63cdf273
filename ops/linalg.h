// Decompositions of matrices, and systems of linear equations.
//
//   const Tensor l = cholesky(a);                 // a = l l', with the transpose l'
//   const Tensor x = solve(a, b);                 // a x = b
//   const auto [p, l, u] = lu(a);                 // a = p l u
//
// The last two axes are matrices, and the other axes a batch. f32 operands give f32 results, also
// in an amp::Scope. f64, integers and bool give f64. Two operands are promoted to one dtype. f16
// and bf16 are a DTypeError. Gradients exist to any order; the exceptions are in Details.
//
// If a matrix has no result, e.g. because it is singular, the function throws a ValueError, unless
// its check is off. NaN in one matrix of a batch does not change the results of the others.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// `check`, an option of many functions:
//   true   The host waits. If a matrix has no result, a ValueError names its entry of the batch.
//   false  Results are not checked. The result of an entry that failed is NaN.

struct CholeskyOptions {
  bool upper = false;  // read the upper triangle, and return l'
  bool check = true;
};
struct CheckOptions {
  bool check = true;
};
struct TriangularOptions {
  bool upper = false;          // a's upper triangle is read, else the lower
  bool transpose = false;      // solve a' x = b
  bool unit_diagonal = false;  // a's diagonal counts as ones and is not read
  bool check = true;
};

// The lower triangular l with a positive diagonal and l l' = a. Only one triangle of a is read, the
// lower one by default. The gradient treats a as symmetric, and is symmetric.
Tensor cholesky(const Tensor& a, const CholeskyOptions& = {}, Caller = Caller::here());

// x with a x = b. If b has one axis, b and x are vectors. Otherwise the columns of b are right
// sides, and the columns of x are their solutions. Batches broadcast; one a for a batch of b is
// factored once. A matrix is singular if its u in lu() has 0 on the diagonal. Rounding may leave a
// tiny number there instead: x is then very large and meaningless. cond(a) tells how many digits of
// x are lost.
Tensor solve(const Tensor& a, const Tensor& b, const CheckOptions& = {}, Caller = Caller::here());
// The same for a triangular a. The other triangle of a is not read. A matrix is singular if it has
// 0 on the diagonal. With unit_diagonal there is nothing to check.
Tensor solve_triangular(const Tensor& a, const Tensor& b, const TriangularOptions& = {},
                        Caller = Caller::here());
// The inverse: a inv(a) is the identity matrix.
Tensor inv(const Tensor& a, const CheckOptions& = {}, Caller = Caller::here());

// a = p l u by partial pivoting, for a of shape (..., m, n) and k = min(m, n): p (m, m) is a
// permutation, l (m, k) is lower triangular with ones on its diagonal, u (k, n) upper triangular.
struct Lu {
  Tensor p, l, u;
};
Lu lu(const Tensor& a, Caller = Caller::here());

// a = q r for a of shape (..., m, n), with k = min(m, n). q has orthonormal columns. r is upper
// triangular, and its diagonal is not negative; NumPy does not fix signs.
//   reduced   q (m, k), r (k, n)
//   complete  q (m, m), r (m, n); the last m - n columns of q complete a basis
//   r         r (k, n); q is an empty Tensor
enum class QrMode : uint8_t { reduced, complete, r };
struct Qr {
  Tensor q, r;
};
Qr qr(const Tensor& a, QrMode mode = QrMode::reduced, Caller = Caller::here());

// The determinant. For a singular matrix it is 0, and the gradient is NaN. If the product of some
// pivots overflows or underflows, the result may be infinite, NaN or 0, although the determinant is
// not. slogdet() does not overflow.
Tensor det(const Tensor& a, Caller = Caller::here());
// The sign of the determinant, -1, 0 or 1, and the logarithm of its absolute value. For a singular
// matrix they are 0 and -inf, and the gradient is NaN.
struct Slogdet {
  Tensor sign, logabsdet;
};
Slogdet slogdet(const Tensor& a, Caller = Caller::here());

// The exponential of a square matrix, 1 + a + a a / 2 + a a a / 6 and so on, by scaling, a rational
// approximant and repeated squaring. The host waits for the norms of a. NaN or infinity gives NaN
// in the whole matrix. Autograd keeps every matrix that is squared. Squaring loses digits if the
// norm of a is far larger than its eigenvalues, e.g. for {{1, 1e10}, {0, -1}}.
Tensor expm(const Tensor& a, Caller = Caller::here());

// --- Eigenvalues and singular values ---
//
//   const auto [w, v] = eigh(a);                              // a = v diag(w) v'
//   const auto [u, s, vh] = svd(a, {.full_matrices = false}); // a = u diag(s) vh
//
// A matrix has no result if an element that is read is not finite, or if the iteration did not
// converge.
//
// Eigenvectors and columns of u have fixed signs. Of the components whose absolute value is at
// least 255/256 of the largest, the first is positive. This also holds for rows of vh that belong
// to no column of u; the other rows have the signs that u requires. If eigenvalues or singular
// values are equal, their vectors are not unique.

struct EighOptions {
  bool upper = false;  // read the upper triangle, else the lower
  bool check = true;
};
// The eigenvalues of a symmetric a, ascending, and the eigenvectors as columns. Only one triangle
// of a is read.
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
// The singular values, which are s of svd().
Tensor svdvals(const Tensor& a, const CheckOptions& = {}, Caller = Caller::here());

// Singular values up to rcond times the largest count as 0. The default is max(m, n) epsilon;
// epsilon is the distance from 1 to the next number of the dtype.
struct RcondOptions {
  std::optional<double> rcond = {};
  bool check = true;
};
// The Moore-Penrose inverse.
Tensor pinv(const Tensor& a, const RcondOptions& = {}, Caller = Caller::here());

// x minimises the norm |a x - b|. If several x do, x is the solution of the smallest norm. a has
// the shape (..., m, n). b is as in solve(), and batches broadcast.
//   residuals  |a x - b|^2 for each column of b; shape (0) if m <= n or any rank is below n
//   rank       the number (i64) of singular values that do not count as 0
//   s          the singular values of a, descending
struct Lstsq {
  Tensor x, residuals, rank, s;
};
Lstsq lstsq(const Tensor& a, const Tensor& b, const RcondOptions& = {}, Caller = Caller::here());

// The number (i64) of singular values above tol, or above rtol times the largest. At most one of
// the two is set. The default rtol is the default rcond of lstsq().
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
//   1, -1       the largest, the smallest sum of absolute values of a column
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
// The norms of the matrices in the last two axes. norm() in ops/reduce.h has norms of vectors.
// Results are not checked: NaN in a matrix gives the norm NaN, and infinity gives NaN for 2, -2 and
// "nuc". If ord is a number, matrices without elements are a ShapeError.
Tensor matrix_norm(const Tensor& x, const MatrixNormOptions& = {}, Caller = Caller::here());
// The condition number: the norm of a times the norm of inv(a), of order p. It is inf if inv(a) has
// no result or overflows. Results are not checked.
//
// For p = 2, rectangular matrices have a number, too: the largest singular value divided by the
// smallest. For p = -2 it is the smallest divided by the largest. Division by 0 gives inf. A
// singular matrix may have a very large number instead, because rounding rarely leaves exactly 0.
//
// For p = 2 and -2, the gradient is 0 if the divisor is 0. For other p, the gradient is NaN if
// inv(a) has no result.
Tensor cond(const Tensor& a, const MatrixOrd& p = 2, Caller = Caller::here());

// --- Details ---
//
// - |x| is the square root of the sum of squares.
// - Functions of square matrices throw ShapeError for other shapes.
// - A matrix with NaN or infinity has NaN as its determinant, in u, in its inverse, and in the
//   solutions of solve(). This is not an error.
// - Solutions for one a and a batch of b may be a permuted view, which is not contiguous.
// - Results of two contexts agree up to rounding. On one context, every run gives the same bits.
// - On a GPU, the matmuls of f32 in expm, pinv, lstsq and in gradients have the precision of
//   set_matmul_precision() (ops/matmul.h).
// - Eigenvalues, singular values and their vectors of f32 are computed in f64, except for a batch
//   of several matrices of at most 32 x 32 on a GPU.
// - Singular values of f32 have errors of up to about 3e-7 times the largest. Options such as rcond
//   should not be smaller.
// - A singular value that overflows is infinite, which is not an error.
// - If all elements of a matrix are subnormal, solutions and gradients may be NaN without an error.
// - On a GPU, svd of f64 takes all other matrices one by one, and the host waits for each.
// - With {.check = false}, matrix_rank of an entry that failed is 0. residuals of lstsq have
//   elements if m > n, and are NaN for entries whose rank is below n.

// Captures:
// - In a capture, functions with the option `check` need {.check = false}, else CaptureError.
// - expm throws CaptureError, because the host reads norms.
// - Functions of eigenvalues or singular values throw CaptureError, because cuSOLVER makes the host
//   wait while it iterates for one matrix.

// qr:
// - A reduced result is unique if the first k columns of a are independent. The last m - n columns
//   of a complete q are never unique.
// - If a matrix has NaN or infinity, all of q is NaN, and r is NaN on and above its diagonal.
// - The gradient has no meaning if the first k columns are dependent. The gradient of a complete q
//   with m > n is a ValueError.

// Gradients of eigenvalues and singular values:
// - Gradients of eigh and eigvalsh are symmetric.
// - Gradients of pinv and lstsq are right if the singular values that count as 0 are exactly 0.
// - u and vh have gradients if they are reduced or a is square. Otherwise backward() throws
//   ValueError.

// Gradients at equal values:
// - Values count as equal if they differ by at most 8 max(m, n) epsilon times the largest. Terms
//   that divide by a singular value up to this limit are left out.
// - Terms that divide by the difference of equal values are left out, too. So no gradient is
//   infinite.
// - Without these terms, first gradients are right for functions of the values, and for functions
//   of the projector onto all vectors of one value. Gradients of v diag(w) v', and second
//   gradients, lack the part between vectors of equal values.

}  // namespace locus
