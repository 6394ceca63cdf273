// What the benchmarks of training train: a 784-256-128-10 network, SGD with momentum.
#pragma once

#include <optional>

#include <locus/core/autograd.h>
#include <locus/core/device.h>
#include <locus/nn/containers.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include <locus/ops/random.h>

namespace locus::bench {

struct Training {
  Training(Context c, int64_t samples)
      : where(c),
        image(random::uniform(0, 1, {samples, 784}, c)),
        label(random::randint(0, 10, {samples}, c)) {
    net.add(nn::Dense(256, nn::relu), nn::Dense(128, nn::relu), nn::Dense(10));
    net.initialize(init::Xavier(), c);
    net(image);
    trainer.emplace(net.parameters(), optim::SGD({.learning_rate = 0.01, .momentum = 0.9}));
  }
  Tensor forward() { return loss_fn(net(image), label); }
  Tensor step() {
    Tensor loss;
    {
      const autograd::Record record;
      loss = forward();
    }
    loss.backward();
    trainer->step(image.shape()[0]);
    return loss;
  }

  Context where;
  nn::Sequential net;
  nn::SoftmaxCrossEntropyLoss loss_fn;
  std::optional<nn::Trainer> trainer;
  Tensor image, label;
};

}  // namespace locus::bench
