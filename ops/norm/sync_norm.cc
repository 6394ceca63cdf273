#include <locus/ops/sync_norm.h>

#include <functional>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/core/recompute.h>
#include <locus/core/storage.h>
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

struct Replicas {
  const Tensors &x, &gamma, &beta, &running_mean, &running_var;
  size_t size() const { return x.size(); }
};

// What the ops below would refuse later, after sums over replicas that others have come to.
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

// Those of the replicas that are here, of these shares; sum(parts) is that of all there are.
Tensors run(const Replicas& r, const BatchNormOptions& o, int axis,
            const std::vector<double>& shares, const std::function<Tensors(const Tensors&)>& sum) {
  static const OpRef<NormAttrs> statistics("batch_norm_statistics"),
      inference("batch_norm_inference");
  const NormAttrs attrs{axis, 1, o.epsilon};
  Tensors x, gamma, beta, means, variances, out;
  for (size_t i = 0; i < r.size(); ++i) {
    x.push_back(floating(r.x[i]));
    gamma.push_back(parameter(r.gamma[i], x[i]));
    beta.push_back(parameter(r.beta[i], x[i]));
    check({x[i], gamma[i], beta[i], r.running_mean[i], r.running_var[i]}, {attrs, o.momentum});
  }
  for (const Tensor& t : x) {
    const Ref in[] = {t};
    Tensors both = invoke_all(statistics, in, attrs);
    means.push_back(both[0]);
    variances.push_back(both[1]);
  }
  const auto mean = [&](const Tensors& values) {
    Tensors parts;
    for (size_t i = 0; i < values.size(); ++i) parts.push_back(values[i] * shares[i]);
    return sum(parts);
  };
  const Tensors all_means = mean(means);
  for (size_t i = 0; i < r.size(); ++i)
    variances[i] = variances[i] + square(means[i] - all_means[i]);
  const Tensors all_variances = mean(variances);
  for (size_t i = 0; i < r.size(); ++i) {
    out.push_back(
        invoke(inference, {x[i], gamma[i], beta[i], all_means[i], all_variances[i]}, attrs));
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
                        const BatchNormOptions& o, const Rendezvous::Place& place) {
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
  const int axis = normalize_axis(o.axis, x[0].ndim(), "sync_batch_norm");
  std::vector<Context> contexts;
  std::vector<double> weights;
  for (const Tensor& t : x) {
    contexts.push_back(t.context());
    weights.push_back(elements(t, axis));
  }
  const Group group(contexts);
  return run({x, gamma, beta, running_mean, running_var}, o, axis, shares(weights, place),
             [&](const Tensors& parts) { return sum_over_replicas(group, parts, place); });
}

Tensor sync_batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                       const Tensor& running_mean, const Tensor& running_var,
                       const BatchNormOptions& o, const Rendezvous::Place& place) {
  if (by_running(o)) return batch_norm(x, gamma, beta, running_mean, running_var, o);
  const int axis = normalize_axis(o.axis, x.ndim(), "sync_batch_norm");
  const std::vector<double> part{share(elements(x, axis), place)};
  const Tensors all[] = {{x}, {gamma}, {beta}, {running_mean}, {running_var}};
  return run({all[0], all[1], all[2], all[3], all[4]}, o, axis, part,
             [&](const Tensors& parts) { return Tensors{sum_over_replicas(parts[0], place)}; })[0];
}

}  // namespace locus
