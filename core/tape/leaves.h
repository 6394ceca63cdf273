// Which leaves a tensor depends on. Internal to core and ops/fuse.
#pragma once

#include <set>

#include <locus/core/tensor.h>

namespace locus {

struct GraphState;

// The leaves that `head` depends on. The head is in a graph.
std::set<const GraphState*> leaves_of(const Tensor& head);

}  // namespace locus
