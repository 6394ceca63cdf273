// Our convolutions against cuDNN's plans; dnn_convolution_wins()
// (ops/convolution/convolution_ways.h) is based on these times. Time: ours, in device microseconds.
// `first_us`: the plan that cuDNN ranks first. `best_us`: the fastest of up to eight. 0: no plan.
#include <algorithm>
#include <limits>

#include <locus/core/base/text.h>
#include <locus/core/capture.h>
#include <locus/core/error.h>
#include <locus/ops/create.h>
#include <locus/ops/matmul.h>

#include "tests/bench/bench.h"

#ifdef LOCUS_WITH_CUDA
#include "tests/devices/cuda_dnn.h"
#endif

namespace locus::bench {

#ifndef LOCUS_WITH_CUDA
void add_dnn() {}
#else

namespace {

struct Shapes {
  std::string name;
  int64_t images, in, side, out, kernel, stride, padding;
  int64_t groups = 1;
  bool bias = false;
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
    g.padding[a] = there ? s.padding : 0;
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
  if (s.bias) layer.b = sample_values(gpu(0), d, {s.out}, -1, 1, 3);
  return layer;
}

// Replays the calls, which leaves out the host's time.
double microseconds(const cuda::Layer& layer, cuda::DnnKind kind, const std::string& way) {
  constexpr int kRounds = 4;
  constexpr double kRound = 1e-3;  // seconds
  const cuda::Way chosen(layer.form(kind), way);
  const auto once = [&] { return timed([&] { layer.compute(kind).wait_to_read(); }); };
  once();
  const int calls = std::clamp(static_cast<int>(kRound / once()), 2, 32);
  Capture capture(gpu(0));
  Tensor y;
  for (int i = 0; i < calls; ++i) y = layer.compute(kind);
  Graph graph = capture.end();
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round <= kRounds; ++round) {
    const double time = timed([&] {
      graph.replay();
      y.wait_to_read();
    });
    if (round > 0) least = std::min(least, 1e6 * time / calls);
  }
  return least;
}

void measure(benchmark::State& state, const cuda::Layer& layer, cuda::DnnKind kind) {
  constexpr size_t kMostPlans = 8;
  constexpr double kMost = 0.15;  // seconds, for the plans
  const double start = seconds();
  double first = 0, best = 0;
  for (size_t n = 1; n <= kMostPlans && seconds() - start < kMost; ++n) {
    const cuda::Names plans = cuda::plan_names(layer.form(kind), n);
    if (plans.size() < n) break;
    try {
      const double time = microseconds(layer, kind, plans.back());
      if (n == 1) first = time;
      best = best == 0 ? time : std::min(best, time);
    } catch (const Error& e) {
      state.SetLabel(text_of(plans.back(), ": ", e.what()));
    }
  }
  for (auto _ : state) state.SetIterationTime(1e-6 * microseconds(layer, kind, "ours"));
  state.counters["first_us"] = first;
  state.counters["best_us"] = best;
}

void add_layer(const Shapes& s, DType d, bool tf32, bool last) {
  constexpr const char* kKindNames[] = {"forward", "data gradient", "weight gradient"};
  for (const cuda::DnnKind kind : cuda::kKinds)
    add_timed(text_of("dnn/", s.name, ", ", s.images, " ", tf32 ? "tf32" : name(d),
                      last ? " NHWC " : " ", kKindNames[static_cast<int>(kind)]),
              [=](benchmark::State& state) {
                set_matmul_precision(tf32 ? Precision::tf32 : Precision::f32);
                measure(state, make_layer(s, d, last), kind);
                set_matmul_precision(Precision::f32);
              });
}

// torchvision's, on images of 32x32.
void add_resnet18() {
  for (const int64_t images : {64, 256}) {
    const auto add_all = [&](const Shapes& s) {
      add_layer(s, f32, false, false);
      add_layer(s, f32, true, false);
      add_layer(s, bf16, false, false);
    };
    add_all({"resnet18 7x7/2 3x32x32 to 64", images, 3, 32, 64, 7, 2, 3});
    int64_t in = 64, side = 8;
    for (const int64_t out : {64, 128, 256, 512}) {
      if (out > in) {
        const std::string from = text_of(in, "x", side, "x", side, " to ", out);
        add_all({"resnet18 3x3/2 " + from, images, in, side, out, 3, 2, 1});
        add_all({"resnet18 1x1/2 " + from, images, in, side, out, 1, 2, 0});
        side /= 2;
      }
      add_all(
          {text_of("resnet18 3x3 ", out, "x", side, "x", side), images, out, side, out, 3, 1, 1});
      in = out;
    }
  }
}

}  // namespace

void add_dnn() {
  if (!real_gpu() || cuda::dnn_version() == 0) return;
  add_resnet18();
  for (const int64_t images : {64, 1024}) {
    add_layer({"lenet 5x5 1x28x28 to 20", images, 1, 28, 20, 5, 1, 0, 1, true}, f32, false, false);
    add_layer({"lenet 5x5 20x12x12 to 50", images, 20, 12, 50, 5, 1, 0, 1, true}, f32, false,
              false);
  }
  for (const Shapes& s : {Shapes{"3x3 64x56x56", 32, 64, 56, 64, 3, 1, 1, 1, true},
                          Shapes{"3x3 256x14x14", 32, 256, 14, 256, 3, 1, 1, 1, true},
                          Shapes{"1x1 256x56x56 to 64", 32, 256, 56, 64, 1, 1, 0, 1, true},
                          Shapes{"3x3/2 128x56x56", 32, 128, 56, 128, 3, 2, 1, 1, true},
                          Shapes{"7x7/2 3x224x224 to 64", 32, 3, 224, 64, 7, 2, 3, 1, true},
                          Shapes{"3x3 128x28x28 in 32 groups", 32, 128, 28, 128, 3, 1, 1, 32, true},
                          Shapes{"3x3 16x32x32", 64, 16, 32, 16, 3, 1, 1, 1, true}})
    for (const DType d : {f32, f16, bf16})
      for (const bool last : {false, true}) add_layer(s, d, false, last);
}

#endif

}  // namespace locus::bench
