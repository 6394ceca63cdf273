// cuBLAS, for kernel functions. Each device has one handle. The workspace is a Scratch of the call:
// 32 MiB, as NVIDIA recommends on Hopper. Only blas.cc includes cuBLAS.
#pragma once

#include <locus/core/kernel.h>

namespace locus::cuda {

// A matrix with contiguous rows (or columns). `batch`: elements to the next matrix.
struct Matrix {
  const void* data;
  int64_t ld;
  bool column_major = false;
  int64_t batch = 0;
};

struct BlasOptions {
  DType out;                // f32 also for f16 and bf16 operands
  bool tf32 = false;        // f32 operands may be rounded to 10 bits of mantissa
  bool accumulate = false;  // c += a · b
};

// c (m x n, row-major) = a (m x k) · b (k x n), `count` times. Results are n·m elements apart. a
// and b are of dtype `in`: f32, f64, f16 or bf16. 16-bit products are summed in f32.
void blas_product(const Call& call, DType in, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b,
                  void* c, int64_t count, const BlasOptions& options);

// Column-major matrices of f32 or f64 without gaps, on the device. Functions with a
// `count` take pointers to that many matrices, in an array on the device.
//
// x with x op(a) = b, in place of b (m x n), where op transposes a triangular a (n x n) or not.
struct TriangularProduct {
  DType dtype;
  bool upper, transpose, unit_diagonal;
  int64_t m, n;
};
void blas_solve_triangular(const Call& call, const TriangularProduct& p, const void* a, void* b);
void blas_solve_triangular_each(const Call& call, const TriangularProduct& p, void** a, void** b,
                                int64_t count);
// Factors small matrices a (n x n) as p l u in place. Row i of matrix k was exchanged with row
// pivots[k n + i] - 1, in order.
void blas_lu_each(const Call& call, DType d, int64_t n, void** a, int64_t count, int* pivots,
                  int* info);
// Solves a x = b, or a' x = b, in place of b (n x columns), by the factors of blas_lu_each.
void blas_lu_solve_each(const Call& call, DType d, bool transpose, int64_t n, int64_t columns,
                        void** lu, const int* pivots, void** b, int64_t count);

}  // namespace locus::cuda
