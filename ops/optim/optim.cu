// One launch updates many tensors: their pointers travel as a parameter of the kernel, and each
// block finds its tensor by the number of blocks before it.
#include <locus/devices/cuda.h>
#include <locus/ops/optim/optim_kernel.h>
#include <locus/ops/reduce/reduce_kernel.h>

namespace locus::cuda {
namespace {

using reduction::ComputeType;
using reduction::convert;

constexpr int kMaxTensors = 64, kThreads = 256, kEach = 4;
constexpr int64_t kChunk = kThreads * kEach;  // elements of a block

template <class T>
struct Tensors {
  T* weight[kMaxTensors];
  const T* grad[kMaxTensors];
  T* momentum[kMaxTensors];
  int64_t size[kMaxTensors];
  int first_block[kMaxTensors + 1];
  int n;
};

template <class T, bool kMomentum>
__global__ void __launch_bounds__(kThreads)
    sgd_kernel(const __grid_constant__ Tensors<T> t, const SGDRule<ComputeType<T>> rule) {
  using A = ComputeType<T>;
  int low = 0, high = t.n;  // first_block[low] <= blockIdx.x < first_block[high]
  const int block = static_cast<int>(blockIdx.x);
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (t.first_block[middle] <= block)
      low = middle;
    else
      high = middle;
  }
  T* w = t.weight[low];
  const T* g = t.grad[low];
  T* m = kMomentum ? t.momentum[low] : nullptr;
  const int64_t size = t.size[low];
  const int64_t begin = (block - t.first_block[low]) * kChunk + threadIdx.x;
  A ws[kEach], gs[kEach], ms[kEach];
#pragma unroll
  for (int u = 0; u < kEach; ++u) {
    const int64_t i = begin + u * kThreads;
    if (i >= size) continue;
    ws[u] = convert<A>(w[i]);
    gs[u] = convert<A>(g[i]);
    if constexpr (kMomentum) ms[u] = convert<A>(m[i]);
  }
#pragma unroll
  for (int u = 0; u < kEach; ++u) {
    const int64_t i = begin + u * kThreads;
    if (i >= size) continue;
    if constexpr (kMomentum) {
      rule(ws[u], gs[u], ms[u]);
      m[i] = convert<T>(ms[u]);
    } else {
      rule(ws[u], gs[u]);
    }
    w[i] = convert<T>(ws[u]);
  }
}

template <class T, bool kMomentum>
void launch(const Call& call) {
  const SGDRule<ComputeType<T>> rule(call.attributes<SGDUpdate>());
  constexpr int kIn = kMomentum ? 3 : 2, kOut = kIn - 1;
  const int n = call.n_in / kIn;
  Tensors<T> t;
  t.n = 0;
  t.first_block[0] = 0;
  const auto flush = [&] {
    if (t.n == 0) return;
    sgd_kernel<T, kMomentum>
        <<<static_cast<unsigned>(t.first_block[t.n]), kThreads, 0, stream(call)>>>(t, rule);
    t.n = 0;
  };
  for (int i = 0; i < n; ++i) {
    const int64_t size = call.in[i * kIn].meta.size();
    if (size == 0) continue;
    t.weight[t.n] = call.out[i * kOut].as<T>();
    t.grad[t.n] = call.in[i * kIn + 1].as<const T>();
    t.momentum[t.n] = kMomentum ? call.out[i * kOut + 1].as<T>() : nullptr;
    t.size[t.n] = size;
    t.first_block[t.n + 1] = t.first_block[t.n] + static_cast<int>((size + kChunk - 1) / kChunk);
    if (++t.n == kMaxTensors) flush();
  }
  flush();
}

struct Backend {
  template <DType D>
  static void sgd_update(const Call& call) {
    if (call.n_in * 2 == call.n_out * 3)
      launch<CppTypeOf<D>, true>(call);
    else
      launch<CppTypeOf<D>, false>(call);
  }
};

}  // namespace

extern constinit const KernelList optim = optim_kernels<Backend>();

}  // namespace locus::cuda
