// Less memory for more work: a stretch of the forward pass of which the tape keeps the inputs
// alone, and which runs again when backward() comes to it (Chen et al., "Training deep nets with
// sublinear memory cost", 2016). nn::Recompute is it as a block.
#pragma once

#include <functional>

#include <locus/core/tensor.h>

namespace locus::autograd {

// f(inputs), recorded as one call. `variables`: the leaves that f reads besides; gradients go to
// them and to the inputs. The second run draws the random numbers of the first and gives the same
// bits; whatever f writes in place it is asked not to write again (is_recomputing()). No other
// thread would know of that: parallel() in f is an Error; recompute() inside of parallel() is not.
// Its gradient has none itself: create_graph is an Error. While backward() runs f, no other thread
// may use the variables in a graph.
Tensors recompute(std::function<Tensors(const Tensors&)> f, const Tensors& inputs,
                  const Tensors& variables);

// Whether this is such a second run, on this thread.
bool is_recomputing();

}  // namespace locus::autograd
