// Trainer: updates a set of parameters with an optimizer. If a parameter has replicas on several
// contexts, step() sums their gradients first, and the replicas stay equal. The trainer shares the
// parameters and owns the optimizer's states. One thread at a time may call a trainer. With one
// rank, step() does not wait for devices. Exceptions: the first step, a step after replicas or
// grad_req changed, and a kvstore on the host. Unusual cases: "Details" at the end.
//
//   nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1}));
//   { autograd::Record record;  loss = loss_fn(net(x), y); }
//   loss.backward();
//   trainer.step(batch_size);
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
  // true: sums replicas' gradients in buckets of about 4 MiB while backward() still runs, the last
  // layers first. The overlap starts with the second step, or with the first step if all parameters
  // have values when the trainer is made. Allows one backward() per context and step: see Details.
  bool overlap = false;
  // The stage of ZeRO (Rajbhandari, Rasley, Ruwase, He: "ZeRO: Memory Optimizations Toward Training
  // Trillion Parameter Models", SC 2020). ValueError for another number. Each parameter has
  // an owner, one of its contexts.
  //   0  each context keeps the optimizer's states of its replicas and updates its replicas
  //   1  only the owner keeps the states, including f32 masters; the owner updates the weight,
  //      which is then copied to the other replicas
  //   2  as 1; the sum releases the other replicas' gradients
  int zero = 0;
  // If set, step() and allreduce_grads() push new gradients to the store (nn/kvstore.h) and pull
  // the sums. The keys are the names in `parameters`. Error if two names are equal. ValueError
  // together with overlap or zero, and for a store of one process among several ranks. If the store
  // has an optimizer or an updater, a step throws Error: a push would not give a sum.
  std::shared_ptr<locus::kvstore::KVStore> kvstore = {};
  // Gluon's option. true is a ValueError. To update values on a store, use KVStore::set_optimizer()
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

  // An optimizer by name (optim::create):
  //   Trainer(net.parameters(), "sgd", {{"learning_rate", .1}})
  Trainer(const Parameters& parameters, std::string_view optimizer,
          const optim::OptionValues& options = {}, const TrainerOptions& trainer_options = {},
          Caller = Caller::here());

  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;
  ~Trainer();

  // The trainer's number, unique in the process. A move keeps the number. Calls of a moved-from
  // trainer throw Error.
  uint64_t id() const;

  // Calls allreduce_grads(), then update(). update() divides gradients by batch_size, because
  // backward() sums over the samples. ValueError unless batch_size > 0. A gradient is new if
  // backward() has written it since the last step. If a replica's gradient is not new, step()
  // throws an Error that names the parameter. With ignore_stale_grad, step() skips the parameter
  // on all contexts. step() checks before it sums: if a check fails, new gradients stay new.
  void step(int64_t batch_size, bool ignore_stale_grad = false, Caller = Caller::here());
  // The two halves of step(). Between the halves, a program may read or change the summed
  // gradients. allreduce_grads() is idempotent: a second call, or step(), keeps the sums until
  // backward() writes a gradient again. update() does not sum: see Details.
  void allreduce_grads(Caller = Caller::here());
  void update(int64_t batch_size, bool ignore_stale_grad = false, Caller = Caller::here());

  // Calls update() for gradients that are loss_scale times too large, and returns true. If a new
  // gradient is NaN or infinite, calls discard() instead and returns false. The host waits for the
  // check.
  bool update_if_finite(int64_t batch_size, double loss_scale = 1, bool ignore_stale_grad = false,
                        Caller = Caller::here());

  // Skips a batch, for example after a NaN loss: new gradients count as used. With several ranks,
  // all ranks call discard(), or none.
  void discard(Caller = Caller::here());

  // Calls allreduce_grads(), then limits the norm of all new gradients together (formula:
  // nn/clip.h). The norm is that of the gradients divided by batch_size and loss_scale. Returns the
  // norm before the limit, one f64 on the context of the first new gradient.
  //   trainer.clip_global_norm(1.0, batch_size);
  //   trainer.step(batch_size);
  // ValueError for a negative max_norm, Error if no gradient is new.
  Tensor clip_global_norm(double max_norm, int64_t batch_size, double loss_scale = 1,
                          Caller = Caller::here());

  // The optimizer's functions (nn/optimizer.h).
  double learning_rate() const;
  void set_learning_rate(double v, Caller = Caller::here());
  void set_schedule(optim::LRScheduler s, Caller = Caller::here());
  int64_t num_update() const;

  // The optimizer's states and counts, by the names in `parameters`, without the learning rate and
  // other options.
  //   "0.weight/mean"    a state of the optimizer: the trainer's own tensor
  //   "0.weight/count"   the number of updates: a copy
  //   "optimizer:Adam"   num_update(): a copy
  // For replicas: the first replica's states, with zero the owner's. Error while a parameter has no
  // values, and if two parameters have one name.
  NamedTensors states(Caller = Caller::here());
  // Copies values and counts into the trainer. Compiled code sees the new values. Errors come
  // before anything changes: FormatError for another optimizer, and for missing or unknown names;
  // ShapeError, DTypeError.
  void set_states(const NamedTensors& states, Caller = Caller::here());
  // states() and set_states() with a file in MXNet's .params format (core/io.h).
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
//   - step() throws ContextMismatch unless a parameter's replicas are all on the host, or all on
//     one kind of device.
//     Different parameters may live on different contexts (a network across GPUs).
//   - A parameter that is listed twice, or shared by layers, is updated once per step.
//   - Parameters with grad_req null are skipped. The trainer keeps skipped parameters' states for
//     when grad_req changes back.
//   - If a parameter is cut (nn/parameter.h), states() joins the parts' states: each becomes one
//     tensor, a copy on the host. The trainer must have all parts, one after the other, with equal
//     counts. set_states() takes the whole or the parts.

// Summed gradients
//   - If gradients are not summed, update() uses each context's own gradient, as in Gluon. The
//     replicas then differ, and later steps do not make them equal. With zero, update() uses the
//     owner's gradient for all replicas.
//   - With grad_req add, or in an autograd::Accumulate, backward() after the sum throws Error,
//     until the update, discard() or zero_grad().
//   - If backward() has run since the sum on only some of a parameter's contexts, the next sum
//     throws Error and changes nothing.
//   - If a sum in step() or allreduce_grads() fails halfway, no weight has changed. All gradients
//     of the trainer count as used. Gradients with grad_req add become 0. step() throws Error until
//     backward() has written new gradients.

// Updates that fail
//   - If an update fails on some of a parameter's contexts, the replicas there get values and
//     states from a context on which the update succeeded. The parameter counts as updated.
//   - If an update fails on all of a parameter's contexts, the parameter's gradients stay new.
//     Without another backward(), step(n, true) repeats this update only.

// overlap
//   - Parameters with replicas have grad_req write, else Error.
//   - There is one backward() per context and step. Several microbatches (nn/pipeline.h), and an
//     autograd::Accumulate over several backward(), throw Error.
//   - If a batch makes no step, call discard(). A second backward() before step() or discard()
//     throws Error. From then on step() throws Error until discard().
//   - A backward() that fails may have written some gradients: call discard().
//   - The sum runs in backward(). If the sum fails, backward() throws. From then on step() throws
//     Error until discard().
//   - A compiled step always overlaps. With several ranks the option has no effect.

// zero
//   - A parameter's owner stays the same while the owner has a replica. New owners are spread: all
//     contexts own about as many bytes.
//   - Weights have the same bits on all contexts, and the same bits as with stage 0. Exceptions:
//     clip_global_norm(), which adds squares in another order, and NCCL's large sums
//     (ops/collective.h).
//   - Only the owner has the summed gradient. Between allreduce_grads() and update(), read and
//     change the owner's gradient. The other replicas' gradients count as used.
//   - If zero_grad() is called after the sum, step() throws Error. With stage 0 the sum becomes 0.
//   - Stage 2 returns the memory of the other replicas' gradients to the pool. Until backward()
//     writes the gradients again, grad() throws Error. Memory from attach_grad(place) or of
//     a compiled network is kept. Gradients with grad_req add start from 0 again.
//   - Files are the same for every stage and number of contexts. A rank shards over its own
//     contexts, not over ranks.

// Compiled code (core/compile.h, nn/train_step.h) may call step(), allreduce_grads(), update() and
// clip_global_norm(). These throw CaptureError:
//   - update_if_finite(), discard(), states(), set_states(), save_states() and load_states()
//   - step(), allreduce_grads() and clip_global_norm() with a kvstore or several ranks, and for
//     replicas with zero = 2
//   - clip_global_norm() for parameters with replicas, in a Capture (core/capture.h)

// Several ranks (core/cluster.h), each with any number of replicas
//   - Sums are over the replicas of all ranks, and all ranks make the same update. batch_size is
//     the number of samples of all ranks together.
//   - The constructor copies rank 0's values to all ranks. If a parameter gets its values
//     later, the next step copies rank 0's.
//   - After initialize(), set_data() or a load, the next step copies rank 0's values again. If one
//     rank has set a parameter and another has not, every rank throws Error in that step.
//   - A write in place, such as p.data() += 1, is not noticed. If one rank alone writes, its values
//     stay different.
//   - All ranks make their trainers in the same order, and call step(), allreduce_grads() and
//     update() in the same order. All ranks have new gradients of the same parameters. Otherwise
//     every rank throws Error.
//   - If one rank fails a check, every rank throws.

// Before step(), update(), update_if_finite() and clip_global_norm() write, ranks compare
//   - the trainer, the numbers among the arguments, which gradients are new, the optimizer's name,
//     the parameters' multipliers, the number of updates, and the learning rate (of a schedule: the
//     last update's). In compiled code, update() compares nothing.
//   - If an update failed on one rank alone, the next step therefore throws Error on every rank; go
//     on from a checkpoint.
//   - The optimizer's other options and the loss scaler's options are not compared.

}  // namespace locus::nn
