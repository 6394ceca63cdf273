// Exchanges between contexts: copies, and sums for one context alone. Internal to ops.
#pragma once

#include <span>

#include <locus/core/group.h>
#include <locus/core/tensor.h>

namespace locus {

// `result` receives one part, of the same dtype and shape, or several parts combined in order. It
// may be one of them.
struct Piece {
  Tensors parts;
  Tensor result;
};

// Runs all pieces, on contexts of g. A piece with several parts has one per context. No other
// piece's result may be among these parts.
// Real GPUs sum floating-point parts and copy few bytes in one launch each, of a kernel that reads
// parts in place. Otherwise parts are copied, and the tree (tree.h) sums.
void exchange(const Group& g, std::span<const Piece> pieces, ReduceOp op, bool beside, Caller from);

// Whether the kernel copies x.
bool by_kernel(const Group& g, const Tensor& x);

}  // namespace locus
