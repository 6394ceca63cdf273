#include <locus/ops/sync_norm.h>

#include <functional>
#include <optional>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/recompute.h>
#include <locus/ops/call_check.h>
#include <locus/ops/collective/replicas.h>
#include <locus/ops/norm/norm_parts.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

using namespace norms;

void step(const Tensor& running, const Tensor& now, double momentum) {
  const autograd::Pause pause(true);
  running_average(running, detail::as(now, running.dtype()), momentum).copyto(running);
}

// Throws what the ops below would refuse, before other replicas wait in sums.
void check(const Tensors& in, const BatchNormAttrs& a) {
  std::vector<Meta> metas;
  for (const Tensor& t : in) metas.push_back(t.impl().view.meta);
  try {
    check_training(metas, a);
  } catch (const Error&) {
    std::rethrow_exception(reworded([&](const std::string& text) {
      return text_of("sync_batch_norm: data ", describe(in[0]), ", gamma ", describe(in[1]),
                     ", beta ", describe(in[2]), ", running_mean ", describe(in[3]),
                     ", running_var ", describe(in[4]), ": ", text);
    }));
  }
}

double elements(const Tensor& x, int axis) {
  if (x.size() == 0)
    throw ShapeError("sync_batch_norm: ", describe(x),
                     " has no elements; expected some of each replica");
  return static_cast<double>(x.size() / x.shape()[axis]);
}

// Checked inputs in their compute dtypes, with the statistics of each replica.
struct Replicas {
  int axis = 0;
  Tensors x, gamma, beta, running_mean, running_var, means, variances;
  std::vector<double> weights;
  size_t size() const { return x.size(); }
};
Replicas prepared(const Tensors& x, const Tensors& gamma, const Tensors& beta,
                  const Tensors& running_mean, const Tensors& running_var,
                  const BatchNormOptions& o) {
  static const OpRef<NormAttrs> statistics("batch_norm_statistics");
  Replicas r;
  r.axis = detail::axis_of(x[0], o.axis, "sync_batch_norm");
  r.running_mean = running_mean;
  r.running_var = running_var;
  for (size_t i = 0; i < x.size(); ++i) {
    r.x.push_back(floating(x[i]));
    r.gamma.push_back(parameter(gamma[i], r.x[i]));
    r.beta.push_back(parameter(beta[i], r.x[i]));
    check({r.x[i], r.gamma[i], r.beta[i], running_mean[i], running_var[i]},
          {{r.axis, 1, o.epsilon}, o.momentum});
    r.weights.push_back(elements(r.x[i], r.axis));
    const Ref in[] = {r.x[i]};
    const Tensors both = invoke_all(statistics, in, NormAttrs{r.axis, 1, o.epsilon});
    r.means.push_back(both[0]);
    r.variances.push_back(both[1]);
  }
  return r;
}

// The results of this rank's replicas. `shares`: their parts of all elements. sum(parts) is over
// all replicas.
Tensors run(const Replicas& r, const BatchNormOptions& o, const std::vector<double>& shares,
            const std::function<Tensors(const Tensors&)>& sum) {
  static const OpRef<NormAttrs> inference("batch_norm_inference");
  const NormAttrs attrs{r.axis, 1, o.epsilon};
  Tensors variances, out;
  const auto mean = [&](const Tensors& values) {
    Tensors parts;
    for (size_t i = 0; i < values.size(); ++i) parts.push_back(values[i] * shares[i]);
    return sum(parts);
  };
  const Tensors all_means = mean(r.means);
  for (size_t i = 0; i < r.size(); ++i) {
    const Tensor distance = r.means[i] - all_means[i];
    variances.push_back(r.variances[i] + distance * distance);
  }
  const Tensors all_variances = mean(variances);
  for (size_t i = 0; i < r.size(); ++i) {
    out.push_back(
        invoke(inference, {r.x[i], r.gamma[i], r.beta[i], all_means[i], all_variances[i]}, attrs));
    if (autograd::is_recomputing()) continue;
    step(r.running_mean[i], all_means[i], o.momentum);
    step(r.running_var[i], all_variances[i], o.momentum);
  }
  return out;
}

bool by_running(const BatchNormOptions& o) {
  return o.use_global_stats || !autograd::is_training();
}

}  // namespace

Tensors sync_batch_norm(const Tensors& x, const Tensors& gamma, const Tensors& beta,
                        const Tensors& running_mean, const Tensors& running_var,
                        const BatchNormOptions& o, uint64_t number, Caller from) try {
  const UserLine user_line(from);
  const ReplicaSum sum{.what = "SyncBatchNorm", .number = number};
  for (const Tensors* all : {&gamma, &beta, &running_mean, &running_var})
    if (x.empty() || all->size() != x.size())
      throw Error("sync_batch_norm: ", x.size(), " parts with ", all->size(),
                  " parameters; expected one each, and at least one part");
  Tensors out;
  if (by_running(o)) {
    for (size_t i = 0; i < x.size(); ++i)
      out.push_back(batch_norm(x[i], gamma[i], beta[i], running_mean[i], running_var[i], o));
    return out;
  }
  Replicas r;
  std::optional<Group> group;
  const std::vector<double> of_all = shares(
      [&] {
        r = prepared(x, gamma, beta, running_mean, running_var, o);
        std::vector<Context> contexts;
        for (const Tensor& t : x) contexts.push_back(t.context());
        group.emplace(contexts);
        return r.weights;
      },
      sum);
  return run(r, o, of_all,
             [&](const Tensors& parts) { return sum_over_replicas(*group, parts, sum); });
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus
