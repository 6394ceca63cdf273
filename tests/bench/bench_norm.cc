// Normalisations, forward (training) and backward. Bandwidth counts the least bytes: each element
// read once and written once; two reads in backward.
#include <locus/core/autograd.h>
#include <locus/ops/create.h>
#include <locus/ops/norm.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

using Norm = Tensor (*)(const Tensor& x, const Tensor& gamma, const Tensor& beta);

void measure(const std::string& name, Context c, DType d, const Shape& shape, int axis, Norm f) {
  const auto run = [=](benchmark::State& state, bool backward) {
    const Tensor x = sample_values(c, d, shape), dy = sample_values(c, d, shape);
    const Tensor gamma = ones({shape[axis]}, c), beta = zeros({shape[axis]}, c);
    for (const Tensor& t : {x, gamma, beta}) t.attach_grad();
    const auto gigabytes_per_second = [&](int passes, const auto& call) {
      const auto bytes = static_cast<double>(passes * x.size() * size_of(d));
      state.counters["GB/s"] = 1e-9 * bytes / per_call(state, call);
    };
    if (!backward) {
      const autograd::TrainMode train;
      return gigabytes_per_second(2, [&] { f(x, gamma, beta); });
    }
    Tensor y;
    {
      const autograd::Record record;
      y = f(x, gamma, beta);
    }
    gigabytes_per_second(3, [&] { y.backward({.head_gradient = dy, .retain_graph = true}); });
  };
  const std::string where = "_" + std::string(locus::name(d)) + "/" + to_string(c);
  add_timed(name + where, [=](benchmark::State& state) { run(state, false); });
  add_timed(name + "_backward" + where, [=](benchmark::State& state) { run(state, true); });
}

template <int kAxis>
Tensor batch(const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  const TensorOptions o(x.context());
  return batch_norm(x, gamma, beta, zeros(gamma.shape(), o), ones(gamma.shape(), o),
                    {.axis = kAxis});
}

}  // namespace

void add_norm() {
  for (Context c : contexts()) {
    for (DType d : {f32, bf16}) {
      measure("batch_norm_64x64x56x56", c, d, {64, 64, 56, 56}, 1, batch<1>);
      measure("batch_norm_64x512x7x7", c, d, {64, 512, 7, 7}, 1, batch<1>);
      measure("batch_norm_64x56x56x64_last", c, d, {64, 56, 56, 64}, -1, batch<-1>);
      measure(
          "layer_norm_8192x768", c, d, {8192, 768}, -1,
          [](const Tensor& x, const Tensor& g, const Tensor& b) { return layer_norm(x, g, b); });
      measure("rms_norm_8192x4096", c, d, {8192, 4096}, -1,
              [](const Tensor& x, const Tensor& g, const Tensor&) { return rms_norm(x, g); });
      measure("group_norm_32x128x32x32", c, d, {32, 128, 32, 32}, 1,
              [](const Tensor& x, const Tensor& g, const Tensor& b) {
                return group_norm(x, g, b, {.num_groups = 32});
              });
    }
    measure("batch_norm_64x256", c, f32, {64, 256}, 1, batch<1>);
  }
}

}  // namespace locus::bench
