// Block: a piece of a network, made of parameters and other blocks.
//
// A block is a handle: copies share its parameters and its children, so layers travel by value. To
// write a block, derive from Block, create parameters with add_parameter() and children with
// add_child() in the constructor, and implement forward():
//   struct Net : nn::Block {
//     nn::Dense hidden{256, nn::relu}, output{10};
//     Net() { add_child("hidden", hidden); add_child("output", output); }
//     Tensor forward(const Tensor& x) override { return output(hidden(x)); }
//   };
// forward() runs on the context of its input and uses the replicas there. Several inputs or
// results, and parameters of a block's own: below, under Details.
#pragma once

#include <concepts>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <locus/core/io.h>
#include <locus/core/tensor.h>
#include <locus/nn/hooks.h>
#include <locus/nn/init.h>
#include <locus/nn/parameter.h>

namespace locus {
class Compiled;
}
namespace locus::checkpoint {
class Part;
}
namespace locus::nn {

struct LoadOptions {
  bool allow_missing = false;  // a parameter that the file lacks keeps its values
  bool ignore_extra = false;   // skip what the file has and the block has not
  bool cast_dtype = false;     // convert instead of refusing another dtype
};

class Block {
 public:
  Block() = default;
  Block(const Block&) = default;
  Block(Block&&) = default;
  Block& operator=(const Block&) = default;
  Block& operator=(Block&&) = default;
  virtual ~Block() = default;

  // A block implements one of the two; the other takes its way through it.
  virtual Tensor forward(const Tensor& x);
  virtual Tensors forward(const Tensors& in);
  // forward() between the hooks. An Error of forward() names the innermost block that it came from.
  // Several inputs live on one context, else ContextMismatch, unless the block spans contexts.
  Tensor operator()(const Tensor& x, Caller = Caller::here());
  Tensors operator()(const Tensors& in, Caller = Caller::here());

  // Several replicas at once: xs[i] lives on a context of its own, and goes to the replica there;
  // result i is its result. Layers that look at all replicas, SyncBatchNorm, see them together, so
  // backward() is called once for all losses: autograd::backward(losses). Containers call the
  // on_replicas() of their blocks, one after the other, uncompiled; other blocks run forward() for
  // each, unless they implement this one, too. Throws ValueError for a context that comes twice,
  // ContextMismatch for different kinds of them.
  Tensors on_replicas(const Tensors& xs, Caller = Caller::here());
  virtual Tensors forward_replicas(const Tensors& xs);

  // Run before and after each forward(), in the order of registration, by all copies of the block;
  // under hybridize() and TrainStep those of blocks inside run only when the call is recorded.
  // They may look at the tensors and throw; Gluon's names.
  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  HookHandle register_forward_hook(ForwardHook hook);

  // From now on, unless told otherwise, calls are compiled, for each shape (core/compile.h, whose
  // errors it throws): forward() runs once and is replayed, and so is its gradient when it is
  // called under autograd::Record. TrainStep compiles a whole step of training. A copy of the block
  // is recorded by itself. What forward() keeps for its next call it writes in place.
  void hybridize(bool active = true);

  // All parameters with structural names: its own first, then the children's ("0.weight"). A shared
  // parameter appears under each of its names. With a pattern, the parameters whose names start
  // with a match of it (Gluon's rule; a POSIX extended regular expression):
  // parameters(".*weight|.*bias"). Changes nothing: threads may ask at the same time. Throws
  // ValueError for an invalid pattern.
  Parameters parameters() const;
  Parameters parameters(const std::string& pattern) const;
  // One of them. Throws Error listing the names there are.
  Parameter parameter(std::string_view name) const;

  // See Parameter::initialize. The default initializer is init::Uniform(0.07).
  void initialize(const Contexts& contexts = current_context(), const InitializeOptions& = {},
                  Caller = Caller::here());
  void initialize(const init::Initializer& global, const Contexts& contexts = current_context(),
                  const InitializeOptions& = {}, Caller = Caller::here());
  void zero_grad(Caller = Caller::here());
  void reset_ctx(const Contexts& contexts, Caller = Caller::here());

  // Parameters to a floating dtype, with fresh gradients; those of norms stay f32 where it has 16
  // bits. Layers refuse inputs of another floating dtype than their weights. Cast before making a
  // Trainer.
  virtual void cast(DType dtype);
  // Parameters whose names match are no longer trained (GradReq::null), or again as they were made.
  void freeze(const std::string& pattern = ".*");
  void unfreeze(const std::string& pattern = ".*");
  // From now on uses the parameters of `other` that have the same names (see Parameter::share), all
  // of them its own. Throws Error when it has none of them.
  void share_parameters(const Block& other);
  // visit(block), for the children first, as in Gluon.
  void apply(const std::function<void(Block&)>& visit);

  // MXNet's .params format (core/io.h), under structural names.
  void save_parameters(const std::string& path, Caller = Caller::here()) const;
  // Into the replicas where they are; a parameter without values gets them on current_context(), a
  // part (nn/tensor_parallel.h) on its own.
  void load_parameters(const std::string& path, Caller = Caller::here());
  // Onto exactly these contexts. The file is checked whole before any parameter is touched: missing
  // and extra names are FormatErrors, other shapes ShapeErrors, other dtypes DTypeErrors.
  void load_parameters(const std::string& path, const Contexts& contexts, const LoadOptions& = {},
                       Caller = Caller::here());

  // Whether it takes inputs that live on different contexts: where a block inside of it does.
  virtual bool spans_contexts() const;
  // Whether the block, or a block inside of it, needs all replicas' batches while it trains: then
  // on_replicas() trains it, and forward() does not.
  virtual bool spans_replicas() const;

  // A table of layers, output shapes, parameters, contexts and memory (bytes of parameters with
  // their gradients, on all contexts), from one forward pass of zeros of this shape; or of these.
  std::string summary(const Shape& input);
  std::string summary(const Tensors& inputs);

  // Gluon's text: "Dense(784 -> 256, relu)"; containers list their children.
  virtual std::string repr() const;
  // The class's name without its namespaces.
  std::string type_name() const;

  const std::vector<std::pair<std::string, std::shared_ptr<Block>>>& children() const {
    return children_;
  }

 protected:
  Parameter add_parameter(const std::string& name, const Shape& shape,
                          const ParameterOptions& options = {});
  // A parameter that is cut along an axis into parts, one a context (Parameter::parts).
  std::vector<Parameter> add_parts(const std::string& name, const Shape& shape, int axis,
                                   const Contexts& contexts, const ParameterOptions& options = {});
  // Where load_parameters() puts a parameter without values.
  virtual Contexts home(const Parameter& p) const;
  // Makes `block` a part of this one: initialize(), parameters() and files reach it. The parameters
  // of `block` get their names here ("hidden.weight").
  template <std::derived_from<Block> B>
  void add_child(const std::string& name, const B& block) {
    push_child(name, std::make_shared<B>(block));
  }
  void push_child(const std::string& name, std::shared_ptr<Block> block);
  class Plain : NonCopyable {  // while it lives, this thread's calls are not compiled
   public:
    Plain();
    ~Plain();

   private:
    const bool outer_;
  };
  // Throws Error when there are not as many.
  void expect_inputs(const Tensors& in, size_t n) const;
  // Throws DTypeError when x is floating and the parameter of another dtype.
  void refuse_other_dtype(const Tensor& x, const Parameter& p) const;

 private:
  class Hybrid {
   public:
    Hybrid() = default;
    Hybrid(const Hybrid& other) : active(other.active) {}
    Hybrid& operator=(const Hybrid& other) {
      active = other.active;
      compiled = nullptr;
      return *this;
    }
    bool active = false;
    std::shared_ptr<Compiled> compiled;  // of one Block, forward() of which it calls
  };
  template <class T>  // Tensor or Tensors
  T run(const T& in, Caller from);
  // run() between the hooks, which are told of each of the calls that were made.
  template <class T>
  T call(const T& in, Caller from, const auto& run, const auto& calls);
  Tensors compiled_forward(const Tensors& in, Caller from);
  void refuse_taken(const std::string& name) const;
  std::string place() const;  // for errors: "layer '0' Dense(784 -> 10, linear)"
  // For errors: that initialize() of `caller` did not reach this block, which is no child of it.
  std::string not_added_to(const Block* caller) const;
  void collect(const std::string& prefix, Parameters& out) const;
  friend class checkpoint::Part;
  NamedTensors values(Caller) const;
  std::function<void()> prepare_load(NamedTensors file, const std::string& path,
                                     const std::optional<Contexts>& contexts, const LoadOptions&,
                                     Caller, ShapesToCome* to_come = nullptr) const;

  Parameters own_;
  std::vector<std::pair<std::string, std::shared_ptr<Block>>> children_;
  std::shared_ptr<Hooks> hooks_ = std::make_shared<Hooks>();  // of all copies: their identity, too
  Hybrid hybrid_;
};

std::ostream& operator<<(std::ostream& os, const Block& block);

// --- Details ---

// A block of several inputs or results implements the other forward(). In C++ an override of one
// forward() hides the other: `using Block::forward` keeps both callable by name. Calls of the
// block, both(...), need no using:
//   struct Both : nn::Block {
//     using Block::forward;
//     Tensors forward(const Tensors& in) override {
//       expect_inputs(in, 2);
//       return {in[0] + in[1], in[0] - in[1]};
//     }
//   };
//   Tensors both = Both()({x, y});

// A parameter of a block's own needs an initializer, unless its name ends as Gluon's do (weight,
// bias, gamma, beta, ...):
//   Scaled() { scale = add_parameter("scale", {1}, {.init = init::One()}); }
//   Tensor forward(const Tensor& x) override { return x * scale.data(x.context()); }
//   nn::Parameter scale;
// Values that training does not learn, such as running means, are parameters with
// .differentiable = false. They are saved, moved and replicated with the rest.

}  // namespace locus::nn
