// The recorded graph: what hangs on a tensor that is part of one. Internal to core.
//
// A GraphState belongs to one TensorImpl: either the result of a node, or a leaf that attach_grad
// made. Nodes own their inputs' states and never their outputs', so the graph is free of cycles.
#pragma once

#include <memory>
#include <vector>

#include <locus/core/op.h>
#include <locus/core/storage.h>
#include <locus/core/tensor.h>

namespace locus {

struct Node;

struct GraphState {
  std::shared_ptr<Node> node;   // null for a leaf
  int index = 0;                // which of the node's outputs
  GradReq req = GradReq::null;  // of a leaf
  bool fresh = false;           // written by backward since the last fresh_grad(x, true)
  Tensor grad;                  // of a leaf
  Tensor incoming;              // scratch of one backward pass
};

struct Node {
  Node(const Op& o, const Attrs& attrs, int n_in) : op(o), saved(attrs, n_in) {}
  ~Node();

  const Op& op;
  Saved saved;
  std::vector<std::shared_ptr<GraphState>> edges;  // null: that input needs no gradient
  std::vector<uint64_t> versions;                  // of the saved inputs, then outputs, when saved
  std::vector<Meta> out_metas;
  Context context;  // of the outputs
  uint64_t order = 0;
  bool freed = false;
  Tensors dout;  // scratch of one backward pass
  bool scheduled = false;
};

inline bool needs_grad(const TensorImpl& t) {
  return t.graph && (t.graph->node || t.graph->req != GradReq::null);
}

// Leaves a node for an op that ran, when an input needs a gradient. Called while recording.
void record(const Op& op, std::span<const Ref> in, const AttrsView& attrs, std::span<Tensor> out);
// Throws Error when writing into `target` in place would break the graph being recorded.
void check_in_place(const Op& op, std::span<const Ref> in, const Tensor& target);

}  // namespace locus
