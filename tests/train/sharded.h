// Training on several contexts, with or without a sharding Trainer.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <locus/core/autograd.h>
#include <locus/core/parallel.h>
#include <locus/nn/checkpoint.h>
#include <locus/nn/containers.h>
#include <locus/ops/random.h>

#include <locus/core/generator.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/data.h>
#include <locus/nn/layers.h>
#include "tests/ranks/groups.h"
#include "tests/train/training.h"

namespace locus::test {

// Two to four contexts of the host, and two or four GPUs.
inline std::vector<Group> sharding_groups() {
  std::vector<Group> all{Group(hosts(2)), Group(hosts(3)), Group(hosts(4))};
  if (num_gpus() >= 2) all.emplace_back(gpus(2));
  if (num_gpus() >= 4) all.emplace_back(gpus(4));
  return all;
}

// Layers of different sizes; batches of 12 samples over all contexts.
class Training {
 public:
  Training(const Contexts& where, const nn::TrainerOptions& options,
           const optim::Optimizer& optimizer = optim::Adam({.learning_rate = .01}), DType d = f32)
      : where_(where), dtype_(d) {
    random::seed(3);
    net.add(nn::Dense(40, nn::tanh, {.in_units = 10, .dtype = d}),
            nn::Dense(70, nn::tanh, {.in_units = 40, .dtype = d}),
            nn::Dense(3, {}, {.in_units = 70, .dtype = d}));
    net.initialize(init::Xavier(), where);
    trainer = std::make_unique<nn::Trainer>(net.parameters(),
                                            std::make_shared<optim::Optimizer>(optimizer), options);
    random::seed(17);
    x_ = random::normal(0, 1, {60, 10}, {cpu(), f64});
    y_ = random::randint(0, 3, {60}, {cpu(), i32});
  }

  void forward_backward(int k, const Tensors& xs, const Tensors& ys) {
    const auto i = static_cast<size_t>(k);
    Tensor l;
    {
      const autograd::Record record;
      l = loss_(net(xs[i]), ys[i]);
    }
    l.backward();
  }
  std::pair<Tensors, Tensors> next() {
    const int64_t first = 12 * (steps_++ % 5);
    const Slice rows(first, first + 12);
    return {split_and_load(x_(rows).astype(dtype_), where_), split_and_load(y_(rows), where_)};
  }
  void skip_to(int step) { steps_ = step; }
  void backward(bool threads = false) {
    const auto [xs, ys] = next();
    if (threads)
      return parallel(where_, [&, &xs = xs, &ys = ys](int i) { forward_backward(i, xs, ys); });
    for (int i = 0; i < static_cast<int>(xs.size()); ++i) forward_backward(i, xs, ys);
  }
  Training& run(int steps, bool threads = false) {
    for (int i = 0; i < steps; ++i) {
      backward(threads);
      trainer->step(12);
    }
    return *this;
  }
  void reset_ctx(const Contexts& where) {
    where_ = where;
    net.reset_ctx(where);
  }

  // Each first replica; all are equal, bit by bit.
  Outcome outcome() const {
    Outcome o;
    for (const auto& [name, p] : net.parameters()) {
      const Tensors replicas = p.list_data();
      o.parameters.push_back(values(replicas[0]));
      for (const Tensor& replica : replicas)
        EXPECT_EQ(values(replica), o.parameters.back()) << name << " on " << replica.context();
    }
    return o;
  }

  nn::Sequential net;
  std::unique_ptr<nn::Trainer> trainer;

 private:
  Contexts where_;
  DType dtype_;
  nn::SoftmaxCrossEntropyLoss loss_;
  Tensor x_, y_;
  int steps_ = 0;
};

inline std::vector<optim::Optimizer> optimizers() {
  return {optim::SGD({.learning_rate = .1}),
          optim::SGD({.learning_rate = .1, .momentum = .9, .wd = 1e-3}),
          optim::NAG({.learning_rate = .1, .momentum = .9}),
          optim::Adam({.learning_rate = .01}),
          optim::AdamW({.learning_rate = .01, .wd = .1}),
          optim::Adamax(),
          optim::Nadam(),
          optim::RMSProp({.centered = true}),
          optim::AdaGrad(),
          optim::AdaDelta(),
          optim::Ftrl(),
          optim::Signum(),
          optim::Lion(),
          optim::LAMB(),
          optim::LARS({.learning_rate = .1, .momentum = .9})};
}

}  // namespace locus::test
