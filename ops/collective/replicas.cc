#include <locus/ops/collective/replicas.h>

#include <exception>
#include <numeric>

#include <locus/core/autograd.h>
#include <locus/core/capture_check.h>
#include <locus/core/cluster.h>
#include <locus/core/error.h>
#include <locus/core/op.h>
#include <locus/core/rank_purpose.h>
#include <locus/ops/collective.h>

namespace locus {
namespace {

// Layers may be alike, which ranks must not run in another order.
cluster::Purpose purpose_of(const Rendezvous::Place& place) {
  return cluster::Purpose(text_of(place.what, " number ", place.number,
                                  place.gradient ? ", its gradient" : "",
                                  place.weights ? ", its weights" : ""));
}

struct RanksAttrs {
  Rendezvous::Place place;
  Caller from = {};
};

void run_over_ranks(std::span<const Ref> in, const RanksAttrs& a, std::span<Tensor> out) {
  const autograd::Pause pause;
  const Tensor& part = *in[0].tensor_;
  cluster::share_failure([&] { out[0] = part.copyto(part.context(), {}, a.from); }, a.from);
  const cluster::Purpose purpose = purpose_of(a.place);
  cluster::all_reduce({out[0]}, ReduceOp::sum, a.from);
}

// Each rank's result depends on all ranks' parts alike.
Tensors over_ranks_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<RanksAttrs> op("sum_over_ranks");
  RanksAttrs a = saved.attrs<RanksAttrs>();
  a.place.gradient = !a.place.gradient;
  return {invoke(op, {dout[0]}, a)};
}

// All parts added up, those of other ranks, too, on every context.
Tensors total(const Group& group, const Tensors& parts, const Rendezvous::Place& place) {
  static const OpRef<RanksAttrs> op("sum_over_ranks");
  if (cluster::size() == 1) return all_reduce(group, parts);
  Tensor here = parts[0];
  if (group.size() > 1) cluster::share_failure([&] { here = reduce(group, parts); });
  const Tensor all = invoke(op, {here}, {place, Caller::here()});
  return group.size() == 1 ? Tensors{all} : broadcast(group, all);
}

Rendezvous::Seat& seat_of(const Rendezvous::Place& place) {
  Rendezvous::Seat* const seat = Rendezvous::Seat::here();
  if (!seat)
    throw Error(place.what, place.gradient ? ", its gradient" : "",
                ": outside of parallel(); expected it inside of one, over all replicas' contexts, "
                "since each needs what the others have");
  capture::check(place.what,
                 "what other threads bring is not recorded; compile a function of "
                 "all replicas, which calls on_replicas()");
  return *seat;
}

struct SumAttrs {
  Rendezvous::Place place;
  size_t threads;  // of the forward pass
};

void run_sum(std::span<const Ref> in, const SumAttrs& a, std::span<Tensor> out) {
  Rendezvous::Seat& seat = seat_of(a.place);
  if (seat.contexts().size() != a.threads)
    throw Error(a.place.what, ": backward() in a parallel() over ", seat.contexts().size(),
                " contexts, of a forward pass over ", a.threads, "; expected the same");
  Tensor mine = *in[0].tensor_;
  seat.meet(a.place, &mine, [&](std::span<void* const> brought) {
    const autograd::Pause pause;
    Tensors parts;
    for (void* const b : brought) parts.push_back(*static_cast<Tensor*>(b));
    const std::span<const Context> all = seat.contexts();
    parts = total(Group(std::vector<Context>(all.begin(), all.end())), parts, a.place);
    for (size_t i = 0; i < parts.size(); ++i) *static_cast<Tensor*>(brought[i]) = parts[i];
  });
  out[0] = mine;
}

// Each thread's result depends on all threads' parts alike.
Tensors sum_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<SumAttrs> op("sum_over_replicas");
  SumAttrs a = saved.attrs<SumAttrs>();
  a.place.gradient = !a.place.gradient;
  return {invoke(op, {dout[0]}, a)};
}

Rendezvous::Place weights_of(Rendezvous::Place place) {
  place.weights = true;
  return place;
}

double sum_of(const std::vector<double>& weights, const Rendezvous::Place& place) {
  const cluster::Purpose purpose = purpose_of(weights_of(place));
  return cluster::all_reduce(std::accumulate(weights.begin(), weights.end(), 0.));
}

}  // namespace

std::vector<double> shares(const std::function<std::vector<double>()>& weigh,
                           const Rendezvous::Place& place) {
  std::vector<double> parts;
  cluster::share_failure([&] { parts = weigh(); });
  const double all = sum_of(parts, place);
  for (double& part : parts) part /= all;
  return parts;
}

double share(const std::function<double()>& weigh, const Rendezvous::Place& place) {
  struct Brought {
    double weight = 0, all = 0;
    std::exception_ptr failure = {};  // one thread tells the ranks, however many have one
  } mine;
  Rendezvous::Seat& seat = seat_of(place);
  try {
    mine.weight = weigh();
  } catch (...) {
    mine.failure = std::current_exception();
  }
  seat.meet(weights_of(place), &mine, [&](std::span<void* const> brought) {
    std::vector<double> weights;
    cluster::share_failure([&] {
      for (void* const b : brought) {
        const auto* const each = static_cast<const Brought*>(b);
        if (each->failure) std::rethrow_exception(each->failure);
        weights.push_back(each->weight);
      }
    });
    const double sum = sum_of(weights, place);
    for (void* const b : brought) static_cast<Brought*>(b)->all = sum;
  });
  return mine.weight / mine.all;
}

Tensors sum_over_replicas(const Group& group, const Tensors& parts,
                          const Rendezvous::Place& place) {
  return total(group, parts, place);
}

Tensor sum_over_replicas(const Tensor& part, const Rendezvous::Place& place) {
  static const OpRef<SumAttrs> op("sum_over_replicas");
  return invoke(op, {part}, {place, seat_of(place).contexts().size()});
}

void register_replicas() {
  OpDef<RanksAttrs>("sum_over_ranks", {"part"})
      .function<&run_over_ranks>()
      .gradient<&over_ranks_gradient>(Keep::none)
      .no_samples("a call of every rank");
  OpDef<SumAttrs>("sum_over_replicas", {"part"})
      .function<&run_sum>()
      .gradient<&sum_gradient>(Keep::none)
      .no_samples("a call of every thread of a parallel()");
}

}  // namespace locus
