// Trainer: applies an optimizer to a set of parameters.
//
//   nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1}));
//   { autograd::Record record;  loss = loss_fn(net(x), y); }
//   loss.backward();
//   trainer.step(batch_size);
//
// If a parameter has replicas on several contexts, step() first sums their gradients, and replicas
// stay equal. The trainer shares the parameters and owns the optimizer's states. Calls enqueue work
// and do not wait. Threads: one at a time. A trainer can be moved, not copied. Unusual cases:
// "Details" behind the class.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/io.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/parameter.h>

namespace locus::checkpoint {
class Part;
}
namespace locus::kvstore {
class KVStore;
}
namespace locus::cluster {
class Purpose;
}
namespace locus::nn {

class GradientSums;

struct TrainerOptions {
  // Sums replicas' gradients in buckets of some MiB while backward() still runs, the last layers
  // first. Starts with the second step, or with the first if all parameters have values when the
  // trainer is made. Allows one backward() per context and step: see Details.
  bool overlap = false;
  // The stage of ZeRO (Rajbhandari, Rasley, Ruwase, He: "ZeRO: Memory Optimizations Toward Training
  // Trillion Parameter Models", SC 2020). ValueError for another number. A parameter with replicas
  // has an owner among their contexts; all contexts own about as many bytes.
  //   0  each context keeps the optimizer's states of its replicas and updates them
  //   1  only the owner keeps the states, f32 masters among them; it updates the weight, which is
  //      then copied to the other replicas
  //   2  also the summed gradient is kept by the owner only
  int zero = 0;
  // step() and allreduce_grads() push the gradients of all parameters to this store
  // (nn/kvstore.h) and pull their sums. The keys are the names that the trainer was given: Error
  // if two names are equal. ValueError together with overlap or zero, and if the store is of one
  // process and there are several ranks. Error in a step if the store has an optimizer or an
  // updater: its pushes would not give sums.
  std::shared_ptr<locus::kvstore::KVStore> kvstore = {};
  // Gluon's option. true is a ValueError: to update values on a store, use KVStore::set_optimizer()
  // and pushpull() without a Trainer.
  bool update_on_kvstore = false;
};

class Trainer {
 public:
  template <std::derived_from<optim::Optimizer> O>
  Trainer(const Parameters& parameters, O optimizer, const TrainerOptions& options = {},
          Caller from = Caller::here())
      : Trainer(parameters, std::make_shared<O>(std::move(optimizer)), options, from) {}
  // Shares the optimizer.
  Trainer(const Parameters& parameters, std::shared_ptr<optim::Optimizer> optimizer,
          const TrainerOptions& options = {}, Caller = Caller::here());

  // By name (optim::create): Trainer(net.parameters(), "sgd", {{"learning_rate", .1}}).
  Trainer(const Parameters& parameters, std::string_view optimizer,
          const optim::OptionValues& options = {}, const TrainerOptions& trainer_options = {},
          Caller from = Caller::here())
      : Trainer(parameters, optim::create(optimizer, options), trainer_options, from) {}

  Trainer(Trainer&&) = default;
  Trainer& operator=(Trainer&&) = default;

  // allreduce_grads(), then update(). Gradients of a sum of losses over batch_size samples are
  // divided by batch_size, > 0. If backward() has not written a gradient since the last step,
  // step() throws an Error that names the parameter; with ignore_stale_grad it skips the parameter.
  void step(int64_t batch_size, bool ignore_stale_grad = false, Caller = Caller::here());
  // The two halves of step(). Between them a program may read or change the summed gradients.
  // allreduce_grads() sums a gradient once: a second call, and step(), leave the sum as it is until
  // backward() writes the gradient anew. update() without a sum uses each context's own gradient,
  // as in Gluon; with zero it uses the owner's.
  void allreduce_grads(Caller = Caller::here());
  void update(int64_t batch_size, bool ignore_stale_grad = false, Caller = Caller::here());

  // update() by gradients that are loss_scale times too large. If a new gradient is NaN or
  // infinite, gradients count as used, nothing else changes, and the result is false. Waits for
  // that answer.
  bool update_if_finite(int64_t batch_size, double loss_scale = 1, bool ignore_stale_grad = false,
                        Caller = Caller::here());

  // Makes no step of a batch, for example one with a NaN loss: new gradients count as used. With
  // ranks, all ranks call it, or none.
  void discard(Caller = Caller::here());

  // Limits the norm of all new gradients together, as update() or step() would use them: divided by
  // batch_size and loss_scale (nn/clip.h has the formula). Sums replicas first. Returns the norm
  // before the limit, one f64 on the context of the first gradient.
  //   trainer.clip_global_norm(1.0, batch_size);
  //   trainer.step(batch_size);
  // ValueError for a negative max_norm, Error if no gradient is new.
  Tensor clip_global_norm(double max_norm, int64_t batch_size, double loss_scale = 1,
                          Caller = Caller::here());

  // The optimizer's functions of these names (nn/optimizer.h).
  double learning_rate() const { return optimizer_->learning_rate(); }
  void set_learning_rate(double v) { optimizer_->set_learning_rate(v); }
  void set_schedule(optim::Schedule s) { optimizer_->set_schedule(std::move(s)); }
  int64_t num_update() const { return optimizer_->num_update(); }

  // What training goes on from, beside the parameters, by the names that the trainer was given:
  //   "0.weight/mean"    a state of the optimizer: the trainer's own tensor
  //   "0.weight/count"   the number of updates: a copy
  //   "optimizer:Adam"   num_update(): a copy
  // Of replicas the first one's states, with zero the owner's. Error while a parameter has no
  // values yet, and if two parameters have one name.
  NamedTensors states(Caller = Caller::here());
  // Takes over values and counts, also for compiled code. Checks everything first: FormatError for
  // another optimizer and for names that are missing or too many, ShapeError, DTypeError.
  void set_states(const NamedTensors& states, Caller = Caller::here());
  // The same in a file, in MXNet's .params format (core/io.h).
  void save_states(const std::string& path, Caller = Caller::here());
  void load_states(const std::string& path, Caller = Caller::here());

 private:
  struct Slot {  // one replica of one parameter; with zero its owner's
    size_t parameter;
    Context context;
    Tensor weight;
    Tensors others;  // that get its values
    Tensors state;
    std::shared_ptr<int64_t> count;  // its batch's
  };
  struct Replicas {  // the slots of one parameter
    size_t begin, end;
  };
  struct Batch {  // the slots of one optimizer call
    optim::ParameterGroup group;
    std::vector<size_t> slots;
  };
  void check_store_options() const;
  void check_store() const;
  void take_to_store(Caller);
  void sum_by_store(Caller);
  void refresh(Caller);
  std::vector<size_t> distinct_parameters() const;
  std::vector<size_t> find_owners(const std::vector<size_t>& trained) const;
  void each_slot(size_t parameter, const std::function<void(const Slot&)>& f) const;
  Slot make_slot(size_t parameter, const Tensor& weight, Caller) const;
  void find_sums(Caller);
  void start_equal(Caller);
  std::vector<Replicas> unsummed() const;
  void drop_gradients();
  void sum_gradients(const std::function<void(int)>& behind, Caller);
  void sum_over_ranks(const std::vector<Replicas>& alone, Caller);
  void prepare(const char* what, Caller);  // for what looks at states
  void regroup();
  std::optional<Context> stale_on(const Slot& slot) const;
  std::vector<bool> fresh_slots(bool ignore_stale_grad, Caller);
  void expect_equal(const Slot& a, const Slot& b) const;
  const std::string& name_of(const Replicas& r) const { return names_[slots_[r.begin].parameter]; }
  struct Terms {  // of an update, which all ranks must make alike
    const char* call = "";
    std::vector<double> numbers = {};
    std::vector<bool> fresh = {};
    double learning_rate = 0;
    int64_t updates = 0;  // of all parameters together
  };
  Terms terms(const char* call, std::initializer_list<double> numbers,
              const std::vector<bool>& fresh) const;
  std::string text_of_terms(const Terms& t) const;
  cluster::Purpose purpose_of(const Terms& t) const;
  std::pair<double, std::vector<bool>> checked(const char* call, int64_t batch_size,
                                               double loss_scale, bool ignore_stale_grad, Caller);
  void split(const std::vector<bool>& fresh);
  enum class Sums { done, first };
  void update(const std::vector<bool>& fresh, double rescale, Sums sums, Caller);
  std::vector<Context> contexts_apart() const;
  void share_updates(const std::vector<bool>& fresh, Caller);
  static void make_equal(const Slot& done, const Slot& to, Caller);
  void copy_to_others(const std::vector<bool>& fresh, Caller);
  void fill(Batch& batch);
  void apply(Batch& batch, double rescale);
  friend class checkpoint::Part;
  void check_optimizer(const NamedTensors& states, const std::string& who) const;
  NamedTensors states_to_come(const NamedTensors& given, const std::string& who,
                              const ShapesToCome& to_come) const;
  // The slots of a parameter's replicas, or of the parts of a whole.
  struct Saved {
    std::string name;
    std::vector<const Slot*> slots;
    int axis = -1;  // that parts are cut along
    bool alike() const;
    Tensor value(size_t state) const;
    void set(size_t state, const Tensor& value, Caller) const;
  };
  std::string whole_of(size_t parameter) const;
  std::string name_in(const NamedTensors& states, size_t parameter) const;
  std::vector<Saved> kept(const std::vector<Slot>& frozen, const NamedTensors* given) const;
  void expect_names_that_differ(const char* what) const;
  NamedTensors states_of(const std::vector<Saved>& kept) const;
  std::vector<Slot> frozen_in(const NamedTensors& states) const;
  std::vector<const Tensor*> check(const NamedTensors& states, const std::vector<Slot>& frozen,
                                   const std::string& who, Caller) const;
  void restore(const NamedTensors& states, const std::string& who, Caller);
  std::function<void()> prepare_restore(NamedTensors states, const std::string& who,
                                        const ShapesToCome& to_come, Caller);
  [[noreturn]] void refuse_stale(const Slot& slot, Context stale) const;

  TrainerOptions options_;
  std::vector<Parameter> parameters_;
  std::vector<std::string> names_;
  std::shared_ptr<optim::Optimizer> optimizer_;
  std::vector<Slot> slots_;
  std::vector<Replicas> replicas_;  // all slots, by parameter
  std::vector<Slot> frozen_;  // of parameters whose gradients were taken away: for when they return
  std::vector<Batch> batches_;
  std::vector<uint64_t> generations_;
  std::shared_ptr<uint64_t> grouping_ = std::make_shared<uint64_t>(0);  // grows with each new one
  std::shared_ptr<GradientSums> sums_;  // null where no parameter has replicas
  uint64_t number_ = 0;                 // that ranks tell their trainers apart by
  std::vector<uint64_t> equal_;         // of each parameter, the origin() of rank 0's values
};

// --- Details ---

// Parameters
//   - All replicas of a parameter are on the host, or all on one kind of device: ContextMismatch.
//     Different parameters may live on different contexts (a network across GPUs).
//   - Parameters with grad_req null are skipped. Their states are kept for when grad_req changes
//     back.
//   - A state of a whole that is cut into parts (nn/parameter.h) is one tensor of states(): a copy,
//     on the host, if the trainer has all parts, one after the other, and their counts are equal.
//     set_states() takes the whole, or the parts.

// Gradients that are summed already
//   - A backward() that would add to a sum (grad_req add) is an Error, until the update, discard()
//     or zero_grad().
//   - If a sum fails halfway, gradients count as used and gradients with grad_req add become 0. The
//     next backward() makes them anew.

// Updates that fail
//   - If an update fails on some of a parameter's contexts, its replicas there get the values of
//     the others. Parameters whose update failed on all contexts keep their gradients, for a
//     step(n, true).

// overlap
//   - Gradients are written once: there is one backward() per context and step, of parameters with
//     grad_req write, else Error. Several microbatches (nn/pipeline.h) and an autograd::Accumulate
//     over several backward() are refused.
//   - If a batch makes no step, call discard(). A second backward() before step() or discard() is
//     an Error, and so is step() from then on, until discard().
//   - A backward() that fails may have written some gradients.
//   - A compiled step always overlaps. With ranks the option has no effect.

// zero
//   - Weights are the same bits on all contexts, and the same bits as with stage 0, except after
//     clip_global_norm(), which adds squares in another order, and after NCCL's large sums
//     (ops/collective.h).
//   - Only the owner has the summed gradient: read and change it there, between allreduce_grads()
//     and update(). The other replicas' gradients count as used. After a zero_grad() a step is
//     refused, where stage 0 would update by 0.
//   - Stage 2 returns the memory of the other replicas' gradients to the pool, until backward()
//     writes them anew; their grad() is an Error until then. Gradients with a place of their own
//     (attach_grad(), compiled networks) stay. Gradients with grad_req add start from 0 again.
//   - Files are the same for every stage and number of contexts. A rank shards over its own
//     contexts, not over ranks.

// Compiled code (core/compile.h, nn/train_step.h) may call step(), allreduce_grads(), update() and
// clip_global_norm(). CaptureError comes from
//   - update_if_finite(), discard(), states(), set_states(), save_states() and load_states()
//   - step() and allreduce_grads() with a kvstore, with zero = 2, and with several ranks
//   - clip_global_norm() of replicas in a Capture (core/capture.h)

// Several ranks (core/cluster.h), each with any number of replicas
//   - Sums are over the replicas of all ranks: batch_size is that of all ranks together, and all
//     ranks make the same update.
//   - Ranks start with rank 0's values. The constructor takes them for parameters that have values;
//     the next step takes them for the others, and after new values were initialized or loaded.
//   - All ranks make their trainers, give parameters new values, and call step(), allreduce_grads()
//     or update(), in one order, with new gradients of the same parameters: else Error on every
//     rank. If one rank finds something wrong, every rank throws.

// What ranks compare before anything is written, in step(), update(), update_if_finite() and
// clip_global_norm()
//   - which trainer it is, the arguments, the optimizer's name and its learning rate (of a
//     schedule: the last update's), the parameters' multipliers, and the number of updates
//   - so the step after an update that failed on one rank alone is an Error on every rank; go on
//     from a checkpoint
//   - The optimizer's other options and the loss scaler's options are not compared.

}  // namespace locus::nn
