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
// x with a x = 1.
Tensor inv(const Tensor& a, const SolveOptions& = {}, Caller = Caller::here());

// a = p l u by partial pivoting, for a of shape (..., m, n) and k = min(m, n): p (m, m) is a
// permutation, l (m, k) is lower triangular with ones on its diagonal, u (k, n) upper triangular.
struct Lu {
  Tensor p, l, u;
};
Lu lu(const Tensor& a, Caller = Caller::here());

// a = q r for a of shape (..., m, n), k = min(m, n): q has orthonormal columns, r is upper
// triangular with a diagonal that is not negative. NumPy's signs are any.
//   reduced   q (m, k), r (k, n); unique if the first k columns of a are independent
//   complete  q (m, m), r (m, n); the last m - n columns of q are any orthonormal rest
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
struct Slogdet {
  Tensor sign, logabsdet;
};
Slogdet slogdet(const Tensor& a, Caller = Caller::here());

// The exponential of a square matrix, 1 + a + a a / 2 + a a a / 6 and so on, by scaling, a rational
// approximant and squaring. The host waits for the norms of a, so a capture refuses the call. NaN
// or infinity gives NaN in that matrix. The gradient keeps every power that is squared.
Tensor expm(const Tensor& a, Caller = Caller::here());

}  // namespace locus
