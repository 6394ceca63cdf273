// Less memory for more work: a stretch of the forward pass of which the tape keeps the inputs
// alone, and which runs again when backward() comes to it (Chen et al., "Training deep nets with
// sublinear memory cost", 2016). nn::Recompute is it as a block.
#pragma once

#include <functional>

#include <locus/core/tensor.h>

namespace locus::autograd {

// f(inputs), recorded as one call, which backward() runs again. Gradients go to the inputs and to
// `variables`, the leaves that f reads besides. Error if f uses another tensor that needs a
// gradient.
//
// The second run draws the random numbers of the first, and gives the same bits. backward() throws
// Error if f then reads a tensor that its first run did not read, that was made since the first run
// began, or that was written since. Not checked are results of captured graphs (capture.h) and what
// the host reads through data_ptr(). f must not write again what it wrote in place: it asks
// is_recomputing(), as batch_norm does.
//
// f runs in one thread: parallel() in f is an Error. recompute() inside of parallel() is allowed.
// The gradient has no gradient itself: create_graph is an Error.
Tensors recompute(std::function<Tensors(const Tensors&)> f, const Tensors& inputs,
                  const Tensors& variables);

// Whether this is such a second run, on this thread.
bool is_recomputing();

}  // namespace locus::autograd
