#include <locus/core/tape/leaves.h>

#include <vector>

#include <locus/core/tape/tape.h>

namespace locus {

std::set<const GraphState*> leaves_of(const Tensor& head) {
  std::set<const GraphState*> leaves;
  std::set<const Node*> nodes;
  std::vector<const GraphState*> next{head.impl().graph.get()};
  while (!next.empty()) {
    const GraphState* const state = next.back();
    next.pop_back();
    if (!state->node)
      leaves.insert(state);
    else if (nodes.insert(state->node).second)
      for (const Node::Input& in : state->node->in)
        if (in.edge) next.push_back(in.edge.get());
  }
  return leaves;
}

}  // namespace locus
