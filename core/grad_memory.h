// Gradients without memory: summed into another replica's and released, until they are written
// anew.
#pragma once

#include <locus/core/tensor.h>

namespace locus {

struct GraphState;

namespace autograd {

// The memory of the leaf x's gradient is the pool's again, once what is enqueued on it is done;
// handles that the program has keep it. Until backward() writes it anew, x.grad() is an Error, and
// it counts as 0 where backward() would add to it. Nothing where the program, or what is compiled,
// has put it in a place of its own.
void release_grad(const Tensor& x);

// Internal to core: memory for the leaf's gradient, where that was released.
void hold_grad(GraphState& leaf);

}  // namespace autograd
}  // namespace locus
