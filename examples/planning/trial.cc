#include "planning/trial.h"

#include <algorithm>
#include <mutex>

#include <locus/locus.h>

#include "common/measure.h"
#include "common/moments.h"
#include "planning/sweep.h"

namespace planning {

using namespace locus;

namespace {

std::vector<double> in_use(const std::vector<Context>& contexts) {
  std::vector<double> bytes;
  for (const Context c : contexts)
    bytes.push_back(static_cast<double>(memory_pool(c).stats().in_use));
  return bytes;
}

constexpr int kWarmUp = 3;  // steps

}  // namespace

Trial::Trial(const Model& model, const nn::Plan& plan, int64_t batch)
    : contexts_(plan.contexts()), microbatches_(plan.microbatches) {
  wait_all();
  for (const Context c : contexts_) memory_pool(c).release_cached();
  random::seed(7);
  x_ = random::uniform(0, 1, batch_of(batch, model.sample), contexts_[0]);
  y_ = random::randint(0, model.classes, {batch}, contexts_[0]);
  wait_all();
  before_ = in_use(contexts_);
  net_ = std::make_unique<nn::Planned>(model.make(), plan);
  net_->initialize(init::Xavier());
  trainer_ = std::make_unique<nn::Trainer>(net_->parameters(),
                                           optim::SGD({.learning_rate = .01, .momentum = .9}));
  const nn::SoftmaxCrossEntropyLoss loss;
  const Tensor l = net_->forward_backward(x_, y_, loss);
  first_loss_ = static_cast<double>(l.mean().item<float>());
  trainer_->step(batch);
}

void Trial::step() {
  passes();
  trainer_->step(x_.shape()[0]);
}

void Trial::passes() {
  static const nn::SoftmaxCrossEntropyLoss loss;
  net_->forward_backward(x_, y_, [this](const Tensor& out, const Tensor& label) {
    const Tensor l = loss(out, label);
    if (after_forward_) after_forward_();
    return l;
  });
  went_back_ = examples::now();
}

std::vector<double> Trial::times(int steps) {
  std::vector<double> all;
  for (int i = -kWarmUp; i < steps; ++i) {
    const double start = examples::now();
    step();
    wait_all();
    if (i >= 0) all.push_back(examples::now() - start);
  }
  return all;
}

std::vector<Issued> Trial::issued(int steps) {
  struct Replica {
    double first = 0, last = 0;
    Issued sums;
  };
  std::vector<Replica> replicas(net_->pipelines().size());
  for (size_t r = 0; r < replicas.size(); ++r)
    net_->pipelines()[r].watch(
        [&mine = replicas[r]](const nn::Pipeline::Pass& pass, bool enqueued, const Tensor&) {
          const double now = examples::now();
          if (mine.first == 0) mine.first = mine.last = now;
          if (!enqueued) return;
          (!pass.backward        ? mine.sums.forward
           : pass.microbatch > 0 ? mine.sums.again
                                 : mine.sums.backward) += now - std::exchange(mine.last, now);
        });
  double forwarded = 0;
  if (replicas.empty()) after_forward_ = [&] { forwarded = examples::now(); };
  std::vector<Issued> all;
  for (int i = -kWarmUp; i < steps; ++i) {
    replicas.assign(replicas.size(), {});
    const double start = examples::now();
    step();
    const double end = examples::now();
    wait_all();
    if (i < 0) continue;
    Issued& mean = all.emplace_back();
    if (replicas.empty()) {
      mean = {.forward = forwarded - start,
              .backward = went_back_ - forwarded,
              .after = end - went_back_};
      continue;
    }
    double passes = 0, last = start;
    const auto n = static_cast<double>(replicas.size());
    const double m = microbatches_;
    for (const Replica& r : replicas) {
      mean.forward += r.sums.forward / n / m;
      mean.backward += r.sums.backward / n;
      mean.again += r.sums.again / n / std::max(1., m - 1);
      passes += (r.last - r.first) / n;
      last = std::max(last, r.last);
    }
    mean.before = last - passes - start;
    mean.after = end - last;
  }
  after_forward_ = nullptr;
  for (nn::Pipeline& p : net_->pipelines()) p.watch({});
  return all;
}

std::vector<double> Trial::held() {
  std::mutex mutex;
  std::vector<double> most(contexts_.size());
  const auto look = [&] {
    const std::lock_guard lock(mutex);
    const std::vector<double> now = in_use(contexts_);
    for (size_t i = 0; i < now.size(); ++i) most[i] = std::max(most[i], now[i] - before_[i]);
  };
  // Memory freed while another context reads it stays in use until an idle check.
  const auto settle = [&] {
    const std::lock_guard lock(mutex);
    wait_all();
    for (const Context c : contexts_) memory_pool(c).release_cached();
  };
  const auto settled = [&] {
    settle();
    look();
  };
  settle();
  after_forward_ = settled;
  for (nn::Pipeline& p : net_->pipelines())
    p.watch([&](const nn::Pipeline::Pass&, bool enqueued, const Tensor&) {
      if (enqueued) settled();
    });
  passes();
  settled();
  trainer_->allreduce_grads();
  look();  // with the sums' working memory
  trainer_->update(x_.shape()[0]);
  settled();
  after_forward_ = nullptr;
  for (nn::Pipeline& p : net_->pipelines()) p.watch({});
  return most;
}

std::vector<Ran> Trial::trace(const std::function<void()>& ahead) {
  wait_all();
  examples::Moments moments(contexts_);
  using Moment = examples::Moments::Moment;
  struct Taken {
    Context where;
    Moment from, to;
    char what;
    int microbatch;
  };
  std::vector<std::vector<Taken>> taken(net_->pipelines().size() + 1);
  ahead();
  const double start = examples::now();
  for (size_t r = 0; r + 1 < taken.size(); ++r)
    net_->pipelines()[r].watch([&, r](const nn::Pipeline::Pass& pass, bool enqueued,
                                      const Tensor& given) {
      const Context c = net_->pipelines()[r].contexts().list()[static_cast<size_t>(pass.stage)];
      if (enqueued) {
        taken[r].back().to = moments.take(c);
      } else {
        slice_axis(given, 0, Slice(0, 1)) * 1;  // makes c wait for the input
        taken[r].push_back({c, moments.take(c), {}, pass.backward ? 'B' : 'F', pass.microbatch});
      }
    });
  std::vector<Moment> begins, middles, ends;
  const auto all = [&](std::vector<Moment>& list) {
    for (const Context c : contexts_) list.push_back(moments.take(c));
  };
  all(begins);
  static const nn::SoftmaxCrossEntropyLoss loss;
  const bool cut = net_->pipelines().empty();
  net_->forward_backward(x_, y_, [&](const Tensor& out, const Tensor& label) {
    const Tensor l = loss(out, label);
    if (cut) all(middles);
    return l;
  });
  all(ends);
  trainer_->step(x_.shape()[0]);
  std::vector<Taken>& rest = taken.back();
  for (size_t i = 0; i < contexts_.size(); ++i) {
    const Context c = contexts_[i];
    if (cut) {
      rest.push_back({c, begins[i], middles[i], 'F', 0});
      rest.push_back({c, middles[i], ends[i], 'B', 0});
    }
    rest.push_back({c, ends[i], moments.take(c), 'U', 0});
  }
  for (nn::Pipeline& p : net_->pipelines()) p.watch({});
  wait_all();
  std::vector<Ran> ran;
  for (const auto& list : taken)
    for (const Taken& t : list)
      ran.push_back({t.where, moments.time(t.from) - start, moments.time(t.to) - start, t.what,
                     t.microbatch});
  return ran;
}

}  // namespace planning
