#include <locus/ops/collective/replicas.h>

#include <numeric>
#include <vector>

#include <locus/core/autograd.h>
#include <locus/core/capture_check.h>
#include <locus/core/cluster.h>
#include <locus/core/error.h>
#include <locus/core/op.h>
#include <locus/ops/collective.h>
#include <locus/ops/elementwise.h>

namespace locus {
namespace {

// Tensors times their shares of all weights, those of other ranks, too.
void weigh(Tensors& parts, std::span<const double> weights) {
  const double all = cluster::all_reduce(std::accumulate(weights.begin(), weights.end(), 0.));
  for (size_t i = 0; i < parts.size(); ++i) parts[i] = parts[i] * (weights[i] / all);
}

struct RanksAttrs {
  Caller from = {};
};

void run_over_ranks(std::span<const Ref> in, const RanksAttrs& a, std::span<Tensor> out) {
  const autograd::Pause pause;
  out[0] = in[0].tensor_->copyto(in[0].tensor_->context(), {}, a.from);
  cluster::all_reduce({out[0]}, ReduceOp::sum, a.from);
}

// Each rank's result depends on all ranks' parts alike.
Tensors over_ranks_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<RanksAttrs> op("sum_over_ranks");
  return {invoke(op, {dout[0]}, saved.attrs<RanksAttrs>())};
}

// All parts added up, those of other ranks, too, on every context.
Tensors total(const Group& group, const Tensors& parts) {
  static const OpRef<RanksAttrs> op("sum_over_ranks");
  if (cluster::size() == 1) return all_reduce(group, parts);
  return broadcast(group, invoke(op, {reduce(group, parts)}, {Caller::here()}));
}

struct MeanAttrs {
  Rendezvous::Place place;
  double weight;
  size_t threads;  // of the forward pass
};

struct Brought {
  Tensor part;
  double weight;
};

void run_mean(std::span<const Ref> in, const MeanAttrs& a, std::span<Tensor> out) {
  Rendezvous::Seat* const seat = Rendezvous::Seat::here();
  if (!seat)
    throw Error(a.place.what, a.place.gradient ? ", its gradient" : "",
                ": outside of parallel(); expected it inside of one, over all replicas' contexts, "
                "since each needs what the others have");
  capture::check(a.place.what,
                 "what other threads bring is not recorded; compile a function of "
                 "all replicas, which calls on_replicas()");
  if (seat->contexts().size() != a.threads)
    throw Error(a.place.what, ": backward() in a parallel() over ", seat->contexts().size(),
                " contexts, of a forward pass over ", a.threads, "; expected the same");
  Brought mine{*in[0].tensor_, a.weight};
  seat->meet(a.place, &mine, [&](std::span<void* const> brought) {
    const autograd::Pause pause;
    Tensors parts;
    std::vector<double> weights;
    for (void* b : brought) {
      parts.push_back(static_cast<Brought*>(b)->part);
      weights.push_back(static_cast<Brought*>(b)->weight);
    }
    const std::span<const Context> all = seat->contexts();
    // The gradient is the transpose: the same with the shares behind the sum.
    if (!a.place.gradient) weigh(parts, weights);
    parts = total(Group(std::vector<Context>(all.begin(), all.end())), parts);
    if (a.place.gradient) weigh(parts, weights);
    for (size_t i = 0; i < parts.size(); ++i) static_cast<Brought*>(brought[i])->part = parts[i];
  });
  out[0] = mine.part;
}

Tensors mean_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<MeanAttrs> op("mean_of_replicas");
  MeanAttrs a = saved.attrs<MeanAttrs>();
  a.place.gradient = !a.place.gradient;
  return {invoke(op, {dout[0]}, a)};
}

}  // namespace

Tensors mean_of_replicas(const Group& group, Tensors parts, std::span<const double> weights) {
  weigh(parts, weights);
  return total(group, parts);
}

Tensor mean_of_replicas(const Tensor& part, double weight, const Rendezvous::Place& place) {
  static const OpRef<MeanAttrs> op("mean_of_replicas");
  const Rendezvous::Seat* const seat = Rendezvous::Seat::here();
  return invoke(op, {part}, {place, weight, seat ? seat->contexts().size() : 0});
}

void register_replicas() {
  OpDef<RanksAttrs>("sum_over_ranks", {"part"})
      .function<&run_over_ranks>()
      .gradient<&over_ranks_gradient>(Keep::none)
      .no_samples("a call of every rank");
  OpDef<MeanAttrs>("mean_of_replicas", {"part"})
      .function<&run_mean>()
      .gradient<&mean_gradient>(Keep::none)
      .no_samples("a call of every thread of a parallel()");
}

}  // namespace locus
