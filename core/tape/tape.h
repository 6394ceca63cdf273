// The tape: what recording hangs on a tensor that is part of the graph. Internal to core.
//
// A GraphState belongs to one TensorImpl: either the result of a node, in which it lies, or a leaf
// that attach_grad made. Nodes own their inputs' states, and results' tensors their node, so the
// graph is free of cycles. A backward pass keeps its own notes (backward_pass.h) and writes only
// what it frees and leaves' gradients: several threads may differentiate through common tensors.
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
  // Written by backward since mark_used(), and then marked by mark_summed().
  enum Fresh : uint8_t { used, written, summed } fresh = used;
  bool placed = false;  // grad stays where it is: the program, or a recording, has it so
  Tensor grad;          // of a leaf
  struct Hook {
    std::function<void()> written, before;
  };
  std::shared_ptr<const Hook> hook;  // set_grad_hook()
};

// What a backward pass knows of one input of a call.
struct PassInput {
  int target = -1;                // the pass's number of what it leads to; -1: it is not reached
  bool needed = false;            // its gradient has a use
  const Tensor* place = nullptr;  // Saved::place()
};

// One recorded call, in one block of memory: its operands and attributes follow it.
struct Node : NonCopyable {
  struct Input {
    Meta meta;
    Context context;
    // Results that depend on it, by number; the last bit stands for all behind it, too.
    uint32_t results = ~0u;
    uint64_t version = 0;
    std::shared_ptr<GraphState> edge;  // null: needs no gradient
    Tensor value;                      // when kept
  };
  struct Output {
    GraphState state;
    TensorImpl kept;  // without storage when it is not, and without its graph: no cycle
    uint64_t version = 0;
  };

  Node(const Op& op, const AttrsView& attrs, size_t n_in, size_t n_out, std::byte* tail);
  ~Node();
  void free();  // lets go of all that it keeps
  int number_of(const GraphState& result) const;
  // Whether the input is one that result `k` depends on.
  static bool leads(const Input& input, int k) { return input.results >> std::min(k, 31) & 1; }
  void check_versions() const;  // Error where what it keeps was changed in place since

  const Op& op;
  const uint64_t order;  // of recording: a node comes after those it takes results from
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

// Leaves a node for an op that ran, when an input needs a gradient. Called while recording.
void record(const Op& op, std::span<const Ref> in, const AttrsView& attrs, std::span<Tensor> out);
// Marks the results of an op that ran outside of a Record scope on a tensor that needs a gradient.
void mark_unrecorded(const Op& op, std::span<const Ref> in, std::span<Tensor> out);
inline void leave_unrecorded(const Op& op, std::span<const Ref> in, std::span<Tensor> out) {
  for (const Ref& r : in)
    if (const TensorImpl& t = *r.tensor_->handle(); needs_grad(t) || t.origin >= Origin::unrecorded)
        [[unlikely]]
      return mark_unrecorded(op, in, out);
}
// Why x, which needs no gradient, is in no graph, and what to do: ends an error's sentence that
// begins with x.
std::string why_no_graph(const TensorImpl& x);
// Throws Error, which begins with `who`, when writing into `target` in place would break the graph
// being recorded (autograd.cc).
void check_in_place(const std::string& who, std::span<const Ref> in, const Tensor& target);

}  // namespace locus
