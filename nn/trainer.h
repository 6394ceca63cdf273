// Trainer: applies an optimizer to a set of parameters.
//
// Several replicas: their gradients are summed over the contexts first, so replicas stay equal;
// they are all on the host, or all on one kind of device, else ContextMismatch. Parameters may live
// on different contexts (a network across GPUs). Those with grad_req null are left alone; one that
// gets its gradient back goes on with the states that it had. step() enqueues work and does not
// wait. One thread at a time.
//
// Several ranks (core/cluster.h), each with as many replicas as it likes: what is summed over the
// replicas is summed over the ranks then, so batch_size is that of all ranks together, and all make
// the same update. They start with rank 0's values: a trainer that is made takes them for what is
// initialized, its next step for the rest and for what is initialized or loaded anew, whose first
// forward was with values of the rank's own unless all have the same random::seed(). Every rank
// makes its trainers, gives parameters new values, and calls step(), allreduce_grads() or update(),
// in one order, with new gradients of the same parameters, else Error on all; what one rank finds
// wrong there is thrown on all. step(), update() and update_if_finite(), and clip_global_norm(),
// compare which trainer it is, of those made since there are ranks, what they are given, the
// optimizer's name and learning rate (of a schedule, the last update's), the parameters'
// multipliers, and how many updates there were, before anything is written: so the step after an
// update that failed on one rank alone is an Error on all, and they go on from a checkpoint. The
// optimizer's other options, and the loss scaler's, are each rank's to set alike. overlap does
// nothing where there are ranks.
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
  // Replicas' gradients are summed in buckets of some MiB, the last layers' first, while backward()
  // still runs, from the second step on, or from the first where all parameters have values when
  // the trainer is made; in a compiled step they always are, and where there are ranks
  // (core/cluster.h) never. Where they are, there is one backward() a step on each context, of
  // parameters with grad_req write, else Error: neither several microbatches (nn/pipeline.h) nor an
  // autograd::Accumulate over several; discard() where it makes no step, and a backward() that
  // fails may have written some gradients.
  bool overlap = false;
  // What is kept once for all replicas of a parameter, by the stages of ZeRO (Rajbhandari, Rasley,
  // Ruwase, He: "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020);
  // ValueError for a stage that is none of these:
  //   0  nothing: each context has the states of all its replicas, and updates these
  //   1  the optimizer's states, f32 masters among them. Each parameter that has replicas has an
  //      owner among their contexts, so that all own about as many bytes, where states() shows it.
  //      There gradients are summed, the weight is updated, and then copied into the replicas: a
  //      copy a replica and step in the place of as many updates.
  //   2  its summed gradient, too. The others' memory returns to the pool behind the sum, until
  //      backward() writes them anew; their grad() is an Error meanwhile. With overlap that is
  //      while backward() runs. Not those that have a place of their own, by attach_grad() or in a
  //      compiled network. With grad_req add they start from 0 again. CaptureError in a compiled
  //      step, whose memory is kept from call to call.
  // Weights are the same bits on all contexts, and those of stage 0, but that clip_global_norm()
  // adds up its squares in another order, and NCCL large sums (ops/collective.h). Only an owner has
  // the sum: there gradients are looked at, and changed, between allreduce_grads() and update();
  // the others' count as used, so that behind a zero_grad() there a step is refused, where stage 0
  // would make one by 0. Files are the same for every stage and number of contexts. A rank
  // shards over its own contexts, not over ranks.
  int zero = 0;
  // step() and allreduce_grads() push the gradients of all parameters to this store
  // (nn/kvstore.h) and pull their sums. The keys are the names that the trainer was given: Error
  // if two names are equal. ValueError together with overlap or zero, and if the store is of one
  // process and there are several ranks. CaptureError in compiled code. Error in a step if the
  // store has an optimizer or an updater: its pushes would not give sums.
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

  // allreduce_grads(), then update(): gradients are those of a sum of losses over batch_size
  // samples, so they are divided by it. A gradient that backward() has not written since the last
  // step is an Error that names the parameter; with ignore_stale_grad it is skipped. batch_size >
  // 0.
  void step(int64_t batch_size, bool ignore_stale_grad = false, Caller = Caller::here());
  // The two halves, to look at the summed gradients in between, or to change them. Gradients that
  // the program, or what it compiled, has summed by allreduce_grads() or clip_global_norm() are not
  // summed again, here or in step(), until backward() writes them; one that would add to such a sum
  // is an Error, up to the update, discard() or zero_grad(). Where a sum fails halfway gradients
  // count as used, those with grad_req add are 0, and backward() makes them anew. Where an update
  // fails on some of a parameter's contexts alone, replicas there get the values of the others;
  // parameters that it failed for on all keep their gradients, for a step(n, true). update()
  // without a sum goes by each context's own gradient, as in Gluon, with zero by the owner's.
  void allreduce_grads(Caller = Caller::here());
  void update(int64_t batch_size, bool ignore_stale_grad = false, Caller = Caller::here());

  // update(), by gradients that are loss_scale times too large, unless one that is new is NaN or
  // infinite: then they count as used, nothing is changed, and it returns false. Waits for that.
  bool update_if_finite(int64_t batch_size, double loss_scale = 1, bool ignore_stale_grad = false,
                        Caller = Caller::here());

  // For a batch that makes no step, since its loss is NaN, say: gradients that are new count as
  // used, so that the next step() does not go by them. With overlap a second backward() is an Error
  // where neither step() nor this came in between, and so is step() from then on, up to this. On
  // all ranks, or on none.
  void discard(Caller = Caller::here());

  // Limits the norm of the gradients that the next update() or step() of batch_size and loss_scale
  // goes by, all new ones together (nn/clip.h: its formula, too), and returns it as it was, one f64
  // where the first of them is. Sums replicas first. Does not wait; works in a compiled step.
  //   trainer.clip_global_norm(1.0, batch_size);
  //   trainer.step(batch_size);
  // ValueError for a negative max_norm, Error where no gradient is new.
  Tensor clip_global_norm(double max_norm, int64_t batch_size, double loss_scale = 1,
                          Caller = Caller::here());

  // The optimizer's: see there.
  double learning_rate() const { return optimizer_->learning_rate(); }
  void set_learning_rate(double v) { optimizer_->set_learning_rate(v); }
  void set_schedule(optim::Schedule s) { optimizer_->set_schedule(std::move(s)); }
  int64_t num_update() const { return optimizer_->num_update(); }

  // What training goes on from, beside the parameters: "0.weight/mean" and the like, the names
  // being those that the trainer was given; "0.weight/count", the number of updates; and
  // "optimizer:Adam", num_update(). Of replicas, which are equal, the first one's, with zero the
  // owner's. The tensors are the trainer's own, or its store's, but for parts of a whole
  // (nn/parameter.h): where the trainer has them all, one after the other, and they were updated
  // alike, a state of theirs is one of the whole, on the host, "0.weight/mean" of 0.weight.0 and so
  // on, and goes to any number of parts, or to none; a store's are by part. Error while a parameter
  // has no values yet, or when two have one name.
  NamedTensors states(Caller = Caller::here());
  // Takes values and counts over, onto the contexts where the parameters are, and is seen by what
  // is recorded. All is checked before anything is touched: another optimizer, and names that are
  // missing or too many, are FormatErrors, others ShapeErrors and DTypeErrors.
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

}  // namespace locus::nn
