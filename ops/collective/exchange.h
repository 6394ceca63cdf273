// What several contexts are to have of each other's parts: copies, and sums that one alone has.
// Internal to ops.
#pragma once

#include <span>

#include <locus/core/group.h>
#include <locus/core/tensor.h>

namespace locus {

// `result` gets the value of one part, of the same dtype and shape, or several combined in their
// order. It may be one of them.
struct Piece {
  Tensors parts;
  Tensor result;
};

// All of them, each on contexts of g. Pieces with several parts have one a context, and no other
// piece's result is among these. Real GPUs: in one launch each, of a kernel that reads the parts
// where they are, where it adds up floating-point parts or copies few bytes; else by copies to the
// result's context, and the tree's sums (tree.h).
void exchange(const Group& g, std::span<const Piece> pieces, ReduceOp op, bool beside, Caller from);

// Whether a copy of x goes by that kernel.
bool by_kernel(const Group& g, const Tensor& x);

}  // namespace locus
