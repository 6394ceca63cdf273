#include <locus/nn/train/gradient_sums.h>

#include <algorithm>
#include <utility>

#include <locus/core/accumulate.h>
#include <locus/core/autograd.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/cluster.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/tape/grad_memory.h>
#include <locus/ops/collective.h>

namespace locus::nn {

bool to_be_summed(const std::string& name, const Tensors& replicas) {
  const auto is_fresh = [](const Tensor& w) { return autograd::fresh_grad(w); };
  const auto is_summed = [](const Tensor& w) { return autograd::summed_grad(w); };
  if (capture::only_recorded() || std::ranges::none_of(replicas, is_summed))
    return std::ranges::all_of(replicas, is_fresh);
  const auto alone =
      std::ranges::find_if(replicas, [&](const Tensor& w) { return is_fresh(w) && !is_summed(w); });
  if (alone == replicas.end()) return false;
  throw Error("Trainer: the gradients of Parameter `", name,
              "` are sums already, but backward() has written the gradient on ", alone->context(),
              " since; expected backward() on every context before they are summed");
}

GradientSums::GradientSums(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {
  for (auto p = parameters_.rbegin(); p != parameters_.rend(); ++p) {
    std::vector<Context> contexts;
    for (const Tensor& t : p->replicas) contexts.push_back(t.context());
    const Group group(contexts);
    auto at = std::ranges::find(all_, group, &GradientGroup::group);
    if (at == all_.end()) at = all_.insert(at, {.group = group});
    at->parameters.push_back(&*p);
  }
}

// If a sum failed, gradients count as used: some may be half summed.
GradientSums::~GradientSums() {
  const MutexLock lock(mutex_);
  if (refused_.empty()) return;
  for (const Parameter& p : parameters_)
    for (const Tensor& w : p.replicas) autograd::mark_used(w);
}

std::vector<GradientSums::Bucket> GradientSums::buckets(GradientGroup& all) const {
  std::vector<Bucket> made;
  size_t bytes = 0;
  for (size_t i = 0; i < all.parameters.size(); ++i) {
    if (bytes == 0) made.push_back({.all = &all, .begin = i, .end = i});
    bytes += bytes_of(all.parameters[i]->replicas[0].impl().view.meta) + 1;
    made.back().end = i + 1;
    if (bytes >= kBucket) bytes = 0;
  }
  return made;
}

void GradientSums::add_up(const Bucket& bucket, bool beside, const std::function<void(int)>& behind,
                          Caller from) const {
  std::vector<Tensors> gradients;
  std::vector<int> owners;
  std::vector<const Parameter*> summed;
  for (size_t i = bucket.begin; i < bucket.end; ++i) {
    const Parameter& p = *bucket.all->parameters[i];
    const Tensors& replicas = p.replicas;
    if (!to_be_summed(p.name, replicas)) continue;
    Tensors& parts = gradients.emplace_back();
    for (const Tensor& w : replicas) parts.push_back(w.grad());
    if (p.owner >= 0) owners.push_back(p.owner);
    summed.push_back(&p);
  }
  if (gradients.empty() && !behind) return;
  const autograd::Pause pause;
  const AllReduceManyOptions options{.beside = beside, .behind = behind};
  if (owners.empty())
    all_reduce_many(bucket.all->group, gradients, options, from);
  else
    reduce_many(bucket.all->group, gradients, owners, options, from);
  if (capture::only_recorded()) return;
  for (const Parameter* p : summed)
    for (size_t i = 0; i < p->replicas.size(); ++i) {
      const Tensor& w = p->replicas[i];
      if (p->owner < 0 || static_cast<int>(i) == p->owner) {
        autograd::mark_summed(w);
        continue;
      }
      autograd::mark_used(w);
      if (p->release) autograd::release_grad(w);
    }
}

void GradientSums::expect_ready() {
  check();
  if (parameters_[0].release)
    capture::check("Trainer with zero = 2",
                   "it releases gradients, and the memory of what is recorded is kept from call to "
                   "call; make the Trainer with zero = 1");
  for (const Parameter& p : parameters_) to_be_summed(p.name, p.replicas);
}

void GradientSums::finish(const std::function<void(int)>& behind, Caller from) {
  LOCUS_CHECK(!behind || group(), "behind needs all parameters in one group");
  for (GradientGroup& all : all_) {
    // In a recorded step, a bucket's sum can run during backward().
    const std::vector<Bucket> parts =
        capture::active() ? buckets(all) : std::vector<Bucket>{{&all, 0, all.parameters.size()}};
    for (const Bucket& b : parts) {
      const bool last = &b == &parts.back();
      add_up(b, !last, last ? behind : nullptr, from);
    }
  }
}

bool GradientSums::are_of(const std::vector<Parameter>& parameters) const {
  return std::ranges::equal(parameters_, parameters, [](const Parameter& a, const Parameter& b) {
    return a.owner == b.owner && a.release == b.release &&
           std::ranges::equal(a.replicas, b.replicas, &Tensor::is);
  });
}

void GradientSums::overlap(Caller from) {
  const MutexLock lock(mutex_);
  if (!std::exchange(overlaps_, true)) {
    for (GradientGroup& all : all_) {
      for (const Context c : all.group)
        if (!is_host(c)) all.streams.emplace_back(c, from);
      for (Bucket& b : buckets(all)) {
        const auto n = static_cast<size_t>(all.group.size());
        b.there.resize((b.end - b.begin) * n);
        b.missing.resize(n);
        waiting_.push_back(std::move(b));
      }
    }
    reset();
  }
  for (size_t number = 0; number < waiting_.size(); ++number) {
    const Bucket& b = waiting_[number];
    size_t at = 0;
    for (size_t i = b.begin; i < b.end; ++i)
      for (const Tensor& w : b.all->parameters[i]->replicas) {
        const auto sums = weak_from_this();
        autograd::set_grad_hook(
            w,
            [sums, number, at, from] {
              if (const auto held = sums.lock()) held->arrived(number, at, from);
            },
            [sums, number, at] {
              if (const auto held = sums.lock()) held->expect_first(number, at);
            });
        ++at;
      }
  }
}

// Called before a gradient is written. Throws if it was already written: another thread may sum it.
void GradientSums::expect_first(size_t number, size_t at) {
  const MutexLock lock(mutex_);
  const Bucket& b = waiting_[number];
  if (!b.there[at]) return;
  if (refused_.empty()) refused_ = twice(*b.all->parameters[b.begin + at / b.missing.size()]);
  throw Error(refused_);
}

void GradientSums::arrived(size_t number, size_t at, Caller from) {
  if (cluster::size() > 1) return;  // made before ranks joined
  const MutexLock lock(mutex_);
  Bucket& b = waiting_[number];
  const Group& g = b.all->group;
  const size_t n = b.missing.size();
  if (!refused_.empty()) return;  // another context failed; its backward() still runs
  b.there[at] = true;
  const Context here = g[static_cast<int>(at % n)];
  if (--b.missing[at % n] > 0) return;
  if (std::ranges::any_of(b.missing, [](size_t left) { return left > 0; })) {
    // The sum waits for these gradients, not for work enqueued until the others arrive.
    if (is_host(here)) return;
    const StreamScope its(b.all->streams[at % n]);
    for (size_t i = b.begin; i < b.end; ++i)
      autograd::move_grad(b.all->parameters[i]->replicas[at % n]);
    return;
  }
  std::deque<StreamScope> scopes;
  for (const Stream& s : b.all->streams) scopes.emplace_back(s);
  try {
    add_up(b, &b != &waiting_.back(), {}, from);  // the last one runs alone
  } catch (const std::exception& e) {
    refused_ = text_of("Trainer: the sum of gradients in backward() failed, and some may be sums: ",
                       e.what(), "; call Trainer::discard()");
    throw;
  }
}

std::string GradientSums::twice(const Parameter& p) {
  return text_of("Trainer: backward() was to write the gradient of Parameter `", p.name,
                 "` twice before step(); with overlap it is summed while backward() runs: expected "
                 "one backward() a step, ",
                 autograd::Accumulate::here()
                     ? "but microbatches, as those of a Pipeline or a Planned, and "
                       "autograd::Accumulate make several: make the Trainer without overlap"
                     : "or Trainer::discard() after one that makes no step, such as this");
}

void GradientSums::check() {
  const MutexLock lock(mutex_);
  if (!refused_.empty()) throw Error(refused_);
}

void GradientSums::next() {
  if (!overlaps_) return;
  const MutexLock lock(mutex_);
  reset();
}

void GradientSums::reset() {
  refused_.clear();
  for (Bucket& b : waiting_) {
    b.there.assign(b.there.size(), false);
    b.missing.assign(b.missing.size(), b.end - b.begin);
  }
}

}  // namespace locus::nn
