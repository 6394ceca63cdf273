// cuSOLVER's factorizations, for kernel functions. Each device has one handle. Work memory is
// Scratch of the call. Only solver.cc includes cuSOLVER. Matrices are column-major without gaps,
// f32 or f64, on the device. cuSOLVER computes the same bits in every run.
#pragma once

#include <cstdint>

#include <locus/core/kernel.h>

namespace locus::cuda {

// Factors a (n x n), of which the lower triangle is read, as l l' in place. info, on the device, is
// not 0 if a is not positive definite.
void solver_cholesky(const Call& call, DType d, int64_t n, void* a, int* info);
// The same for `count` small matrices, which `pointers` point to, on the device.
void solver_cholesky_each(const Call& call, DType d, int64_t n, void** pointers, int64_t count,
                          int* info);
// Factors a (m x n) as p l u in place. Row i was exchanged with row pivots[i] - 1, in order.
void solver_lu(const Call& call, DType d, int64_t m, int64_t n, void* a, int64_t* pivots,
               int* info);
// Solves a x = b, or a' x = b, in place of b (n x columns), by the factors of solver_lu.
void solver_lu_solve(const Call& call, DType d, bool transpose, int64_t n, int64_t columns,
                     const void* lu, const int64_t* pivots, void* b, int* info);

// Factors a (m x n) by Householder reflections in place, as LAPACK's geqrf: r on and above the
// diagonal, the reflections' vectors below, and min(m, n) coefficients. info is 0 if all arguments
// are right.
void solver_qr(const Call& call, DType d, int64_t m, int64_t n, void* a, void* coefficients,
               int* info);
// The first `columns` columns of the product of k reflections, in place of the vectors in the first
// k columns of a (m x columns).
void solver_qr_q(const Call& call, DType d, int64_t m, int64_t columns, int64_t k, void* a,
                 const void* coefficients, int* info);
// Computes the eigenvalues w, ascending, of a contiguous batch of `count` symmetric matrices a
// (n x n). Only lower triangles are read. With `vectors`, eigenvectors replace a, as columns.
// info[k] is not 0 if the iteration for matrix k has not converged. The host may wait.
// If many eigenvalues are near 0, their vectors may not be orthogonal, because cuSOLVER 12.0 loses
// the squares of rounding errors. Callers add a multiple of the identity matrix first.
void solver_eigen(const Call& call, bool vectors, int64_t n, double* a, double* w, int64_t count,
                  int* info);
// The same for small matrices of dtype d, by rotations. No multiple of the identity is needed.
void solver_eigen_each(const Call& call, DType d, bool vectors, int64_t n, void* a, void* w,
                       int64_t count, int* info);
// Computes the singular values s, descending, of a (m x n, m >= n), and overwrites a. The host may
// wait. Vectors:
//   'N'  none
//   'S'  u (m x n) and the rows of vh (n x n)
//   'A'  u (m x m) and the rows of vh (n x n)
void solver_svd(const Call& call, char vectors, int64_t m, int64_t n, double* a, double* s,
                double* u, double* vh, int* info);
// The same for `count` small matrices of any shape and dtype d, by rotations. u (m x m) and v
// (n x n) have vectors as columns, and are work memory without `vectors`.
void solver_svd_each(const Call& call, DType d, bool vectors, int64_t m, int64_t n, void* a,
                     void* s, void* u, void* v, int64_t count, int* info);
// The largest number of rows, and of columns, of the matrices that rotations take.
inline constexpr int64_t kMaxRotatedLength = 32;

}  // namespace locus::cuda
