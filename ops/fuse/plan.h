// A traced function as steps: launches of fused kernels, and calls of other ops. Internal to
// ops/fuse.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <locus/core/noncopyable.h>
#include <locus/ops/fuse/graph.h>
#include <locus/ops/fuse/kernel.h>

namespace locus::fusion {

class Plan : NonCopyable {
 public:
  // Compiles the kernels for c. `name`: of the kernels. Throws Unfused, and what compile_program
  // throws.
  Plan(const std::string& name, Graph graph, Context c);

  // The results, undefined ones included. Inputs must have the layouts of the trace.
  Tensors run(const Tensors& in) const;

  size_t kernels() const { return kernels_; }
  size_t others() const { return steps_.size() - kernels_; }
  std::string text() const;  // "1 kernel (exp, add)"

 private:
  // A view of a tensor: of an input, or of a result of an earlier step.
  struct Operand {
    int place;
    int64_t bytes;  // from the tensor's first element to the view's
    View view;
    bool whole;  // the view is the tensor
  };
  struct Step {
    std::shared_ptr<const KernelCall> kernel;  // null: another op
    const Op* op = nullptr;
    Attrs attrs = {};
    std::vector<Operand> in = {};
    std::vector<int> out = {};         // places
    std::vector<View> out_views = {};  // of a kernel
    std::vector<int> last = {};        // places that no later step uses
    std::string text = {};
  };
  class Planner;

  static Tensor view_of(const Operand& o, const Tensors& places);

  Context context_;
  size_t inputs_ = 0, places_ = 0, kernels_ = 0;
  std::vector<Step> steps_;
  std::vector<Operand> results_;  // place -1: undefined
};

}  // namespace locus::fusion
