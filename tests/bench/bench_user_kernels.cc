// Kernels from source text: the first use of code that is in the kernel cache, a call beside a bare
// launch (on the host beside add), x * y + z beside a copy of the same bytes, and reductions beside
// the built-in ones.
#include <spawn.h>
#include <sys/wait.h>

#include <functional>
#include <stdexcept>
#include <string>

#include <locus/core/stream.h>
#include <locus/core/tensor.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/kernels.h>
#include <locus/ops/reduction_kernels.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

constexpr int kFirstUses = 15;

// Kernels that differ in a number. Each is used once in a process.
ElementwiseKernel first_used(int k) {
  return ElementwiseKernel("T x", "T y", "y = x + " + std::to_string(k) + ";", "first_used");
}
std::string fill_name(Context c) { return "user_kernels/fill_cache/" + to_string(c); }

void fill_cache(benchmark::State& state, Context c) {
  for (auto _ : state) {
    const double start = seconds();
    for (int k = 0; k < kFirstUses; ++k) first_used(k)(ones({10}, c));
    wait_all();
    state.SetIterationTime(seconds() - start);
  }
}

// Another process fills the cache, then the kernels are used here.
void first_use(benchmark::State& state, Context c) {
  std::string program = "/proc/self/exe",
              filter = "--benchmark_filter=" + fill_name(c).substr(0, fill_name(c).find('('));
  char* arguments[] = {program.data(), filter.data(), nullptr};
  pid_t child = 0;
  int status = 0;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0);
  if (posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ) != 0 ||
      waitpid(child, &status, 0) != child || status != 0)
    throw std::runtime_error("the process that fills the cache failed");
  posix_spawn_file_actions_destroy(&actions);
  const Tensor x = ones({10}, c);
  const ElementwiseKernel warm("T x", "T y", "y = x;", "warm");
  warm(x);
  wait_all();
  std::vector<double> times;
  for (int k = 0; k < kFirstUses; ++k)
    times.push_back(timed([&] {
      first_used(k)(x);
      wait_all();
    }));
  for (auto _ : state) state.SetIterationTime(median(times));
  state.counters["most_us"] = *std::max_element(times.begin(), times.end()) * 1e6;
}

void call(benchmark::State& state, Context c) {
  const ElementwiseKernel add("T x, T y", "T z", "z = x + y;", "add_two");
  const Tensor x = ones({10}, c), y = ones({10}, c), z = add(x, y);
  const auto drain = [c] { device(c).synchronize({}); };
#ifdef LOCUS_WITH_CUDA
  if (c.type == DeviceType::gpu && real_gpu()) {
    const auto data = [](const Tensor& t) { return static_cast<float*>(t.data_ptr()); };
    void* const stream = current_stream(c).native;
    return issue(
        state, 1000, [&] { add(x, y); }, [&] { bare_add(data(x), data(y), data(z), 10, stream); },
        drain);
  }
#endif
  issue(
      state, 1000, [&] { add(x, y); }, [&] { x + y; }, drain);
}

double mean_of_five(const std::function<void()>& f) {
  f();
  wait_all();
  return timed([&] {
           for (int i = 0; i < 5; ++i) f();
           wait_all();
         }) /
         5;
}

void multiply_add(benchmark::State& state, Context c, int64_t n) {
  const ElementwiseKernel k("T x, T y, T z", "T w", "w = x * y + z;", "multiply_add");
  const Tensor x = ones({n}, c), y = ones({n}, c), z = ones({n}, c), w = zeros({n}, c);
  const Tensor from = ones({2 * n}, c), to = zeros({2 * n}, c);
  const Turns t = take_turns(
      state, 3,
      [&] {
        k.into({x, y, z}, {w});
      },
      [&] { from.copyto(to); }, mean_of_five);
  state.counters["copy_us"] = t.raw * 1e6;
  state.counters["ratio"] = t.ours / t.raw;
}

// A sum of all elements, or the norms of rows, beside the built-in reduction. A copy reads and
// writes as many bytes as the sum reads.
void reduction(benchmark::State& state, Context c, const Shape& shape, bool norms) {
  const ReductionKernel total("T x", "T y", "x", "a + b", "y = a", "0", "total");
  const ReductionKernel l2("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm");
  const Tensor x = ones(shape, c), from = ones({shape.size() / 2}, c), to = zeros_like(from);
  const Turns t = take_turns(
      state, 3,
      [&] {
        if (norms)
          l2(x, {.axis = 1});
        else
          total(x);
      },
      [&] {
        if (norms)
          norm(x, {.axis = 1});
        else
          sum(x);
      },
      mean_of_five);
  state.counters["built_in_us"] = t.raw * 1e6;
  state.counters["copy_us"] = mean_of_five([&] { from.copyto(to); }) * 1e6;
  state.counters["ratio"] = t.ours / t.raw;
}

}  // namespace

void add_kernels() {
  for (Context c : contexts()) {
    const std::string at = "/" + to_string(c);
    const int64_t n = c.type == DeviceType::gpu && real_gpu() ? 100'000'000 : 10'000'000;
    add_timed("user_kernels/first_use" + at, [c](benchmark::State& s) { first_use(s, c); });
    add_timed(fill_name(c), [c](benchmark::State& s) { fill_cache(s, c); });
    add_timed("user_kernels/call" + at, [c](benchmark::State& s) { call(s, c); });
    add_timed("user_kernels/xy+z/" + std::to_string(n) + at,
              [c, n](benchmark::State& s) { multiply_add(s, c, n); });
    add_timed("user_kernels/sum/" + std::to_string(n) + at,
              [c, n](benchmark::State& s) { reduction(s, c, {n}, false); });
    add_timed("user_kernels/norms/" + std::to_string(n / 1000) + "x1000" + at,
              [c, n](benchmark::State& s) {
                reduction(s, c, {n / 1000, 1000}, true);
              });
  }
}

}  // namespace locus::bench
