// Collectives of two contexts against NCCL's, and training on two GPUs against one.
#include <array>
#include <string>

#include <locus/core/parallel.h>
#include <locus/core/stream.h>
#include <locus/nn/train_step.h>
#include <locus/ops/collective.h>
#include <locus/ops/view.h>
#ifdef LOCUS_WITH_NCCL
#include <cuda_runtime_api.h>
#include <nccl.h>
#endif

#include "tests/bench/bench.h"
#include "tests/bench/training.h"

namespace locus::bench {
namespace {

// The time per call of `calls` in sequence, with a wait at the end.
auto in_a_row(int calls) {
  return [=](const auto& call) {
    return timed([&] {
             for (int i = 0; i < calls; ++i) call();
             wait_all();
           }) /
           calls;
  };
}

#ifdef LOCUS_WITH_NCCL
// Enqueues NCCL's collective on one GPU, with n floats.
void enqueue(const std::string& what, const float* in, float* out, size_t n, ncclComm_t c,
             cudaStream_t s) {
  const size_t half = n / 2;
  if (what == "all_reduce") ncclAllReduce(in, out, n, ncclFloat32, ncclSum, c, s);
  if (what == "broadcast") ncclBroadcast(in, out, n, ncclFloat32, 0, c, s);
  if (what == "all_gather") ncclAllGather(in, out, half, ncclFloat32, c, s);
  if (what == "reduce_scatter") ncclReduceScatter(in, out, half, ncclFloat32, ncclSum, c, s);
  for (int other = 0; what == "all_to_all" && other < 2; ++other) {
    const size_t at = half * static_cast<size_t>(other);
    ncclSend(in + at, half, ncclFloat32, other, c, s);
    ncclRecv(out + at, half, ncclFloat32, other, c, s);
  }
}
void nccl(const std::string& what, const Tensors& in, const Tensors& out) {
  static const auto* const connections = [] {
    auto* const made = new std::array<ncclComm_t, 2>;
    if (ncclCommInitAll(made->data(), 2, nullptr) != ncclSuccess) throw Error("NCCL");
    return made;
  }();
  ncclGroupStart();
  for (int i = 0; i < 2; ++i) {
    const auto k = static_cast<size_t>(i);
    cudaSetDevice(i);
    enqueue(what, static_cast<const float*>(in[k].data_ptr()),
            static_cast<float*>(out[k].data_ptr()), static_cast<size_t>(in[k].size()),
            (*connections)[k], static_cast<cudaStream_t>(current_stream(gpu(i)).native));
  }
  ncclGroupEnd();
}
bool has_nccl() { return real_gpu(); }
#else
void nccl(const std::string&, const Tensors&, const Tensors&) {}
bool has_nccl() { return false; }
#endif

// `bytes` of f32 on each of two GPUs.
void collective(benchmark::State& state, const std::string& what, int64_t bytes) {
  const Group g(gpus(2));
  const int64_t n = bytes / 4;
  const Tensors in{ones({n}, g[0]), ones({n}, g[1])}, out{zeros({n}, g[0]), zeros({n}, g[1])},
      halves{in[0](Slice(0, n / 2)), in[1](Slice(0, n / 2))};
  const auto ours = [&] {
    if (what == "all_reduce") all_reduce(g, in, {.out = out});
    if (what == "broadcast") broadcast(g, in[0]);
    if (what == "all_gather") all_gather(g, halves);
    if (what == "reduce_scatter") reduce_scatter(g, in);
    if (what == "all_to_all") all_to_all(g, in);
  };
  const auto raw = [&] {
    if (has_nccl()) nccl(what, in, out);
  };
  const auto time = in_a_row(bytes < (1 << 20) ? 200 : bytes < (64 << 20) ? 50 : 4);
  const Turns t = take_turns(state, 3, ours, raw, time);
  if (has_nccl()) state.counters["nccl_us"] = t.raw * 1e6;
}

// A training step on replicas, each with its own batch.
struct Replicas {
  Replicas(int n, nn::Sequential network, const Shape& images, int64_t classes,
           const nn::TrainerOptions& options)
      : where(gpus(n)), net(std::move(network)) {
    net.initialize(init::Xavier(), where);
    for (const Context c : where) {
      in.push_back(random::uniform(0, 1, images, c));
      net(in.back());
    }
    for (const Context c : where) in.push_back(random::randint(0, classes, {images[0]}, c));
    trainer.emplace(net.parameters(), optim::SGD({.learning_rate = 0.01, .momentum = 0.9}),
                    options);
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

  // The step with a thread per replica.
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

// The step on two GPUs and the step on one, alternating.
enum class How { eager, overlap, parallel, compiled, zero1, zero2 };
void scaling(benchmark::State& state, const auto& network, const Shape& images, How how) {
  const int zero = how == How::zero1 ? 1 : how == How::zero2 ? 2 : 0;
  Replicas one(1, network(), images, 10, {}),
      two(2, network(), images, 10, {.overlap = how == How::overlap, .zero = zero});
  nn::TrainStep first([&](const Tensors&x) { return one.step(x); }, *one.trainer),
      both([&](const Tensors&x) { return two.step(x); }, *two.trainer);
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
  const Turns t = take_turns(state, 3, ours, alone, in_a_row(20));
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
              [=](benchmark::State& state) { collective(state, "all_reduce", kib << 10); });
  for (const std::string what : {"broadcast", "all_gather", "reduce_scatter", "all_to_all"})
    for (const int64_t kib : {64, 4 << 10, 256 << 10})
      add_timed("collective/" + what + "/" + name(kib << 10),
                [=](benchmark::State& state) { collective(state, what, kib << 10); });
  const auto add = [](const std::string& name_of, const auto& network, const Shape& images,
                      How how) {
    add_timed("collective/" + name_of,
              [=](benchmark::State& state) { scaling(state, network, images, how); });
  };
  const auto wide = [] { return training::mlp({2048, 2048}); };
  for (const auto& [how, name_of] : {std::pair{How::eager, "/eager"},
                                     {How::overlap, "/overlap"},
                                     {How::parallel, "/parallel"},
                                     {How::compiled, "/compiled"}}) {
    add(
        std::string("mlp/256") + name_of,
        [] {
          return training::mlp({256, 128});
        },
        {256, 784}, how);
    add(std::string("wide_mlp/4096") + name_of, wide, {4096, 784}, how);
    add(
        std::string("lenet/1024") + name_of, [] { return training::lenet(); }, {1024, 1, 28, 28},
        how);
  }
  add("wide_mlp/4096/zero1", wide, {4096, 784}, How::zero1);
  add("wide_mlp/4096/zero2", wide, {4096, 784}, How::zero2);
}

}  // namespace locus::bench
