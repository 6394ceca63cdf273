// Convolutions forward, and forward with backward. GFLOP/s: two operations for each product, three
// times as many with backward.
#include <locus/core/autograd.h>
#include <locus/ops/convolution.h>
#include <locus/ops/create.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

void gigaflops(benchmark::State& state, double flops, const auto& call) {
  state.counters["GFLOP/s"] = 1e-9 * flops / per_call(state, call);
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
                                   .activation = FusedActivation::relu};
  const int64_t side = (s.side + 2 * s.padding - s.kernel) / s.stride + 1;
  const double flops = 2.0 * static_cast<double>(s.images * s.out * side * side * s.in / s.groups *
                                                 s.kernel * s.kernel);
  const std::string name = "convolution/" + to_string(c) + "/" + s.name;
  add_timed(name + " forward", [=](benchmark::State& state) {
    const Tensors t = tensors();
    gigaflops(state, flops, [&] { convolution(t[0], t[1], t[2], options); });
  });
  add_timed(name + " forward+backward", [=](benchmark::State& state) {
    const Tensors t = tensors();
    for (const Tensor& v : t) v.attach_grad();
    gigaflops(state, 3 * flops, [&] {
      Tensor y;
      {
        const autograd::Record record;
        y = convolution(t[0], t[1], t[2], options);
      }
      y.backward();
    });
  });
}

}  // namespace

void add_convolution() {
  for (const Context c : contexts())
    for (const Shapes& s : {Shapes{"lenet_1", 64, 1, 28, 20, 5, 1, 0, 1},
                            Shapes{"lenet_2", 64, 20, 12, 50, 5, 1, 0, 1},
                            Shapes{"3x3 64x56x56", 8, 64, 56, 64, 3, 1, 1, 1},
                            Shapes{"1x1 256x14x14", 8, 256, 14, 256, 1, 1, 0, 1},
                            Shapes{"7x7/2 3x224x224", 2, 3, 224, 64, 7, 2, 3, 1},
                            Shapes{"depthwise 3x3 128x28x28", 8, 128, 28, 128, 3, 1, 1, 128}})
      add_layer(c, s);
}

}  // namespace locus::bench
