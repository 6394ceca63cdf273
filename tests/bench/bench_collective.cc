// Sums over two contexts beside NCCL's, and training on two GPUs beside one.
#include <locus/core/parallel.h>
#include <locus/nn/train_step.h>
#include <locus/ops/collective.h>
#ifdef LOCUS_WITH_CUDA
#include <locus/core/storage.h>
#include <locus/core/stream.h>
#include <locus/devices/cuda_nccl.h>
#endif

#include "tests/bench/bench.h"
#include "tests/bench/training.h"

namespace locus::bench {
namespace {

// Of `bytes` of f32, one after the other with a wait behind them.
void sums(benchmark::State& state, int64_t bytes) {
  const Group g(gpus(2));
  const int64_t n = bytes / 4;
  const Tensors in{ones({n}, g[0]), ones({n}, g[1])}, out{zeros({n}, g[0]), zeros({n}, g[1])};
  const int calls = bytes < (1 << 20) ? 200 : bytes < (64 << 20) ? 50 : 4;
  const auto time = [&](const auto& call) {
    return timed([&] {
             for (int i = 0; i < calls; ++i) call();
             wait_all();
           }) /
           calls;
  };
  const auto ours = [&] { all_reduce(g, in, {.out = out}); };
  auto raw = [] {};
#ifdef LOCUS_WITH_CUDA
  const auto nccl = [&] {
    const View from[] = {in[0].impl().view, in[1].impl().view},
               to[] = {out[0].impl().view, out[1].impl().view};
    const StreamView streams[] = {current_stream(g[0]), current_stream(g[1])};
    cuda::nccl_all_reduce(g, from, to, ReduceOp::sum, streams);
  };
  const bool beside = real_gpu() && cuda::nccl_version() > 0;
#else
  const auto nccl = raw;
  const bool beside = false;
#endif
  const Turns t =
      beside ? take_turns(state, 3, ours, nccl, time) : take_turns(state, 3, ours, raw, time);
  state.counters["us"] = t.ours * 1e6;
  if (beside) state.counters["nccl_us"] = t.raw * 1e6;
}

// A step of a network on replicas, each with its own batch.
struct Replicas {
  Replicas(int n, nn::Sequential network, const Shape& images, int64_t classes, bool overlap)
      : where(gpus(n)), net(std::move(network)) {
    net.initialize(init::Xavier(), where);
    for (const Context c : where) {
      in.push_back(random::uniform(0, 1, images, c));
      net(in.back());
    }
    for (const Context c : where) in.push_back(random::randint(0, classes, {images[0]}, c));
    trainer.emplace(net.parameters(), optim::SGD({.learning_rate = 0.01, .momentum = 0.9}),
                    nn::TrainerOptions{.overlap = overlap});
  }
  Tensor step(const Tensors& x) {
    const size_t n = where.size();
    Tensors losses;
    {
      const autograd::Record record;
      for (size_t i = 0; i < n; ++i) losses.push_back(loss_fn(net(x[i]), x[n + i]));
    }
    for (const Tensor& l : losses) l.backward();
    trainer->step(static_cast<int64_t>(n) * x[0].shape()[0]);
    return losses[0];
  }

  // The same, each replica's work by its own thread.
  void parallel_step() {
    const size_t n = where.size();
    parallel(where, [&](int k) {
      const auto i = static_cast<size_t>(k);
      Tensor l;
      {
        const autograd::Record record;
        l = loss_fn(net(in[i]), in[n + i]);
      }
      l.backward();
    });
    trainer->step(static_cast<int64_t>(n) * in[0].shape()[0]);
  }

  std::vector<Context> where;
  nn::Sequential net;
  Tensors in;
  nn::SoftmaxCrossEntropyLoss loss_fn;
  std::optional<nn::Trainer> trainer;
};

// The step on two GPUs beside the step on one, by turns.
enum class How { eager, overlap, parallel, compiled };
void scaling(benchmark::State& state, const auto& network, const Shape& images, How how) {
  Replicas one(1, network(), images, 10, false), two(2, network(), images, 10, how == How::overlap);
  nn::TrainStep first([&](const Tensors&x) { return one.step(x); }, *one.trainer),
      both([&](const Tensors&x) { return two.step(x); }, *two.trainer);
  constexpr int kSteps = 50;
  const auto time = [&](const auto& step) {
    return timed([&] {
             for (int i = 0; i < kSteps; ++i) step();
             wait_all();
           }) /
           kSteps;
  };
  const auto ours = [&] {
    if (how == How::compiled)
      both(two.in);
    else if (how == How::parallel)
      two.parallel_step();
    else
      two.step(two.in);
  };
  const auto alone = [&] {
    if (how == How::compiled)
      first(one.in);
    else
      one.step(one.in);
  };
  const Turns t = take_turns(state, 3, ours, alone, time);
  state.counters["us"] = t.ours * 1e6;
  state.counters["one_us"] = t.raw * 1e6;
  state.counters["ratio"] = t.ours / t.raw;
}

}  // namespace

void add_collective() {
  if (num_gpus() < 2) return;
  const auto name = [](int64_t bytes) {
    return bytes < (1 << 20) ? std::to_string(bytes >> 10) + "KiB"
                             : std::to_string(bytes >> 20) + "MiB";
  };
  for (const int64_t kib : {4, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10})
    add_timed("collective/all_reduce/" + name(kib << 10),
              [=](benchmark::State& state) { sums(state, kib << 10); });
  for (const auto& [name_of, how] : {std::pair{"/eager", How::eager},
                                     {"/overlap", How::overlap},
                                     {"/parallel", How::parallel},
                                     {"/compiled", How::compiled}}) {
    add_timed(std::string("collective/mlp/256") + name_of, [how = how](benchmark::State& state) {
      scaling(
          state,
          [] {
            return training::mlp({256, 128});
          },
          {256, 784}, how);
    });
    add_timed(std::string("collective/wide_mlp/4096") + name_of,
              [how = how](benchmark::State& state) {
                scaling(
                    state,
                    [] {
                      return training::mlp({2048, 2048});
                    },
                    {4096, 784}, how);
              });
    add_timed(std::string("collective/lenet/1024") + name_of, [how = how](benchmark::State& state) {
      scaling(
          state, [] { return training::lenet(); }, {1024, 1, 28, 28}, how);
    });
  }
}

}  // namespace locus::bench
