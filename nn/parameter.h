// Parameter: a named tensor that training changes, with one replica (and gradient) per context.
//
//   nn::Parameter w("weight", {10, 784});
//   w.initialize(init::Xavier(), gpu(0));
//
// A Parameter is a handle: copies are the same parameter. A length of 0 in the shape is not known
// yet: Dense learns its input width from the first input. initialize() then waits for the complete
// shape. Values are drawn once, on cpu(0), and copied to each context.
//
// Threads: create and initialize a parameter from one thread. Afterwards several threads may call
// data() and complete its shape. Errors are Error with Gluon's texts. A missing replica on a
// context is a ContextMismatch.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/autograd.h>
#include <locus/core/tensor.h>
#include <locus/nn/init.h>

namespace locus::nn {

struct ParameterOptions {
  GradReq grad_req = GradReq::write;
  bool differentiable = true;                  // false: grad_req is always null
  double lr_mult = 1, wd_mult = 1;             // factors on the optimizer's learning rate and decay
  std::optional<init::Initializer> init = {};  // unset: by name, see initialize()
  DType dtype = f32;
};

struct InitializeOptions {
  // false: a parameter that was initialized before is unchanged, even if it still waits for its
  // shape, and a warning is printed. true: it is initialized anew. If the new initializer throws,
  // the old values stay.
  bool force_reinit = false;
};

class ShardedTensor;
// Part `index` of `of` parts that a whole is cut into along an axis.
struct Shard {
  size_t index = 0, of = 1;
  int axis = 0;
};

class Parameter {
 public:
  Parameter() = default;  // no parameter: valid() is false, any use throws Error
  Parameter(std::string name, const Shape& shape, const ParameterOptions& options = {});

  // Cuts a whole of this shape along an axis into one part per context, named "weight.0",
  // "weight.1". If the length does not divide evenly, the first parts are longer by one. With one
  // context the name is "weight".
  static std::vector<Parameter> parts(const std::string& name, const Shape& shape, int axis,
                                      const Contexts& contexts,
                                      const ParameterOptions& options = {});

  bool valid() const { return state_ != nullptr; }
  bool is(const Parameter& other) const;  // the same parameter, by copy or by share()
  const std::string& name() const;  // "0.weight": the longest path among the blocks it was added to
  Shape shape() const;              // 0: not known yet
  DType dtype() const;
  Shard part() const;
  Shape full_shape() const;  // of a part: its whole's shape
  bool initialized() const;  // it has values
  bool deferred() const;     // initialize() was called, but the shape is not complete

  // Uses the parameter's own initializer. Without one, the end of its name decides: weight uses
  // `global`; bias, beta and running_mean are 0; gamma and running_var are 1; others are an Error.
  void initialize(const init::Initializer& global = init::Uniform(),
                  const Contexts& contexts = current_context(), const InitializeOptions& = {},
                  Caller = Caller::here()) const;
  // Completes unknown lengths. If initialize() waits for them, creates the values. For a part,
  // `full` is the whole's shape. ShapeError if a known length differs.
  void infer_shape(const Shape& full) const;

  // The replica on c. If c has none: a replica that ops accept together with tensors on c, which is
  // cpu_pinned(0) for cpu(0) and the reverse. If c is unset: the only replica, or the replica on
  // current_context().
  Tensor data(std::optional<Context> c = {}, Caller = Caller::here()) const;
  Tensor grad(std::optional<Context> c = {}, Caller = Caller::here()) const;
  Tensors list_data(Caller = Caller::here()) const;
  Tensors list_grad(Caller = Caller::here()) const;
  std::vector<Context> list_ctx() const;  // also of a deferred parameter

  void zero_grad(Caller = Caller::here()) const;
  // Writes `values` into every replica; casts, and copies across contexts.
  void set_data(const Tensor& values, Caller = Caller::here()) const;
  // Makes replicas of `values` on exactly these contexts, with new gradients. Not for parts.
  void place(const Tensor& values, const Contexts& contexts, Caller = Caller::here()) const;
  // Moves the parameter to exactly these contexts. New replicas hold the mean of the old replicas;
  // gradients are new. Error if a part would leave its context.
  void reset_ctx(const Contexts& contexts, Caller = Caller::here()) const;
  // The mean of the replicas, in new memory on cpu(0). save_parameters() writes this mean.
  Tensor mean_on_cpu(Caller = Caller::here()) const;

  // Converts the values to a floating dtype, in new memory, with new gradients.
  void cast(DType dtype) const;
  // Replaces this parameter by `other`, in every copy of this handle and in what shares it. Both
  // names then have one set of values, one gradient that sums both uses, and one entry in a
  // Trainer. The old values are dropped. ShapeError or DTypeError if shape or dtype differs; Error
  // if the part differs.
  void share(const Parameter& other) const;

  GradReq grad_req() const;
  GradReq made_grad_req() const;  // at construction
  void set_grad_req(GradReq req) const;
  double lr_mult() const;
  void set_lr_mult(double v) const;  // ValueError unless finite and >= 0
  double wd_mult() const;
  void set_wd_mult(double v) const;

  // Grows when replicas, grad_req or a multiplier are replaced, for caches of handles. A recording
  // (core/compile.h) that read this number, values or gradients is made anew after the number grew.
  uint64_t generation() const;
  // Grows when values come from outside: initialize(), set_data(), place(), share() and loading.
  // Training, moving and casting do not change it.
  uint64_t origin() const;

 private:
  friend class Block;
  struct State;
  State& state() const;
  const std::shared_ptr<State>& root() const;
  void watch() const;
  const Tensor* find(std::optional<Context> c) const;
  [[noreturn]] void refuse(std::optional<Context> c) const;
  void check_shares(const Parameter& other) const;
  void check_stays(const Contexts& contexts) const;
  Tensor draw(const init::Initializer& init) const;
  // Takes the values of a file. Files hold a part's whole; the part takes its share.
  void load(const Tensor& values, const Contexts& contexts, Caller) const;
  bool fits(const Shape& full) const;  // `full` has all lengths and agrees with known ones
  void complete(const Shape& full) const;
  void create(const Tensor& values, std::vector<Context> contexts, Caller) const;
  void rename(const std::string& path) const;  // unless the old name is as long

  std::shared_ptr<State> state_;
};

// In network order, with names relative to the block that returns them.
using Parameters = std::vector<std::pair<std::string, Parameter>>;

// Shapes of values that parameters are about to get. Parts have their whole's shape.
using ShapesToCome = std::vector<std::pair<Parameter, Shape>>;

// A parameter's shape for errors: "(256,None)". None is a length that is not known yet.
std::string lengths_text(const Shape& shape);
// "Parameter 0.weight (shape=(256,784), dtype=f32)".
std::ostream& operator<<(std::ostream& os, const Parameter& p);

// --- Details ---

// A parameter may be a part of a larger tensor, its whole (nn/tensor_parallel.h):
//   - It lives on one context. initialize() and loading ignore other contexts.
//   - The whole is drawn as one tensor, once for all parts with equal initializers.
//   - Files hold the whole.
//   - A Trainer treats each part as a separate parameter.

}  // namespace locus::nn
