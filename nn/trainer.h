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
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <locus/core/io.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/parameter.h>

namespace locus::checkpoint {
class Part;
}
namespace locus::kvstore {
class KVStore;
}
namespace locus::nn {

struct TrainerOptions {
  // Sums replicas' gradients in buckets of some MiB while backward() still runs, the last layers
  // first. Starts with the second step, or with the first if all parameters have values when the
  // trainer is made. Allows one backward() per context and step: see Details.
  bool overlap = false;
  // The stage of ZeRO (Rajbhandari, Rasley, Ruwase, He: "ZeRO: Memory Optimizations Toward Training
  // Trillion Parameter Models", SC 2020). ValueError for another number. A parameter with replicas
  // has an owner among their contexts, the same one while it has a replica there; of those that get
  // owners at once, all contexts own about as many bytes.
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
  // Shares the optimizer. ValueError for no parameters.
  Trainer(const Parameters& parameters, std::shared_ptr<optim::Optimizer> optimizer,
          const TrainerOptions& options = {}, Caller = Caller::here());

  // By name (optim::create): Trainer(net.parameters(), "sgd", {{"learning_rate", .1}}).
  Trainer(const Parameters& parameters, std::string_view optimizer,
          const optim::OptionValues& options = {}, const TrainerOptions& trainer_options = {},
          Caller = Caller::here());

  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;
  ~Trainer();

  // Of this trainer alone among those the process made. A trainer that is moved keeps it.
  uint64_t id() const;

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
  double learning_rate() const;
  void set_learning_rate(double v, Caller = Caller::here());
  void set_schedule(optim::Schedule s, Caller = Caller::here());
  int64_t num_update() const;

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
  friend class checkpoint::Part;
  std::function<void()> prepare_restore(NamedTensors states, const std::string& who,
                                        const ShapesToCome& to_come, Caller);

  class Impl;
  Impl& impl() const;

  std::unique_ptr<Impl> impl_;
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
