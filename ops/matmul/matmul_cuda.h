// Host side of CUDA products, for matmul.cu and dense.cu. Enqueues on the call's stream.
#pragma once

#include <locus/core/dtype.h>
#include <locus/devices/cuda/blas.h>
#include <locus/ops/kernel/launch.h>
#include <locus/ops/matmul/matmul_tile.h>
#include <locus/ops/matmul/matmul_tiling.h>

namespace locus::cuda {

// c (m x n, row-major) = a (m x k) · b (k x n), `count` times, by cuBLAS. Any size may be 0 or
// long. f16 and bf16 are added in f32. If operands are 16-bit, c may be f32; else c has a's dtype.
void library_product(const Call& call, DType dtype, int64_t m, int64_t n, int64_t k, Matrix a,
                     Matrix b, void* c, int64_t count, DType out);
inline void library_product(const Call& call, DType dtype, int64_t m, int64_t n, int64_t k,
                            Matrix a, Matrix b, void* c, int64_t count = 1) {
  library_product(call, dtype, m, n, k, a, b, c, count, dtype);
}

// The same for our f32 kernels, ready to launch except for scratch memory (Tiling::scratch).
TileProduct tile_product(const Tiling& tiling, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b,
                         float* c, int64_t count = 1);
// Takes scratch memory if the tiling needs it.
void launch_tiles(const Call& call, const Tiling& tiling, TileProduct p, bool a_column_major,
                  bool b_column_major, int64_t count = 1);

}  // namespace locus::cuda
