// Checks and promotion of a call's operands. Internal to ops/products.
#pragma once

#include <locus/core/tensor.h>

namespace locus::detail {

// Throws EmptyTensor and ContextMismatch. Errors name the operands `one` i and `all`[i]: matrix 1,
// matrices[1].
void check_operands(const char* op, const Tensors& operands, const char* one, const char* all);
// The same for operands a and b.
void check_operands(const char* op, const Tensor& a, const Tensor& b);

// The operands in their common dtype.
Tensors promote_all(const Tensors& operands);

}  // namespace locus::detail
