// cuBLAS, for kernel functions. Its handles, made with each device, and the 32 MiB of workspace
// (what NVIDIA recommends on Hopper), a Scratch of the call, are known to blas.cc only.
#pragma once

#include <locus/core/kernel.h>

namespace locus::cuda {

// A matrix with unbroken rows (or columns), and the distance to the next one of a batch.
struct Matrix {
  const void* data;
  int64_t ld;
  bool column_major = false;
  int64_t batch = 0;
};

struct BlasOptions {
  DType out;                // f16 and bf16 operands also have f32 results
  bool tf32 = false;        // f32 operands may be rounded to 10 bits of mantissa
  bool accumulate = false;  // c += a · b
};

// c (m x n, row-major) = a (m x k) · b (k x n), `count` times; n·m elements from one result to the
// next. a and b are of dtype `in`: f32, f64, f16 or bf16; the last two add up in f32.
void blas_product(const Call& call, DType in, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b,
                  void* c, int64_t count, const BlasOptions& options);

}  // namespace locus::cuda
