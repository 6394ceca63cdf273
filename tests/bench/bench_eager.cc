// The overhead of one eager op: add of 10 floats, against its kernel function with a prepared Call
// and, on a GPU, against a bare launch.
#include <locus/core/autograd.h>
#include <locus/core/device.h>
#include <locus/core/memory/storage.h>
#include <locus/core/op.h>
#include <locus/core/stream.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

constexpr int kFloats = 10;
constexpr int kBatch = 1000;  // calls between two synchronisations, which are not timed

struct Operands {
  explicit Operands(Context c) : a(full({kFloats}, 1, c)), b(full({kFloats}, 2, c)), out(a + b) {}
  Tensor a, b, out;
};

// The Call that invoke() makes for a + b.
struct Prepared {
  explicit Prepared(const Operands& x)
      : in{x.a.impl().view, x.b.impl().view}, out(x.out.impl().view) {
    const Context c = x.a.context();
    kernel = get_op("add").kernel(device(c).kernels(), f32);
    call = {in, &out, 2, 1, &attrs, sizeof attrs, current_stream(c)};
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  View in[2], out;
  BinaryAttrs attrs;
  Kernel kernel;
  Call call;
};

void eager_cpu(benchmark::State& state) {
  const Operands x(cpu(0));
  for (auto _ : state) {
    const Tensor y = x.a + x.b;
    benchmark::DoNotOptimize(y.data_ptr());
  }
}

void eager_cpu_recorded(benchmark::State& state) {
  const Operands x(cpu(0));
  x.a.attach_grad();
  for (auto _ : state) {
    const autograd::Record record;
    const Tensor y = x.a + x.b;
    benchmark::DoNotOptimize(y.data_ptr());
  }
}

void kernel_cpu(benchmark::State& state) {
  const Operands x(cpu(0));
  const Prepared p(x);
  for (auto _ : state) {
    p.kernel(p.call);
    benchmark::ClobberMemory();
  }
}

// Times the eager op per call, and other() as raw_us.
template <class F>
void beside_eager(benchmark::State& state, const Operands& x, const F& other) {
  const Context c = x.a.context();
  issue(
      state, kBatch, [&] { const Tensor y = x.a + x.b; }, other,
      [c] { device(c).synchronize({}); });
}

void eager_over_kernel(benchmark::State& state, Context c) {
  const Operands x(c);
  const Prepared p(x);
  beside_eager(state, x, [&] { p.kernel(p.call); });
}

#ifdef LOCUS_WITH_CUDA
void eager_over_launch(benchmark::State& state) {
  const Operands x(gpu(0));
  const StreamView s = current_stream(gpu(0));
  const auto* a = static_cast<const float*>(x.a.data_ptr());
  const auto* b = static_cast<const float*>(x.b.data_ptr());
  auto* out = static_cast<float*>(x.out.data_ptr());
  beside_eager(state, x, [=] { bare_add(a, b, out, kFloats, s.native); });
}

void device_launch_over_kernel(benchmark::State& state) {
  const Operands x(gpu(0));
  const Prepared p(x);
  Device& d = device(gpu(0));
  issue(
      state, kBatch, [&] { d.launch(p.kernel, p.call, "add"); }, [&] { p.kernel(p.call); },
      [&] { d.synchronize({}); });
}
#endif

}  // namespace

void add_eager() {
  add("eager/add10/cpu(0)", eager_cpu);
  add("eager/add10_recorded/cpu(0)", eager_cpu_recorded);
  add("eager/add10_kernel/cpu(0)", kernel_cpu);
  for (const Context c : contexts())
    add_timed("eager/add10_over_kernel/" + to_string(c),
              [c](benchmark::State& state) { eager_over_kernel(state, c); });
#ifdef LOCUS_WITH_CUDA
  if (!real_gpu()) return;
  add_timed("eager/add10_over_launch/gpu(0)", eager_over_launch);
  add_timed("eager/device_launch_over_kernel/gpu(0)", device_launch_over_kernel);
#endif
}

}  // namespace locus::bench
