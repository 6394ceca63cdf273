// recompute() saves memory by running a part of the forward pass twice. The tape keeps only the
// inputs of that part, and backward() runs the part again (Chen et al., "Training deep nets with
// sublinear memory cost", 2016). nn::Recompute is the block for it.
#pragma once

#include <functional>

#include <locus/core/tensor.h>

namespace locus::autograd {

// Returns f(inputs), recorded as one call, which backward() runs again. Gradients go to the inputs
// and to `variables`, the other leaves that f reads. The second run draws the same random numbers
// and gives the same bits.
//   - f must not repeat in-place writes in the second run: f asks is_recomputing(), as batch_norm
//     does.
//   - Error if f uses another tensor that needs a gradient, or calls parallel(). recompute() inside
//     parallel() is allowed.
//   - backward() throws Error for create_graph, and if the second run reads a tensor that the first
//     run did not read, that was made since the first run began, or that was written since. Results
//     of captured graphs (capture.h) and reads through data_ptr() are not checked.
Tensors recompute(std::function<Tensors(const Tensors&)> f, const Tensors& inputs,
                  const Tensors& variables);

// Whether this thread is in a second run.
bool is_recomputing();

}  // namespace locus::autograd
