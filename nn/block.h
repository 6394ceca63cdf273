// Block: a piece of a network, made of parameters and other blocks.
//
// A block is a handle: copies share its parameters and children, so layers are passed by value. To
// write a block, derive from Block. In the constructor create parameters with add_parameter() and
// children with add_child(). Then implement forward():
//   struct Net : nn::Block {
//     nn::Dense hidden{256, nn::relu}, output{10};
//     Net() { add_child("hidden", hidden); add_child("output", output); }
//     Tensor forward(const Tensor& x) override { return output(hidden(x)); }
//   };
// forward() runs on the context of its input and uses the replicas there. Details, below, shows
// blocks with several inputs or results and blocks with parameters. Build a block on one thread.
// Each replica's thread may then call the block (core/parallel.h).
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
  bool ignore_extra = false;   // skip names that the block lacks
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

  // A block implements one of the two; the other calls it. Error if a block implements neither.
  virtual Tensor forward(const Tensor& x);
  virtual Tensors forward(const Tensors& in);
  // Runs forward() between the hooks. An Error of forward() names the innermost block that threw.
  // ContextMismatch if inputs live on several contexts, unless the block spans contexts.
  Tensor operator()(const Tensor& x, Caller = Caller::here());
  Tensors operator()(const Tensors& in, Caller = Caller::here());

  // Runs several replicas: result i is that of xs[i], by the replica on its context. Every input
  // has a different context. SyncBatchNorm sees all replicas together, so call backward() once for
  // all losses: autograd::backward(losses). Containers call on_replicas() of their blocks in turn,
  // uncompiled. Other blocks run forward() for each input, unless they override forward_replicas().
  // ValueError if a context is repeated; ContextMismatch if kinds of contexts are mixed.
  Tensors on_replicas(const Tensors& xs, Caller = Caller::here());
  virtual Tensors forward_replicas(const Tensors& xs);

  // Hooks run before and after each forward() of the block and its copies, in the order of
  // registration. They may read the tensors and throw. When hybridize() or TrainStep replays a
  // call, blocks inside the call run no hooks. The names are Gluon's.
  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  HookHandle register_forward_hook(ForwardHook hook);

  // Compiles later calls, once per shape (core/compile.h lists the errors): forward() runs once and
  // is replayed. Under autograd::Record its gradient is replayed too. TrainStep compiles a whole
  // training step. Copies of the block are recorded separately. State that forward() keeps for the
  // next call must be written in place. hybridize(false) stops compiling.
  void hybridize(bool active = true);

  // All parameters with structural names: the block's first, then the children's ("0.weight"). A
  // shared parameter appears under each of its names. A pattern selects names that start with a
  // match, as in Gluon: parameters(".*weight|.*bias"). It is a POSIX extended regular expression;
  // ValueError if invalid. Several threads may call parameters() at the same time.
  Parameters parameters() const;
  Parameters parameters(const std::string& pattern) const;
  // The parameter with this name. Error, with a list of all names, if there is none.
  Parameter parameter(std::string_view name) const;

  // See Parameter::initialize. The default initializer is init::Uniform(0.07).
  void initialize(const Contexts& contexts = current_context(), const InitializeOptions& = {},
                  Caller = Caller::here());
  void initialize(const init::Initializer& global, const Contexts& contexts = current_context(),
                  const InitializeOptions& = {}, Caller = Caller::here());
  void zero_grad(Caller = Caller::here());
  void reset_ctx(const Contexts& contexts, Caller = Caller::here());

  // Converts parameters to a floating dtype, with new gradients. For 16-bit dtypes, parameters of
  // norms become f32. Layers refuse inputs of another floating dtype than their weights. Cast
  // before making a Trainer.
  virtual void cast(DType dtype);
  // freeze() stops training parameters whose names match (GradReq::null). unfreeze() restores their
  // original grad_req.
  void freeze(const std::string& pattern = ".*");
  void unfreeze(const std::string& pattern = ".*");
  // Replaces parameters by those of `other` with the same names (see Parameter::share). Other
  // parameters are unchanged. Error if no names match.
  void share_parameters(const Block& other);
  // Calls visit for all blocks inside, children first, then for this block, as in Gluon.
  void apply(const std::function<void(Block&)>& visit);

  // Writes MXNet's .params format (core/io.h), with structural names.
  void save_parameters(const std::string& path, Caller = Caller::here()) const;
  // Loads onto the contexts of each parameter. A parameter that was not initialized gets values on
  // current_context(), a part (nn/tensor_parallel.h) on the part's context.
  void load_parameters(const std::string& path, Caller = Caller::here());
  // Loads onto exactly these contexts. The whole file is checked before any parameter changes:
  // FormatError for missing and extra names, ShapeError for other shapes, DTypeError for other
  // dtypes.
  void load_parameters(const std::string& path, const Contexts& contexts, const LoadOptions& = {},
                       Caller = Caller::here());

  // Whether the block, or a block inside it, takes inputs that live on different contexts.
  virtual bool spans_contexts() const;
  // Whether the block, or a block inside it, needs all replicas' batches for training. If so, train
  // it with on_replicas(), not forward().
  virtual bool spans_replicas() const;

  // Runs one forward pass, of zeros of this shape or of these inputs. Returns a table of layers,
  // output shapes, parameters, contexts and memory (parameters and gradients on all contexts).
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
  // Adds a whole that is cut along an axis into one part per context (Parameter::parts).
  std::vector<Parameter> add_parts(const std::string& name, const Shape& shape, int axis,
                                   const Contexts& contexts, const ParameterOptions& options = {});
  // Where load_parameters() puts a parameter that was not initialized.
  virtual Contexts home(const Parameter& p) const;
  // Makes `block` a child: initialize(), parameters() and files include it. Its parameters get
  // names such as "hidden.weight".
  template <std::derived_from<Block> B>
  void add_child(const std::string& name, const B& block) {
    push_child(name, std::make_shared<B>(block));
  }
  void push_child(const std::string& name, std::shared_ptr<Block> block);
  class Plain : NonCopyable {  // while alive, this thread's calls are not compiled
   public:
    Plain();
    ~Plain();

   private:
    const bool outer_;
  };
  // Error if there are not n inputs.
  void expect_inputs(const Tensors& in, size_t n) const;
  // DTypeError if x is floating and p has another dtype, outside an amp::Scope.
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
    std::shared_ptr<Compiled> compiled;  // calls forward() of one Block
  };
  template <class T>  // Tensor or Tensors
  T run(const T& in, Caller from);
  // Runs run() between the hooks; `calls` lists the calls that hooks see.
  template <class T>
  T call(const T& in, Caller from, const auto& run, const auto& calls);
  Tensors compiled_forward(const Tensors& in, Caller from);
  void refuse_taken(const std::string& name) const;
  std::string place() const;  // for errors: "layer '0' Dense(784 -> 10, linear)"
  // For errors: says that this block is no child of `caller`, so initialize() did not reach it.
  std::string not_added_to(const Block* caller) const;
  void collect(const std::string& prefix, Parameters& out) const;
  friend class checkpoint::Part;
  NamedTensors values(Caller) const;
  std::function<void()> prepare_load(NamedTensors file, const std::string& path,
                                     const std::optional<Contexts>& contexts, const LoadOptions&,
                                     Caller, ShapesToCome* to_come = nullptr) const;

  Parameters own_;
  std::vector<std::pair<std::string, std::shared_ptr<Block>>> children_;
  std::shared_ptr<Hooks> hooks_ = std::make_shared<Hooks>();  // shared by copies: their identity
  Hybrid hybrid_;
};

std::ostream& operator<<(std::ostream& os, const Block& block);

// --- Details ---

// A block with several inputs or results implements the other forward(). In C++ an override of one
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

// A parameter needs an initializer unless its name ends in weight, bias, gamma, beta, running_mean
// or running_var:
//   Scaled() { scale = add_parameter("scale", {1}, {.init = init::One()}); }
//   Tensor forward(const Tensor& x) override { return x * scale.data(x.context()); }
//   nn::Parameter scale;
// Values that training does not learn, such as running means, are parameters with .differentiable =
// false. They are saved, moved and replicated with the rest.

}  // namespace locus::nn
