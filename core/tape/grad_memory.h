// Changes gradients' memory and state after backward().
#pragma once

#include <string_view>

#include <locus/core/tensor.h>

namespace locus {

struct GraphState;

namespace autograd {

struct GradOptions;

// Releases the memory of leaf x's gradient; handles of the program keep the memory. Until
// backward() writes the gradient again, x.grad() throws Error, and the gradient counts as 0 in
// additions. No effect on memory that the program or compiled code has placed. CaptureError while
// recording.
void release_grad(const Tensor& x);

// Makes the current stream of the context the home of leaf x's gradient, after all enqueued work on
// it. Writes there do not wait for later work of the old home. No effect while recording.
void move_grad(const Tensor& x);

// Drops gradients that an exception left incomplete. They count as used, so no update reads them,
// and the next backward() starts anew: fresh gradients with GradReq::add become 0, and this
// thread's Accumulate forgets all of them.
void drop_grads(const Tensors& leaves);

// ValueError, naming `who`, if req is no enumerator.
void expect_grad_req(std::string_view who, GradReq req);

// Internal to core: allocates the leaf's gradient if it was released.
void hold_grad(GraphState& leaf);
// Internal to core: as grad(), but results may share memory, also with each other, and have gaps.
Tensors shared_gradients(const Tensors& heads, const Tensors& variables, const GradOptions&);

}  // namespace autograd
}  // namespace locus
