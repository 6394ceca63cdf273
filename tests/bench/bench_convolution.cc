// Convolutions forward, and forward with backward, and an eager LeNet step (64 images of 28 x 28,
// SGD). GFLOP/s counts two for each product of a weight and an element, three times as many with
// backward.
#include <optional>

#include <locus/core/autograd.h>
#include <locus/nn/containers.h>
#include <locus/nn/conv_layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/pool_layers.h>
#include <locus/nn/trainer.h>
#include <locus/ops/convolution.h>
#include <locus/ops/create.h>
#include <locus/ops/random.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

constexpr int kBatch = 20;  // calls between two synchronisations

template <class F>
void calls(benchmark::State& state, double flops, const F& call) {
  double done = 0;
  call().wait_to_read();
  for (auto _ : state) {
    const double start = seconds();
    Tensor y;
    for (int i = 0; i < kBatch; ++i) y = call();
    y.wait_to_read();
    state.SetIterationTime((seconds() - start) / kBatch);
    ++done;
  }
  if (flops > 0)
    state.counters["GFLOP/s"] =
        benchmark::Counter(1e-9 * flops * done, benchmark::Counter::kIsRate);
}

struct Shapes {
  const char* name;
  int64_t images, in, side, out, kernel, stride, padding, groups;
};

void add_layer(Context c, const Shapes& s) {
  const auto tensors = [=] {
    return Tensors{sample_values(c, f32, {s.images, s.in, s.side, s.side}, -1, 1),
                   sample_values(c, f32, {s.out, s.in / s.groups, s.kernel, s.kernel}, -1, 1, 1),
                   sample_values(c, f32, {s.out}, -1, 1, 2)};
  };
  const ConvolutionOptions options{.strides = s.stride,
                                   .padding = s.padding,
                                   .groups = s.groups,
                                   .activation = Activation::relu};
  const int64_t side = (s.side + 2 * s.padding - s.kernel) / s.stride + 1;
  const double flops = 2.0 * static_cast<double>(s.images * s.out * side * side * s.in / s.groups *
                                                 s.kernel * s.kernel);
  const std::string name = "convolution/" + to_string(c) + "/" + s.name;
  add_timed(name + " forward", [=](benchmark::State& state) {
    const Tensors t = tensors();
    calls(state, flops, [&] { return convolution(t[0], t[1], t[2], options); });
  });
  add_timed(name + " forward+backward", [=](benchmark::State& state) {
    const Tensors t = tensors();
    for (const Tensor& v : t) v.attach_grad();
    calls(state, 3 * flops, [&] {
      Tensor y;
      {
        const autograd::Record record;
        y = convolution(t[0], t[1], t[2], options);
      }
      y.backward();
      return t[1].grad();
    });
  });
}

void lenet(benchmark::State& state, Context c) {
  random::seed(1);
  nn::Sequential net;
  net.add(nn::Conv2D(20, 5, {.activation = nn::relu}), nn::MaxPool2D(2, {.strides = 2}),
          nn::Conv2D(50, 5, {.activation = nn::relu}), nn::MaxPool2D(2, {.strides = 2}),
          nn::Flatten(), nn::Dense(500, nn::relu), nn::Dense(10));
  net.initialize(init::Xavier(), c);
  const Tensor image = random::uniform(0, 1, {64, 1, 28, 28}, c);
  const Tensor label = random::randint(0, 10, {64}, c);
  net(image);
  nn::SoftmaxCrossEntropyLoss loss_fn;
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 0.01}));
  calls(state, 0, [&] {
    Tensor loss;
    {
      const autograd::Record record;
      loss = loss_fn(net(image), label);
    }
    loss.backward();
    trainer.step(64);
    return loss;
  });
}

}  // namespace

void add_convolution() {
  for (const Context c : contexts()) {
    for (const Shapes& s : {Shapes{"lenet_1", 64, 1, 28, 20, 5, 1, 0, 1},
                            Shapes{"lenet_2", 64, 20, 12, 50, 5, 1, 0, 1},
                            Shapes{"3x3 64x56x56", 8, 64, 56, 64, 3, 1, 1, 1},
                            Shapes{"1x1 256x14x14", 8, 256, 14, 256, 1, 1, 0, 1},
                            Shapes{"7x7/2 3x224x224", 2, 3, 224, 64, 7, 2, 3, 1},
                            Shapes{"depthwise 3x3 128x28x28", 8, 128, 28, 128, 3, 1, 1, 128}})
      add_layer(c, s);
    add_timed("convolution/" + to_string(c) + "/lenet_step",
              [=](benchmark::State& state) { lenet(state, c); });
  }
}

}  // namespace locus::bench
