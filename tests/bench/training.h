// The training step of the benchmarks, by SGD with momentum, on random images. The default network
// is 784-256-128-10.
#pragma once

#include <optional>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/device.h>
#include <locus/nn/containers.h>
#include <locus/nn/loss.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include <locus/ops/random.h>

#include "training/models.h"

namespace locus::bench {

struct Training {
  Training(Context c, int64_t samples)
      : Training(c, training::mlp({256, 128}), {samples, 784}, 10) {}
  // d: the network's dtype after a cast; the optimizer then has f32 masters.
  Training(Context c, nn::Sequential network, const Shape& images, int64_t classes, DType d = f32)
      : where(c),
        net(std::move(network)),
        image(random::uniform(0, 1, images, c)),
        label(random::randint(0, classes, {images[0]}, c)) {
    net.initialize(init::Xavier(), c);
    net(image);
    if (d != f32) {
      net.cast(d);
      image = image.astype(d);
    }
    trainer.emplace(
        net.parameters(),
        optim::SGD({.learning_rate = 0.01, .momentum = 0.9, .multi_precision = d != f32}));
  }
  Tensor forward(const Tensor& x, const Tensor& y) {
    const amp::Scope scope(mixed);
    return loss_fn(net(x), y);
  }
  Tensor forward() { return forward(image, label); }
  Tensor step() { return step(image, label); }
  Tensor step(const Tensor& x, const Tensor& y) {
    Tensor loss;
    {
      const autograd::Record record;
      loss = forward(x, y);
    }
    loss.backward();
    trainer->step(x.shape()[0]);
    return loss;
  }

  Context where;
  nn::Sequential net;
  nn::SoftmaxCrossEntropyLoss loss_fn;
  std::optional<nn::Trainer> trainer;
  std::optional<DType> mixed;  // of an amp::Scope
  Tensor image, label;
};

}  // namespace locus::bench
