// The parts of a Trainer (trainer.h). Internal to nn.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/context.h>
#include <locus/core/ranks/rank_purpose.h>
#include <locus/nn/train/gradient_sums.h>
#include <locus/nn/trainer.h>

namespace locus::nn {

class Trainer::Impl : NonCopyable {
 public:
  // Trainer's functions of these names.
  Impl(const Parameters& parameters, std::shared_ptr<optim::Optimizer> optimizer,
       const TrainerOptions& options, Caller from);
  uint64_t id() const { return id_; }
  optim::Optimizer& optimizer() const { return *optimizer_; }
  void step(int64_t batch_size, bool ignore_stale_grad, Caller);
  void allreduce_grads(Caller);
  void update(int64_t batch_size, bool ignore_stale_grad, Caller);
  bool update_if_finite(int64_t batch_size, double loss_scale, bool ignore_stale_grad, Caller);
  void discard(Caller);
  Tensor clip_global_norm(double max_norm, int64_t batch_size, double loss_scale, Caller);
  NamedTensors states(Caller);
  void restore(const NamedTensors& states, const std::string& who, Caller);
  std::function<void()> prepare_restore(NamedTensors states, const std::string& who,
                                        const ShapesToCome& to_come, Caller);

 private:
  struct Slot {  // one replica of a parameter; with zero the owner's
    size_t parameter;
    Context context;
    Tensor weight;
    Tensors others;  // replicas that receive its values
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
  static uint64_t next_id();
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
  void broadcast_first_values(Caller);
  std::vector<Replicas> unsummed() const;
  void drop_gradients();
  void sum_gradients(const std::function<void(int)>& behind, Caller);
  void sum_over_ranks(const std::vector<Replicas>& alone, Caller);
  void prepare(const char* what, Caller);  // before access to states
  void regroup();
  std::optional<Context> stale_on(const Slot& slot) const;
  std::vector<bool> fresh_slots(bool ignore_stale_grad, Caller);
  void expect_equal(const Slot& a, const Slot& b) const;
  const std::string& name_of(const Replicas& r) const { return names_[slots_[r.begin].parameter]; }
  struct Terms {  // of an update; equal on all ranks
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
  std::vector<Context> parallel_contexts() const;
  void share_updates(const std::vector<bool>& fresh, Caller);
  static void copy_replica(const Slot& done, const Slot& to, Caller);
  void copy_to_others(const std::vector<bool>& fresh, Caller);
  void fill(Batch& batch);
  void apply(Batch& batch, double rescale);
  void check_optimizer(const NamedTensors& states, const std::string& who) const;
  NamedTensors states_to_come(const NamedTensors& given, const std::string& who,
                              const ShapesToCome& to_come) const;
  // The slots of a parameter's replicas, or of the parts of a whole.
  struct SavedState {
    std::string name;
    std::vector<const Slot*> slots;
    int axis = -1;  // along which parts are cut
    bool alike() const;
    Tensor value(size_t state) const;
    void set(size_t state, const Tensor& value, Caller) const;
  };
  std::string whole_of(size_t parameter) const;
  std::string name_in(const NamedTensors& states, size_t parameter) const;
  std::vector<SavedState> kept(const std::vector<Slot>& frozen, const NamedTensors* given) const;
  void expect_names_that_differ(const char* what) const;
  NamedTensors states_of(const std::vector<SavedState>& kept) const;
  std::vector<Slot> frozen_in(const NamedTensors& states) const;
  std::vector<const Tensor*> check(const NamedTensors& states, const std::vector<Slot>& frozen,
                                   const std::string& who, Caller) const;
  [[noreturn]] void refuse_stale(const Slot& slot, Context stale) const;

  TrainerOptions options_;
  std::vector<Parameter> parameters_;
  std::vector<std::string> names_;
  std::shared_ptr<optim::Optimizer> optimizer_;
  std::vector<Slot> slots_;
  std::vector<Replicas> replicas_;  // all slots, by parameter
  std::vector<Slot> frozen_;        // of parameters with grad_req null, for when it changes back
  std::vector<Batch> batches_;
  std::vector<uint64_t> generations_;
  std::shared_ptr<uint64_t> grouping_ = std::make_shared<uint64_t>(0);  // increases with each
                                                                        // regrouping
  std::shared_ptr<GradientSums> sums_;  // null if no parameter has replicas
  const uint64_t id_ = next_id();
  uint64_t number_ = 0;          // identifies the trainer among ranks
  std::vector<uint64_t> equal_;  // per parameter, the origin() of rank 0's values
};

}  // namespace locus::nn
