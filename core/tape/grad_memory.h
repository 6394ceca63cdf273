// What becomes of gradients, and of their memory, behind backward().
#pragma once

#include <locus/core/tensor.h>

namespace locus {

struct GraphState;

namespace autograd {

struct GradOptions;

// The memory of the leaf x's gradient, which was summed into another replica's, is the pool's
// again, once what is enqueued on it is done; handles that the program has keep it. Until
// backward() writes it anew, x.grad() is an Error, and it counts as 0 where backward() would add to
// it. Nothing where the program, or what is compiled, has put it in a place of its own.
void release_grad(const Tensor& x);

// The current stream of its context has the leaf x's gradient from now on, behind all that is
// enqueued on it: what writes it there waits for nothing that comes later on the stream that made
// it. Nothing while a compiled function is recorded.
void move_grad(const Tensor& x);

// For gradients that an exception left half made: those of these leaves count as used, so that no
// update goes by them, and the next backward() makes them anew. One that it is to add to is 0
// where backward() had written it, and no longer part of what an Accumulate of this thread adds up.
void drop_grads(const Tensors& leaves);

// Internal to core: memory for the leaf's gradient, where that was released.
void hold_grad(GraphState& leaf);
// Internal to core: as grad(), but results may share memory, with each other too, and have gaps.
Tensors shared_gradients(const Tensors& heads, const Tensors& variables, const GradOptions&);

}  // namespace autograd
}  // namespace locus
