// Parameter: a named tensor that training changes, with one replica (and gradient) per context.
//
// A handle: copies are the same parameter. The shape may hold 0 for lengths not known yet (Dense
// learns its input width from the first input). initialize() then only notes what to do. Values are
// drawn once, when the shape is complete, on cpu(0), and copied to each context.
//
// Threads: create and initialize a parameter from one thread; then several may call data() and
// complete its shape. Errors are Error with Gluon's texts; a replica asked for on a context that
// has none is a ContextMismatch.
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
  bool differentiable = true;                  // false: grad_req is null, whatever it is set to
  double lr_mult = 1, wd_mult = 1;             // factors on the optimizer's learning rate and decay
  std::optional<init::Initializer> init = {};  // unset: by name, see initialize()
  DType dtype = f32;
};

struct InitializeOptions {
  // false: a parameter that was initialized before keeps its values, or the initializer and the
  // contexts that wait for its shape, and a warning says so. true: it starts anew; when the new
  // initializer throws, the old values stay.
  bool force_reinit = false;
};

class ShardedTensor;
// Which part of its whole a parameter is, of how many, along which axis.
struct Shard {
  size_t index = 0, of = 1;
  int axis = 0;
};

class Parameter {
 public:
  Parameter() = default;  // no parameter: valid() is false, any use throws Error
  Parameter(std::string name, const Shape& shape, const ParameterOptions& options = {});

  // The parts of one whole that is cut along an axis, one a context, the first of which are one
  // longer where its length does not divide evenly: "weight.0", "weight.1"; "weight" where there is
  // one context. `shape` is the whole's.
  static std::vector<Parameter> parts(const std::string& name, const Shape& shape, int axis,
                                      const Contexts& contexts,
                                      const ParameterOptions& options = {});

  bool valid() const { return state_ != nullptr; }
  bool is(const Parameter& other) const;  // one that is shared is the other
  const std::string& name() const;  // "0.weight": the longest path among the blocks it was added to
  Shape shape() const;              // 0: not known yet
  DType dtype() const;
  Shard part() const;
  Shape full_shape() const;  // of a part its whole's
  bool initialized() const;  // it has values
  bool deferred() const;     // initialize() was called, but the shape is not complete

  // The parameter's own initializer, else by the end of its name: weight takes `global`; bias, beta
  // and running_mean are 0; gamma and running_var are 1; any other name is an Error.
  void initialize(const init::Initializer& global = init::Uniform(),
                  const Contexts& contexts = current_context(), const InitializeOptions& = {},
                  Caller = Caller::here()) const;
  // Completes unknown lengths, and creates the values when initialize() was waiting for that. Of a
  // part `full` is the whole's shape. Throws ShapeError when a known length differs.
  void infer_shape(const Shape& full) const;

  // The replica on c, or failing that one that ops take together with tensors on c: a cpu_pinned(0)
  // one for cpu(0), where the results of ops on page-locked tensors are, and the reverse. Unset:
  // the only one, or that of current_context().
  Tensor data(std::optional<Context> c = {}, Caller = Caller::here()) const;
  Tensor grad(std::optional<Context> c = {}, Caller = Caller::here()) const;
  Tensors list_data(Caller = Caller::here()) const;
  Tensors list_grad(Caller = Caller::here()) const;
  std::vector<Context> list_ctx() const;  // also of a deferred parameter

  void zero_grad(Caller = Caller::here()) const;
  // Writes `values` into every replica; casts, and copies across contexts.
  void set_data(const Tensor& values, Caller = Caller::here()) const;
  // Replicas of `values` on exactly these contexts, with fresh gradients. Error for a part.
  void place(const Tensor& values, const Contexts& contexts, Caller = Caller::here()) const;
  // Moves: replicas on exactly these contexts, with the mean of the old ones and fresh gradients.
  // Error for a part that would leave its context.
  void reset_ctx(const Contexts& contexts, Caller = Caller::here()) const;
  // The mean of the replicas, as new memory on cpu(0): what save_parameters() writes.
  Tensor mean_on_cpu(Caller = Caller::here()) const;

  // Converts the values to a floating dtype, in new memory, with fresh gradients.
  void cast(DType dtype) const;
  // From now on this is `other`, in every copy of this handle and what shares it: one set of
  // values, one gradient that sums both uses, one entry for a Trainer. Its own values are gone.
  // Throws ShapeError or DTypeError when the two do not fit.
  void share(const Parameter& other) const;

  GradReq grad_req() const;
  GradReq made_grad_req() const;  // the one it was made with
  void set_grad_req(GradReq req) const;
  double lr_mult() const;
  void set_lr_mult(double v) const;  // ValueError unless finite and >= 0
  double wd_mult() const;
  void set_wd_mult(double v) const;

  // Grows whenever the replicas, grad_req or a multiplier are replaced: for caches of handles. What
  // is recorded (core/compile.h) while it is asked for here, or its values or gradients are, is
  // recorded anew when it grew.
  uint64_t generation() const;
  // Grows whenever the values come from elsewhere: by initialize(), set_data(), place(), share()
  // and what loads them; not by training, and where they are moved or cast.
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
  // Values that a file has, for a part those of its whole, which is what it takes its part of.
  void load(const Tensor& values, const Contexts& contexts, Caller) const;
  bool fits(const Shape& full) const;  // it has all lengths, and those that are known
  void complete(const Shape& full) const;
  void create(const Tensor& values, std::vector<Context> contexts, Caller) const;
  void rename(const std::string& path) const;  // unless its name is longer

  std::shared_ptr<State> state_;
};

// In network order, with names relative to the block that was asked.
using Parameters = std::vector<std::pair<std::string, Parameter>>;

// Shapes of values that parameters are about to get, of parts their whole's.
using ShapesToCome = std::vector<std::pair<Parameter, Shape>>;

// A parameter's shape for errors: "(256,None)", where a length is not known yet.
std::string lengths_text(const Shape& shape);
// "Parameter 0.weight (shape=(256,784), dtype=f32)".
std::ostream& operator<<(std::ostream& os, const Parameter& p);

// --- Details ---

// A parameter may be a part of a larger tensor, its whole (nn/tensor_parallel.h):
//   - It lives on one context, whatever context is named when it is initialized or loaded.
//   - Its values are its part of values drawn as one tensor, once for all parts that have equal
//     initializers.
//   - Files hold the whole.
//   - A Trainer takes the part as a parameter of its own.

}  // namespace locus::nn
