// The tape: recorded calls (nodes), and the graph state of tensors. Internal to core.
//
// A GraphState belongs to one TensorImpl: a result of a node, which stores the state, or a leaf
// from attach_grad. Nodes own their inputs' states, and tensors of results own the node, so the
// graph has no cycles. In the graph, a backward pass writes only leaves' gradients and what it
// frees. All other data is its own (backward_pass.h), so threads may differentiate through shared
// tensors.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <locus/core/memory/storage.h>
#include <locus/core/op.h>
#include <locus/core/saved.h>
#include <locus/core/tensor.h>

namespace locus {

struct Node;

struct GraphState {
  Node* node = nullptr;         // null for a leaf
  GradReq req = GradReq::null;  // of a leaf
  // Whether backward() wrote grad since mark_used(), and mark_summed() marked it then.
  enum Fresh : uint8_t { used, written, summed } fresh = used;
  bool placed = false;  // grad keeps its memory, of the program or a recording
  Tensor grad;          // of a leaf
  struct Hook {
    std::function<void()> written, before;
  };
  std::shared_ptr<const Hook> hook;  // set_grad_hook()
};

// One input of a call, in a backward pass.
struct PassInput {
  int target = -1;                // index of the pass's Target; -1: not reached
  bool needed = false;            // the pass uses its gradient
  const Tensor* place = nullptr;  // Saved::place()
};

// One recorded call. Its operands and attributes follow in the same block of memory.
struct Node : NonCopyable {
  struct Input {
    Meta meta;
    Context context;
    // Bit k: result k depends on the input. The last bit also covers all later results.
    uint32_t results = ~0u;
    uint64_t version = 0;
    std::shared_ptr<GraphState> edge;  // null: needs no gradient
    Tensor value;                      // when kept
  };
  struct Output {
    GraphState state;
    TensorImpl kept;  // without storage if not kept; without graph: no cycle
    uint64_t version = 0;
  };

  Node(const Op& op, const AttrsView& attrs, size_t n_in, size_t n_out, std::byte* tail);
  ~Node();
  void free();  // releases all that it keeps
  int number_of(const GraphState& result) const;
  // Whether result k depends on the input.
  static bool leads(const Input& input, int k) { return input.results >> std::min(k, 31) & 1; }
  void check_versions() const;  // Error if a kept value was changed in place

  const Op& op;
  const uint64_t order;  // of recording: greater than that of its inputs' nodes
  bool freed = false;
  std::span<Input> in;
  std::span<Output> out;
  std::byte* attrs;
  AttrsOwner owner;
};

uint64_t next_node();  // nodes recorded from now on have this order, or a greater one

inline bool needs_grad(const TensorImpl& t) {
  return t.graph && (t.graph->node || t.graph->req != GradReq::null);
}

// Records a node for an op that ran, if an input needs a gradient. Called while recording.
void record(const Op& op, std::span<const Ref> in, const AttrsView& attrs, std::span<Tensor> out);
// Marks the results of an op that ran outside of a Record scope on a tensor that needs a gradient.
void mark_unrecorded(const Op& op, std::span<const Ref> in, std::span<Tensor> out);
inline void leave_unrecorded(const Op& op, std::span<const Ref> in, std::span<Tensor> out) {
  for (const Ref& r : in)
    if (const TensorImpl& t = *r.tensor_->handle(); needs_grad(t) || t.origin >= Origin::unrecorded)
        [[unlikely]]
      return mark_unrecorded(op, in, out);
}
// Why x is in no graph, and what to do: the end of an error's sentence that starts with x.
std::string why_no_graph(const TensorImpl& x);
// Throws Error, starting with `who`, if `target` is a broadcast view, or if writing it would break
// the graph being recorded.
void check_in_place(const std::string& who, std::span<const Ref> in, const Tensor& target);

}  // namespace locus
