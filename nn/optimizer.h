// Optimizers: update weights by gradients. A Trainer (nn/trainer.h) or a KVStore (nn/kvstore.h)
// calls update(). The optimizer owns its numbers (learning rate, momentum). The caller owns the
// state tensors and the counts of updates. Threads: see on_threads(); setters only between updates.
// Unusual cases: "Details" at the end.
//
//   nn::Trainer trainer(net.parameters(), optim::Adam({.learning_rate = 1e-3, .wd = 1e-4}));
//
// Names, defaults and formulas are those of MXNet 1.x (ops/optim.h), unless stated otherwise. wd
// applies to biases, too. Options of every optimizer:
//   learning_rate    multiplied by a parameter's lr_mult
//   wd               weight decay, multiplied by a parameter's wd_mult
//   clip_gradient    limits each rescaled element to [-c, c]
//   multi_precision  f16 and bf16 weights have f32 states; the last state is a master copy, and the
//                    weights are rounded from it
// An option out of its range is a ValueError that names the option.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <locus/core/tensor.h>
#include <locus/nn/options.h>
#include <locus/nn/schedule.h>
#include <locus/ops/optim.h>

namespace locus::optim {

// The operands of one update(): weights of one context and dtype, with equal multipliers and equal
// counts of updates.
struct ParameterGroup {
  Tensors weights = {}, gradients = {};
  std::vector<Tensors> state = {};  // [kind][weight], e.g. state[0][i] is weight i's momentum
  double lr_mult = 1, wd_mult = 1;
  std::shared_ptr<int64_t> count = std::make_shared<int64_t>(0);  // updates so far
};

// A captured update (core/capture.h) reads the learning rate at replay time and counts one update.
// All other hyperparameters are frozen at capture. The graph owns what it reads, so the optimizer
// may be destroyed first.
class Optimizer {
 public:
  // The options of every optimizer.
  struct Common {
    double learning_rate = 0.01, wd = 0;
    std::optional<double> clip_gradient = {};
    bool multi_precision = false;
  };
  // Errors and files contain `name`. ValueError for a learning rate outside of `rates`.
  Optimizer(std::string name, const Common& common,
            const options::Range& rates = options::not_negative, Caller = Caller::here());
  // A copy has its own counts and learning rate.
  Optimizer(const Optimizer& other);
  Optimizer& operator=(const Optimizer& other);  // compiled functions record again
  virtual ~Optimizer() = default;

  const std::string& name() const { return name_; }
  const Common& common() const { return common_; }

  // With a schedule: its rate at num_update().
  double learning_rate() const;
  // Error if there is a schedule. ValueError outside of `rates`, which is finite and >= 0 unless
  // given.
  void set_learning_rate(double v);
  // The n-th update has the learning rate schedule(n), from n = 1, as in Gluon. An empty schedule
  // removes the schedule. The rate then stays that of the last update, or, without an update, the
  // rate before. If the schedule throws, or returns NaN or a negative rate (ValueError), nothing is
  // updated or counted.
  void set_schedule(LRScheduler schedule);
  // The largest number of updates that a parameter has had.
  int64_t num_update() const;
  void set_num_update(int64_t n);

  // The names of a weight's states, in order.
  virtual std::vector<std::string> state_names(DType weight) const;
  // The name of one state; the state's number if it has no name.
  std::string state_name(DType weight, size_t state) const;
  // The state tensors of one weight, on its context.
  virtual Tensors create_state(const Tensor& weight) const;
  // Updates weights and states in place by gradients times `rescale`, and counts one update. If
  // update() throws, it counts none.
  virtual void update(ParameterGroup& group, double rescale);
  // Whether several threads may call update() at once, for groups on different contexts. True after
  // use(). One thread at a time calls the schedule.
  bool on_threads() const { return run_ != nullptr; }

 protected:
  // The numbers of the t-th update.
  struct Step {
    double lr, wd, rescale_grad, clip_gradient;
    int64_t t;
  };
  // Makes update() call this op. make(numbers, t) sets the other numbers of the t-th update: lr,
  // wd, rescale_grad and clip_gradient are set already.
  template <class Numbers>
  void use(const UpdateOp<Numbers>& op, std::function<void(Numbers&, int64_t t)> make);
  // For a derived class with its own update(): returns a function that gives the numbers of the
  // next update and counts the update. Pass this function to an op. A graph calls it at each
  // replay.
  std::function<Step()> next_step(const ParameterGroup& group, double rescale) const;

 private:
  struct Progress;  // shared with recordings
  struct Update;
  std::function<Step()> next_step(const ParameterGroup& group, double rescale,
                                  std::shared_ptr<Update> now) const;
  bool has_master(DType weight) const;

  std::string name_;
  Common common_;
  std::shared_ptr<Progress> progress_;
  std::vector<std::string> states_;
  std::function<void(const ParameterGroup&, std::function<Step()>)> run_;
  std::shared_ptr<uint64_t> assigned_ = std::make_shared<uint64_t>(0);  // how often
};

template <class Numbers>
void Optimizer::use(const UpdateOp<Numbers>& op, std::function<void(Numbers&, int64_t t)> make) {
  states_.clear();
  for (const char* const* name = op.state_names; *name; ++name) states_.emplace_back(*name);
  run_ = [op, make = std::move(make)](const ParameterGroup& group, std::function<Step()> step) {
    op(group.weights, group.gradients, group.state, [make, step = std::move(step)] {
      const Step s = step();
      Numbers numbers;
      numbers.lr = s.lr;
      numbers.wd = s.wd;
      numbers.rescale_grad = s.rescale_grad;
      numbers.clip_gradient = s.clip_gradient;
      make(numbers, s.t);
      return numbers;
    });
  };
}

struct SGDOptions {
  double learning_rate = 0.01, momentum = 0, wd = 0;
  std::optional<double> clip_gradient = {};
  bool multi_precision = false;
};
// sgd_update, with momentum sgd_mom_update.
struct SGD : Optimizer {
  explicit SGD(const SGDOptions& options = {}, Caller = Caller::here());
};

// Nesterov's accelerated gradient: nag_mom_update, without momentum sgd_update.
using NAGOptions = SGDOptions;
struct NAG : Optimizer {
  explicit NAG(const NAGOptions& options = {}, Caller = Caller::here());
};

struct AdamOptions {
  double learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, wd = 0;
  std::optional<double> clip_gradient = {};
  bool multi_precision = false;
};
// adam_update with lr sqrt(1 - beta2^t) / (1 - beta1^t).
struct Adam : Optimizer {
  explicit Adam(const AdamOptions& options = {}, Caller = Caller::here());
};

struct AdamWOptions {
  double learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, wd = 0;
  bool correct_bias = true;
  std::optional<double> clip_gradient = {};
  bool multi_precision = false;
};
// adamw_update with Adam's corrections (MXNet 2.x; 1.x has none). PyTorch differs only in epsilon:
// it adds epsilon to the corrected root.
struct AdamW : Optimizer {
  explicit AdamW(const AdamWOptions& options = {}, Caller = Caller::here());
};

struct AdamaxOptions {
  double learning_rate = 0.002, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, wd = 0;
  std::optional<double> clip_gradient = {};
  bool multi_precision = false;
};
// adamax_update with lr / (1 - beta1^t).
struct Adamax : Optimizer {
  explicit Adamax(const AdamaxOptions& options = {}, Caller = Caller::here());
};

struct NadamOptions {
  double learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, schedule_decay = 0.004;
  double wd = 0;
  std::optional<double> clip_gradient = {};
  bool multi_precision = false;
};
// nadam_update with momentum beta1 (1 - 0.96^(t schedule_decay) / 2) and correction2 1 - beta2^t.
// Each parameter has its own product of momenta. MXNet has one product, which each parameter's
// update multiplies.
struct Nadam : Optimizer {
  explicit Nadam(const NadamOptions& options = {}, Caller = Caller::here());
};

struct RMSPropOptions {
  double learning_rate = 0.001, gamma1 = 0.9, gamma2 = 0.9, epsilon = 1e-8, wd = 0;
  bool centered = false;
  std::optional<double> clip_gradient = {}, clip_weights = {};
  bool multi_precision = false;
};
// rmsprop_update, centered rmspropalex_update.
struct RMSProp : Optimizer {
  explicit RMSProp(const RMSPropOptions& options = {}, Caller = Caller::here());
};

struct AdaGradOptions {
  double learning_rate = 0.01, epsilon = 1e-7, wd = 0;
  std::optional<double> clip_gradient = {};
  bool multi_precision = false;
};
struct AdaGrad : Optimizer {
  explicit AdaGrad(const AdaGradOptions& options = {}, Caller = Caller::here());
};

struct AdaDeltaOptions {
  double learning_rate = 1, rho = 0.9, epsilon = 1e-5, wd = 0;
  std::optional<double> clip_gradient = {};
  bool multi_precision = false;
};
struct AdaDelta : Optimizer {
  explicit AdaDelta(const AdaDeltaOptions& options = {}, Caller = Caller::here());
};

struct FtrlOptions {
  double learning_rate = 0.1, lamda1 = 0.01, beta = 1, wd = 0;
  std::optional<double> clip_gradient = {};
  bool multi_precision = false;
};
struct Ftrl : Optimizer {
  explicit Ftrl(const FtrlOptions& options = {}, Caller = Caller::here());
};

struct SignumOptions {
  double learning_rate = 0.01, momentum = 0.9, wd = 0, wd_lh = 0;
  std::optional<double> clip_gradient = {};
  bool multi_precision = false;
};
// signum_update, without momentum signsgd_update (which has no wd_lh).
struct Signum : Optimizer {
  explicit Signum(const SignumOptions& options = {}, Caller = Caller::here());
};

struct LionOptions {
  double learning_rate = 1e-4, beta1 = 0.9, beta2 = 0.99, wd = 0;
  std::optional<double> clip_gradient = {};
  bool multi_precision = false;
};
struct Lion : Optimizer {
  explicit Lion(const LionOptions& options = {}, Caller = Caller::here());
};

struct LAMBOptions {
  double learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, wd = 0;
  std::optional<double> lower_bound = {}, upper_bound = {};  // of a weight's norm
  bool bias_correction = true;
  std::optional<double> clip_gradient = {};
  bool multi_precision = false;
};
struct LAMB : Optimizer {
  explicit LAMB(const LAMBOptions& options = {}, Caller = Caller::here());
};

struct LARSOptions {
  double learning_rate = 0.01, momentum = 0, wd = 0, eta = 0.001, epsilon = 0;
  std::optional<double> clip_gradient = {};
  bool multi_precision = false;
};
struct LARS : Optimizer {
  explicit LARS(const LARSOptions& options = {}, Caller = Caller::here());
};

// Creates one of the optimizers above. `name` is MXNet's name or the class's name, in any case of
// letters. Options have the names of the class's options; true is 1, false is 0:
//   create("sgd", {{"learning_rate", .1}, {"momentum", .9}, {"multi_precision", true}})
// For an unknown name or option, a ValueError lists the known ones.
using OptionValues = std::map<std::string, double, std::less<>>;
std::shared_ptr<Optimizer> create(std::string_view name, const OptionValues& options = {},
                                  Caller = Caller::here());

// --- Details ---

// To add an optimizer to this library
//   - add an op (ops/optim.h)
//   - add here a class and its options
//   - add to rules.cc the ranges of the options, the op's numbers, and the name

// To add an optimizer elsewhere
//   - Derive from Optimizer. In the constructor call use(), or override state_names(),
//     create_state() and update().
//   - After use(), a Trainer updates replicas on the threads of their contexts (core/parallel.h).

}  // namespace locus::optim
