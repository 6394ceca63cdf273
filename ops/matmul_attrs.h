// Attributes and settings of products: plain data, shared by public headers and kernels.
#pragma once

#include <cstdint>

namespace locus {

// Attributes of the op "matmul", which multiplies op(a) by op(b). If an operand's flag is set, op
// swaps its last two axes. So gradients need no transposed copies.
struct MatmulAttrs {
  bool transpose_a = false;
  bool transpose_b = false;
};

// The precision of products of f32 operands, also in dense. f32 uses all 24 bits. With tf32 a GPU
// may round operands to 11 bits for its tensor cores: several times faster, with relative errors
// near 1e-3. set_matmul_precision() sets it.
enum class Precision : uint8_t { f32, tf32 };
Precision matmul_precision();

// The function that the op "dense" applies to its sums.
enum class FusedActivation : uint8_t { none, relu };
struct DenseAttrs {
  FusedActivation activation = FusedActivation::none;
};

// Attributes of the op "dense_backward". Inputs: dy (N,out), data (N,in), weight (out,in) and, with
// `relu`, the result y (N,out). Outputs: the gradients of data, weight and bias, (0,) if its flag
// is false.
struct DenseBackwardAttrs {
  bool relu = false;
  bool data = true;
  bool weight = true;
  bool bias = true;
};

}  // namespace locus
