// Memory pools, the thread pool, copies, events.
#include <locus/core/device.h>
#include <locus/core/stream.h>
#include <locus/devices/cpu.h>
#include <locus/ops/create.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

void pool_pair(benchmark::State& state, Context c, size_t bytes) {
  MemoryPool& pool = memory_pool(c);
  const StreamView s = current_stream(c);
  for (auto _ : state) {
    void* p = pool.allocate(bytes, s);
    benchmark::DoNotOptimize(p);
    pool.deallocate(p, bytes, s);
  }
}

// Many live blocks of mixed sizes, freed in another order.
void pool_mixed(benchmark::State& state, Context c) {
  constexpr size_t kBlocks = 256;
  MemoryPool& pool = memory_pool(c);
  const StreamView s = current_stream(c);
  std::vector<std::pair<void*, size_t>> live(kBlocks, {nullptr, 0});
  uint32_t random = 1;
  for (auto _ : state) {
    random = random * 1664525u + 1013904223u;
    auto& [p, bytes] = live[(random >> 16) % kBlocks];
    if (p) pool.deallocate(p, bytes, s);
    bytes = size_t{64} << ((random >> 8) % 15);
    p = pool.allocate(bytes, s);
  }
  for (auto& [p, bytes] : live)
    if (p) pool.deallocate(p, bytes, s);
}

void fork_join(benchmark::State& state) {
  const int n = num_threads();
  for (auto _ : state)
    run_parallel(
        n, 1, [](void*, int64_t, int64_t) {}, nullptr);
  state.counters["threads"] = n;
}

void upload(benchmark::State& state, Context from, Context to, int64_t floats) {
  const Tensor x = zeros({floats}, from);
  Device& d = device(to);
  for (auto _ : state) {
    const Tensor y = x.copyto(to);
    d.synchronize({});
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * floats * 4);
}

void item(benchmark::State& state, Context c) {
  const Tensor x = full({1}, 3, c);
  for (auto _ : state) benchmark::DoNotOptimize(x.item<float>());
}

void event(benchmark::State& state, Context c) {
  Device& d = device(c);
  const StreamView s = current_stream(c);
  for (auto _ : state) {
    const EventView e = d.record(s);
    d.release(e);
  }
  d.synchronize(s);
}

}  // namespace

void add_runtime() {
  add("runtime/fork_join", fork_join);
  for (const Context c : contexts()) {
    const std::string where = "/" + to_string(c);
    for (const size_t bytes : {size_t{40}, size_t{1} << 20})
      add("runtime/pool_pair/" + std::to_string(bytes) + where,
          [=](benchmark::State& state) { pool_pair(state, c, bytes); });
    add("runtime/pool_mixed" + where, [=](benchmark::State& state) { pool_mixed(state, c); });
    add("runtime/item" + where, [=](benchmark::State& state) { item(state, c); });
    if (is_host(c)) continue;
    add("runtime/event" + where, [=](benchmark::State& state) { event(state, c); });
    for (const int64_t floats : {int64_t{1000}, int64_t{64} * 784, int64_t{1} << 24})
      for (const Context from : {cpu(0), cpu_pinned()})
        add("runtime/copy/" + to_string(from) + "/" + std::to_string(floats * 4) + where,
            [=](benchmark::State& state) { upload(state, from, c, floats); });
  }
}

}  // namespace locus::bench
