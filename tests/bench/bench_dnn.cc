// Our products beside cuDNN's plans, which dnn_convolution_wins() of
// ops/convolution/convolution_ways.h is to go by. A benchmark's time is ours, in microseconds of
// device and host together; `first` is that of the plan that cuDNN ranks first, `best` that of the
// fastest of eight; 0: there is none.
#include <limits>

#include <locus/ops/create.h>

#include "tests/bench/bench.h"

#ifdef LOCUS_WITH_CUDA
#include "tests/cuda_dnn.h"
#endif

namespace locus::bench {

#ifndef LOCUS_WITH_CUDA
void add_dnn() {}
#else

namespace {

struct Shapes {
  const char* name;
  int64_t images, in, side, out, kernel, stride, groups;
};

cuda::Layer make_layer(const Shapes& s, DType d, bool last) {
  cuda::Layer layer;
  Convolution& g = layer.g;
  g.images = s.images;
  g.groups = s.groups;
  g.in = s.in / s.groups;
  g.out = s.out / s.groups;
  g.channels_last = last;
  for (int a = 0; a < 3; ++a) {
    const bool there = a > 0;
    g.dilation[a] = 1;
    g.kernel[a] = there ? s.kernel : 1;
    g.stride[a] = there ? s.stride : 1;
    g.padding[a] = there ? s.kernel / 2 : 0;
    g.data[a] = there ? s.side : 1;
    g.result[a] = convolved_length(g.data[a], g.kernel[a], g.stride[a], g.padding[a]);
  }
  const auto tensor = [&](int64_t first, int64_t channels, const int64_t(&n)[3], int variant) {
    const Shape shape =
        last ? Shape{first, n[0], n[1], n[2], channels} : Shape{first, channels, n[0], n[1], n[2]};
    return sample_values(gpu(0), d, shape, -1, 1, variant);
  };
  layer.x = tensor(s.images, s.in, g.data, 0);
  layer.w = tensor(s.out, g.in, g.kernel, 1);
  layer.dy = tensor(s.images, s.out, g.result, 2);
  layer.b = sample_values(gpu(0), d, {s.out}, -1, 1, 3);
  return layer;
}

double microseconds(const cuda::Layer& layer, cuda::DnnKind kind, const std::string& way) {
  constexpr int kCalls = 20, kRounds = 5;
  const cuda::Way chosen(layer.form(kind), way);
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round <= kRounds; ++round) {
    const double start = seconds();
    Tensor y;
    for (int i = 0; i < kCalls; ++i) y = layer.compute(kind);
    y.wait_to_read();
    if (round > 0) least = std::min(least, 1e6 * (seconds() - start) / kCalls);
  }
  return least;
}

}  // namespace

void add_dnn() {
  if (!real_gpu() || cuda::dnn_version() == 0) return;
  constexpr const char* kKindNames[] = {"forward", "data gradient", "weight gradient"};
  for (const Shapes& s : {Shapes{"3x3 64x56x56", 32, 64, 56, 64, 3, 1, 1},
                          Shapes{"3x3 256x14x14", 32, 256, 14, 256, 3, 1, 1},
                          Shapes{"1x1 256x56x56 to 64", 32, 256, 56, 64, 1, 1, 1},
                          Shapes{"3x3/2 128x56x56", 32, 128, 56, 128, 3, 2, 1},
                          Shapes{"7x7/2 3x224x224 to 64", 32, 3, 224, 64, 7, 2, 1},
                          Shapes{"3x3 128x28x28 in 32 groups", 32, 128, 28, 128, 3, 1, 32},
                          Shapes{"3x3 16x32x32", 64, 16, 32, 16, 3, 1, 1}})
    for (const DType d : {f32, f16, bf16})
      for (const bool last : {false, true})
        for (const cuda::DnnKind kind : cuda::kKinds)
          add_timed(text_of("dnn/", name(d), last ? " NHWC " : " NCHW ", s.name, " ",
                            kKindNames[static_cast<int>(kind)]),
                    [=](benchmark::State& state) {
                      const cuda::Layer layer = make_layer(s, d, last);
                      double first = 0, best = 0;
                      for (const std::string& plan : cuda::plan_names(layer.form(kind), 8)) {
                        const double time = microseconds(layer, kind, plan);
                        if (first == 0) first = best = time;
                        best = std::min(best, time);
                      }
                      for (auto _ : state)
                        state.SetIterationTime(1e-6 * microseconds(layer, kind, "ours"));
                      state.counters["first"] = first;
                      state.counters["best"] = best;
                    });
}

#endif

}  // namespace locus::bench
