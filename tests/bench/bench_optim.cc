// Updates of ResNet-18's 62 tensors, 11.7 M parameters, in one launch: bandwidth, against one copy
// of as many bytes.
#include <locus/nn/clip.h>
#include <locus/ops/create.h>
#include <locus/ops/optim.h>

#include "tests/bench/bench.h"
#include "training/models.h"

namespace locus::bench {
namespace {

std::vector<Shape> resnet18() {
  nn::Sequential net = training::resnet18();
  net.initialize();
  net(zeros({1, 3, 32, 32}));
  std::vector<Shape> shapes;
  for (const Tensor& g : nn::gradients(net)) shapes.push_back(g.shape());
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

// `bytes`: read and written per parameter.
void measure(const std::string& name, Context c, DType d, bool master, int64_t bytes, auto f) {
  add_timed("optim_" + name + "/" + to_string(c), [=](benchmark::State& state) {
    const Tensors62 t(c, d, master);
    const int64_t all = bytes * t.parameters();
    const Tensor from = zeros({all / 2}, {c, u8}), to = zeros({all / 2}, {c, u8});
    const auto time = [](const auto& call) {
      constexpr int kCalls = 20;  // between two waits
      return timed([&] {
               for (int i = 0; i < kCalls; ++i) call();
               wait_all();
             }) /
             kCalls;
    };
    const Turns turns = take_turns(
        state, 2, [&] { f(t); }, [&] { from.copyto(to); }, time);
    state.counters["GB/s"] = 1e-9 * static_cast<double>(all) / turns.ours;
    state.counters["copy_GB/s"] = 1e-9 * static_cast<double>(all) / turns.raw;
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
