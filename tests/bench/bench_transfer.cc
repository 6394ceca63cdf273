// Copies between contexts, against the CUDA runtime alone. `ratio` is ours over raw: bandwidth of
// large copies, the host's time of small copies.
#include <cstdio>

#include <locus/core/device.h>
#include <locus/core/stream.h>
#include <locus/ops/create.h>

#include "tests/bench/bench.h"

#ifdef LOCUS_WITH_CUDA
#include <cuda_runtime_api.h>

#include <locus/devices/cuda/check.h>
#endif

namespace locus::bench {
namespace {

#ifdef LOCUS_WITH_CUDA

constexpr size_t kLarge = size_t{256} << 20;
constexpr size_t kPeer = size_t{1} << 30;
constexpr size_t kSmall = 4096;
constexpr int kBatch = 200;  // issued between two waits, which are not timed

void* pointer(const Tensor& x) { return x.data_ptr(); }
Tensor bytes_on(Context c, size_t n) { return zeros({static_cast<int64_t>(n)}, {c, u8}); }

void wait(std::initializer_list<Context> contexts) {
  for (const Context c : contexts) device(c).synchronize({});
}

// A stream outside Locus on gpu(index).
class RawStream {
 public:
  explicit RawStream(int index) {
    LOCUS_CUDA(cudaSetDevice(index));
    LOCUS_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    LOCUS_CUDA(cudaSetDevice(0));
  }
  ~RawStream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  RawStream(const RawStream&) = delete;
  RawStream& operator=(const RawStream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// ours() and raw() move `bytes` and wait.
template <class Ours, class Raw>
void bandwidth(benchmark::State& state, size_t bytes, const Ours& ours, const Raw& raw) {
  const Turns t = take_turns(state, 2, ours, raw);
  const double gigabytes = static_cast<double>(bytes) * 1e-9;
  state.counters["GB/s"] = gigabytes / t.ours;
  state.counters["raw_GB/s"] = gigabytes / t.raw;
  state.counters["ratio"] = t.raw / t.ours;
}

void large_up(benchmark::State& state, Context from) {
  const Tensor h = bytes_on(from, kLarge), d = bytes_on(gpu(0), kLarge);
  const RawStream s(0);
  bandwidth(
      state, kLarge,
      [&] {
        h.copyto(d);
        wait({gpu(0)});
      },
      [&] {
        LOCUS_CUDA(cudaMemcpyAsync(pointer(d), pointer(h), kLarge, cudaMemcpyHostToDevice, s));
        LOCUS_CUDA(cudaStreamSynchronize(s));
      });
}

void large_down(benchmark::State& state, Context to) {
  const Tensor h = bytes_on(to, kLarge), d = bytes_on(gpu(0), kLarge);
  const RawStream s(0);
  bandwidth(
      state, kLarge, [&] { d.copyto(h); },
      [&] {
        LOCUS_CUDA(cudaMemcpyAsync(pointer(h), pointer(d), kLarge, cudaMemcpyDeviceToHost, s));
        LOCUS_CUDA(cudaStreamSynchronize(s));
      });
}

void small_up(benchmark::State& state, Context from) {
  const Tensor h = bytes_on(from, kSmall), d = bytes_on(gpu(0), kSmall);
  const CopyOptions options{.blocking = from.type == DeviceType::cpu};
  const RawStream s(0);
  issue(
      state, kBatch, [&] { const Tensor there = h.copyto(gpu(0), options); },
      [&] {
        LOCUS_CUDA(cudaMemcpyAsync(pointer(d), pointer(h), kSmall, cudaMemcpyHostToDevice, s));
      },
      [&] {
        wait({gpu(0)});
        LOCUS_CUDA(cudaStreamSynchronize(s));
      });
}

void peer_one_way(benchmark::State& state) {
  const Tensor a = bytes_on(gpu(0), kPeer), b = bytes_on(gpu(1), kPeer);
  const RawStream s(1);
  bandwidth(
      state, kPeer,
      [&] {
        a.copyto(b);
        wait({gpu(1)});
      },
      [&] {
        LOCUS_CUDA(cudaMemcpyPeerAsync(pointer(b), 1, pointer(a), 0, kPeer, s));
        LOCUS_CUDA(cudaStreamSynchronize(s));
      });
}

void peer_both_ways(benchmark::State& state) {
  const Tensor a = bytes_on(gpu(0), kPeer), b = bytes_on(gpu(1), kPeer);
  const Tensor into_a = bytes_on(gpu(0), kPeer), into_b = bytes_on(gpu(1), kPeer);
  wait({gpu(0), gpu(1)});
  const RawStream s0(0), s1(1);
  bandwidth(
      state, 2 * kPeer,
      [&] {
        a.copyto(into_b);
        b.copyto(into_a);
        wait({gpu(0), gpu(1)});
      },
      [&] {
        LOCUS_CUDA(cudaMemcpyPeerAsync(pointer(into_b), 1, pointer(a), 0, kPeer, s1));
        LOCUS_CUDA(cudaMemcpyPeerAsync(pointer(into_a), 0, pointer(b), 1, kPeer, s0));
        LOCUS_CUDA(cudaStreamSynchronize(s0));
        LOCUS_CUDA(cudaStreamSynchronize(s1));
      });
}

void small_peer(benchmark::State& state, bool into) {
  const Tensor a = bytes_on(gpu(0), kSmall), b = bytes_on(gpu(1), kSmall);
  const RawStream s(1);
  const auto raw = [&] {
    LOCUS_CUDA(cudaMemcpyPeerAsync(pointer(b), 1, pointer(a), 0, kSmall, s));
  };
  const auto drain = [&] {
    wait({gpu(0), gpu(1)});
    LOCUS_CUDA(cudaStreamSynchronize(s));
  };
  if (into) {
    issue(
        state, kBatch, [&] { a.copyto(b); }, raw, drain);
  } else {
    issue(
        state, kBatch, [&] { const Tensor there = a.copyto(gpu(1)); }, raw, drain);
  }
}

#endif  // LOCUS_WITH_CUDA

}  // namespace

void add_transfer() {
#ifdef LOCUS_WITH_CUDA
  if (real_gpu()) {
    for (const Context c : {cpu_pinned(), cpu(0)}) {
      const std::string name = c.type == DeviceType::cpu ? "pageable" : "pinned";
      add_timed("transfer/256MiB_up/" + name, [c](benchmark::State& state) { large_up(state, c); });
      add_timed("transfer/256MiB_down/" + name,
                [c](benchmark::State& state) { large_down(state, c); });
      add_timed("transfer/4KiB_up_issue/" + name,
                [c](benchmark::State& state) { small_up(state, c); });
    }
    if (num_gpus() < 2) {
      std::fprintf(stderr, "transfer/peer: needs two GPUs; left out\n");
      return;
    }
    add_timed("transfer/peer_1GiB_one_way", peer_one_way);
    add_timed("transfer/peer_1GiB_both_ways", peer_both_ways);
    add_timed("transfer/peer_4KiB_issue",
              [](benchmark::State& state) { small_peer(state, false); });
    add_timed("transfer/peer_4KiB_issue_into",
              [](benchmark::State& state) { small_peer(state, true); });
    return;
  }
#endif
  std::fprintf(stderr, "transfer: needs an NVIDIA GPU and a CUDA build; left out\n");
}

}  // namespace locus::bench
