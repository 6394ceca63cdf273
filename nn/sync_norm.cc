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

bool SyncBatchNorm::alone() const {
  return options_.use_global_stats || !autograd::is_training() ||
         (gamma_.list_ctx().size() == 1 && cluster::size() == 1);
}

void SyncBatchNorm::expect_all(std::span<const Context> there) const {
  const std::vector<Context> all = gamma_.list_ctx();
  if (!std::ranges::is_permutation(all, there))
    throw Error("SyncBatchNorm: trains on ", text(there), ", and has replicas on ", text(all),
                "; expected all of them");
}

// What comes before threads and ranks meet: they would wait for one that finds something wrong.
void SyncBatchNorm::before_meeting(const std::function<void()>& check) const {
  if (options_.use_global_stats || !autograd::is_training()) return check();
  if (!Rendezvous::Seat::here()) return cluster::share_failure(check);
  try {
    check();
  } catch (...) {
    if (!alone()) sync_batch_norm_failed(place());
    throw;
  }
}

Tensor SyncBatchNorm::forward(const Tensor& x) {
  const Context c = x.context();
  before_meeting([&] {
    prepare(x, options_.axis, 1);
    if (alone() || gamma_.list_ctx().size() == 1) return;
    const Rendezvous::Seat* const seat = Rendezvous::Seat::here();
    if (!seat)
      throw Error("SyncBatchNorm: one replica of ", text(gamma_.list_ctx()),
                  " by itself, which needs the others' batches; expected net.on_replicas(xs), or "
                  "net(x) of each in parallel()");
    expect_all(seat->contexts());
    if (c != seat->context())
      throw ContextMismatch("SyncBatchNorm: input ", describe(x), " in the thread of ",
                            seat->context(), "; expected it there");
  });
  if (alone()) return BatchNorm::forward(x);
  if (gamma_.list_ctx().size() == 1) return forward_replicas({x})[0];
  return sync_batch_norm(x, gamma_.data(c), beta_.data(c), running_mean_.data(c),
                         running_var_.data(c), norm(), place());
}

Tensors SyncBatchNorm::forward_replicas(const Tensors& xs) {
  std::vector<Context> contexts;
  Tensors gamma, beta, mean, var;
  before_meeting([&] {
    for (const Tensor& x : xs) {
      prepare(x, options_.axis, 1);
      const Context c = contexts.emplace_back(x.context());
      gamma.push_back(gamma_.data(c));
      beta.push_back(beta_.data(c));
      mean.push_back(running_mean_.data(c));
      var.push_back(running_var_.data(c));
    }
    if (!alone()) expect_all(contexts);
  });
  return sync_batch_norm(xs, gamma, beta, mean, var, norm(), place());
}

}  // namespace locus::nn
