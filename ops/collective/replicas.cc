#include <locus/ops/collective/replicas.h>

#include <numeric>

#include <locus/core/autograd.h>
#include <locus/core/cluster.h>
#include <locus/core/op.h>
#include <locus/core/ranks/rank_purpose.h>
#include <locus/ops/collective.h>

namespace locus {
namespace {

cluster::Purpose purpose_of(const ReplicaSum& sum, const char* what) {
  return cluster::Purpose(cluster::Hash().add(sum.what).add(sum.number).add(what),
                          [&sum, what] { return text_of(sum.what, " number ", sum.number, what); });
}

struct RanksAttrs {
  ReplicaSum sum;
  Caller from = {};
};

void run_over_ranks(std::span<const Ref> in, const RanksAttrs& a, std::span<Tensor> out) {
  const autograd::Pause pause;
  const Tensor& part = *in[0].tensor_;
  cluster::share_failure([&] { out[0] = part.copyto(part.context(), {}, a.from); }, a.from);
  const cluster::Purpose purpose = purpose_of(a.sum, a.sum.gradient ? ", its gradient" : "");
  cluster::all_reduce({out[0]}, ReduceOp::sum, a.from);
}

// Each rank's result depends on all ranks' parts equally.
Tensors over_ranks_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<RanksAttrs> op("sum_over_ranks");
  RanksAttrs a = saved.attrs<RanksAttrs>();
  a.sum.gradient = !a.sum.gradient;
  return {invoke(op, {dout[0]}, a)};
}

}  // namespace

std::vector<double> shares(const std::function<std::vector<double>()>& weigh,
                           const ReplicaSum& sum) {
  std::vector<double> parts;
  cluster::share_failure([&] { parts = weigh(); });
  const cluster::Purpose purpose = purpose_of(sum, ", its weights");
  const double all = cluster::all_reduce(std::accumulate(parts.begin(), parts.end(), 0.));
  for (double& part : parts) part /= all;
  return parts;
}

Tensors sum_over_replicas(const Group& group, const Tensors& parts, const ReplicaSum& sum) {
  static const OpRef<RanksAttrs> op("sum_over_ranks");
  if (cluster::size() == 1) return all_reduce(group, parts);
  Tensor here = parts[0];
  if (group.size() > 1) cluster::share_failure([&] { here = reduce(group, parts); });
  const Tensor all = invoke(op, {here}, {sum, Caller::here()});
  return group.size() == 1 ? Tensors{all} : broadcast(group, all);
}

void register_replicas() {
  OpDef<RanksAttrs>("sum_over_ranks", {"part"})
      .function<&run_over_ranks>()
      .gradient<&over_ranks_gradient>(Keep::none)
      .no_samples("a call of every rank");
}

}  // namespace locus
