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

}  // namespace locus::cuda
