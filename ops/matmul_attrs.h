// Attributes and settings of products: plain data that the public headers and the kernels share.
#pragma once

#include <cstdint>

namespace locus {

// The op "matmul" multiplies op(a) by op(b), where op swaps the last two axes when its flag is set:
// gradients are products of the saved tensors themselves, never of transposed copies.
struct MatmulAttrs {
  bool transpose_a = false;
  bool transpose_b = false;
};

// How exact the products of f32 operands are, those of dense included. f32: all 24 bits count.
// tf32: a GPU may round operands to 11 bits for its tensor cores; several times faster, relative
// errors near 1e-3. set_matmul_precision() chooses.
enum class Precision : uint8_t { f32, tf32 };
Precision matmul_precision();

// What the op "dense" applies to its sums before it writes them.
enum class Activation : uint8_t { none, relu };
struct DenseAttrs {
  Activation activation = Activation::none;
};

// The op "dense_backward". Inputs: dy (N,out), data (N,in), weight (out,in) and, with `relu`, the
// result y (N,out). Outputs: the gradients of data, weight and bias; (0,) where not asked for.
struct DenseBackwardAttrs {
  bool relu = false;
  bool data = true;
  bool weight = true;
  bool bias = true;
};

}  // namespace locus
