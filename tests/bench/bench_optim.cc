// Updates of ResNet-18's 62 tensors, 11.7 M parameters, in one launch: bandwidth over the bytes
// that must move, to be set beside a copy's.
#include <locus/core/device.h>
#include <locus/nn/clip.h>
#include <locus/ops/create.h>
#include <locus/ops/optim.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

std::vector<Shape> resnet18() {
  std::vector<Shape> shapes{{64, 3, 7, 7}, {64}, {64}};
  const auto convolution = [&](int64_t out, int64_t in, int64_t kernel) {
    shapes.insert(shapes.end(), {Shape{out, in, kernel, kernel}, Shape{out}, Shape{out}});
  };
  for (int64_t out = 64, in = 64; out <= 512; in = out, out *= 2) {
    convolution(out, in, 3);
    for (int i = 0; i < 3; ++i) convolution(out, out, 3);
    if (out != in) convolution(out, in, 1);
  }
  shapes.insert(shapes.end(), {Shape{1000, 512}, Shape{1000}});
  return shapes;
}

struct Tensors62 {
  Tensors weights, grads;
  std::vector<Tensors> states;

  Tensors62(Context c, DType d, bool master) : states(master ? 3 : 2) {
    for (const Shape& s : resnet18()) {
      weights.push_back(sample_values(c, d, s));
      grads.push_back(sample_values(c, d, s));
      for (size_t k = 0; k < states.size(); ++k)
        states[k].push_back(k == 2 ? weights.back().astype(f32) : zeros(s, {c, master ? f32 : d}));
    }
  }
  int64_t parameters() const {
    int64_t n = 0;
    for (const Tensor& w : weights) n += w.size();
    return n;
  }
};

// `bytes`: read and written of each parameter.
void measure(const std::string& name, Context c, DType d, bool master, int64_t bytes, auto f) {
  add("optim_" + name + "/" + to_string(c), [=](benchmark::State& state) {
    const Tensors62 t(c, d, master);
    f(t);
    wait_all();
    constexpr int kBatch = 20;  // calls between two synchronisations
    for (auto _ : state) {
      for (int i = 0; i < kBatch; ++i) f(t);
      wait_all();
    }
    const double calls = static_cast<double>(state.iterations()) * kBatch;
    state.SetBytesProcessed(static_cast<int64_t>(calls) * bytes * t.parameters());
    state.counters["us"] =
        benchmark::Counter(calls * 1e-6, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  });
}

}  // namespace

void add_optim() {
  const auto adam = [](const Tensors62& t) { adam_update(t.weights, t.grads, t.states, {}); };
  for (Context c : contexts()) {
    measure("sgd_mom_f32", c, f32, false, 20, [](const Tensors62& t) {
      sgd_mom_update(t.weights, t.grads, {t.states[0]}, {.momentum = .9});
    });
    measure("adam_f32", c, f32, false, 28, adam);
    measure("adam_bf16", c, bf16, false, 14, adam);
    measure("adam_bf16_masters", c, bf16, true, 30, adam);
    measure("lamb_f32", c, f32, false, 40,
            [](const Tensors62& t) { lamb_update(t.weights, t.grads, t.states, {}); });
    measure("clip_global_norm_f32", c, f32, false, 12,
            [](const Tensors62& t) { clip_global_norm(t.grads, 1); });
  }
}

}  // namespace locus::bench
