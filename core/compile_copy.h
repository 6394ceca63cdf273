// Copies between tensors of the program and memory of a recording. Internal to compile.cc.
#pragma once

#include <locus/core/tensor.h>

namespace locus::compiled {

// New memory for a tensor like each of these. Dense strides are kept; others become row-major.
Tensors new_like(const Tensors& tensors);
// New memory for a tensor with the strides of x, whatever they are: sums over both are rounded
// alike.
Tensor same_strides(const Tensor& x);

// Copies from[i] to to[i]. All pairs of one context that are dense in one layout take one launch;
// each other pair takes a launch of its own. The copies are neither recorded nor in a graph.
void copy_all(const Tensors& from, const Tensors& to);

}  // namespace locus::compiled
