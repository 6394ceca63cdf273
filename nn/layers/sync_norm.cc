#include <locus/nn/sync_norm.h>

#include <algorithm>
#include <atomic>

#include <locus/core/autograd.h>
#include <locus/core/cluster.h>
#include <locus/core/error.h>
#include <locus/core/group.h>
#include <locus/ops/sync_norm.h>

namespace locus::nn {
namespace {

std::atomic<uint64_t> made{0};

std::string text(std::span<const Context> contexts) {
  return "[" + listed(contexts, [](Context c) { return to_string(c); }) + "]";
}

}  // namespace

SyncBatchNorm::SyncBatchNorm(const BatchNormOptions& o) : BatchNorm(o), number_(++made) {}

bool SyncBatchNorm::predicts() const {
  return options_.use_global_stats || !autograd::is_training();
}

// If one rank fails, every rank throws: the others would wait for it.
void SyncBatchNorm::check_first(const std::function<void()>& check) const {
  predicts() ? check() : cluster::share_failure(check);
}

Tensor SyncBatchNorm::forward(const Tensor& x) {
  if (predicts()) return BatchNorm::forward(x);
  check_first([&] {
    prepare(x, options_.axis, 1);
    if (gamma_.list_ctx().size() > 1)
      throw Error("SyncBatchNorm: called for one replica, ", describe(x), ", of those on ",
                  text(gamma_.list_ctx()),
                  ", while training needs the batches of all; expected net.on_replicas(xs), by one "
                  "thread for all replicas, also instead of net(x) in parallel()");
  });
  if (cluster::size() == 1) return BatchNorm::forward(x);  // one replica of one rank
  return forward_replicas({x})[0];
}

Tensors SyncBatchNorm::forward_replicas(const Tensors& xs) {
  Tensors gamma, beta, mean, var;
  check_first([&] {
    std::vector<Context> contexts;
    for (const Tensor& x : xs) {
      prepare(x, options_.axis, 1);
      const Context c = contexts.emplace_back(x.context());
      gamma.push_back(gamma_.data(c));
      beta.push_back(beta_.data(c));
      mean.push_back(running_mean_.data(c));
      var.push_back(running_var_.data(c));
    }
    if (!predicts() && !std::ranges::is_permutation(gamma_.list_ctx(), contexts))
      throw Error("SyncBatchNorm: trains on ", text(contexts), ", and has replicas on ",
                  text(gamma_.list_ctx()), "; expected all of them");
  });
  return sync_batch_norm(xs, gamma, beta, mean, var, norm(), number_);
}

}  // namespace locus::nn
