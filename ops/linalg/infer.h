// Checks of shapes for the inference of linear algebra's ops. Errors do not begin with the op:
// invoke() adds the op and describes the operands. Internal.
#pragma once

#include <locus/core/error.h>
#include <locus/core/op.h>

namespace locus::linalg {

// Batched calls of cuSOLVER and cuBLAS count matrices, rows and columns in 32 bits.
inline constexpr int64_t kMaxMatrices = (int64_t{1} << 31) - 1, kMaxLength = kMaxMatrices;

inline void expect_matrices(const Meta& x, const char* what) {
  if (x.rank < 2) throw ShapeError("expected ", what, " of at least 2 axes");
  int64_t batch = 1;
  for (int i = 0; i < x.rank - 2; ++i) batch *= x.shape[i];
  if (batch > kMaxMatrices)
    throw ShapeError("got ", batch,
                     " matrices; expected fewer than 2^31, because cuSOLVER counts in 32 bits");
  for (int i = x.rank - 2; i < x.rank; ++i)
    if (x.shape[i] > kMaxLength)
      throw ShapeError(
          "got an axis of length ", x.shape[i],
          "; expected rows and columns shorter than 2^31, because cuSOLVER counts in 32 bits");
}
inline void expect_square(const Meta& x, const char* what) {
  expect_matrices(x, what);
  if (x.shape[x.rank - 1] != x.shape[x.rank - 2])
    throw ShapeError("expected square matrices in the last two axes of ", what);
}
// x in dtype d, without its last `axes` axes.
inline Meta drop_last_axes(const Meta& x, DType d, int axes = 2) {
  Meta m = x;
  m.dtype = d;
  m.rank = static_cast<int8_t>(x.rank - axes);
  return m;
}

}  // namespace locus::linalg
