// One kernel for all: a row of classes is shared by `lanes` neighbouring threads, a block holds as
// many rows as fit. Rows of up to 8 * lanes elements stay in registers between the passes; longer
// ones, and rows whose elements are apart (an axis that is not the last: one thread a row, so that
// neighbours read neighbouring rows), are read again from the caches.
#include <locus/devices/cuda.h>
#include <locus/ops/reduce/reduce_kernel.h>
#include <locus/ops/softmax/softmax_kernel.h>

namespace locus::cuda {
namespace {

using namespace reduction;

using Mode = SoftmaxMode;

constexpr int kItems = 8, kMaxLanes = 1024;

struct Rows {
  int64_t rows, n, inner;
  double scale;
  View labels;
  Fault* fault;
};

__device__ __forceinline__ float exponential(float x) { return expf(x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }
__device__ __forceinline__ float logarithm(float x) { return logf(x); }
__device__ __forceinline__ double logarithm(double x) { return log(x); }

// The combination of all lanes of a row, in every lane. lanes is a power of two.
template <class R, class A>
__device__ A all_lanes(A a, int lanes, A* shared) {
  const int width = lanes < 32 ? lanes : 32;
  for (int d = width / 2; d > 0; d /= 2)
    a = R::combine(a, __shfl_xor_sync(0xffffffffu, a, d, width));
  if (lanes <= 32) return a;
  const int warps = lanes / 32;
  A* mine = shared + threadIdx.y * warps;
  __syncthreads();
  if (threadIdx.x % 32 == 0) mine[threadIdx.x / 32] = a;
  __syncthreads();
  a = mine[0];
  for (int w = 1; w < warps; ++w) a = R::combine(a, mine[w]);
  return a;
}

template <Mode kMode, class T, bool kCached>
__global__ void __launch_bounds__(kMaxLanes)
    softmax_kernel(const T* __restrict__ x, const T* __restrict__ dy, T* __restrict__ y,
                   const __grid_constant__ Rows g) {
  using A = ComputeType<T>;
  constexpr bool kPair = kMode == Mode::softmax_grad || kMode == Mode::log_softmax_grad;
  constexpr bool kLabels = kMode == Mode::loss || kMode == Mode::loss_grad;
  __shared__ A shared[32];

  const int lanes = blockDim.x, lane = threadIdx.x;
  const int64_t row = blockIdx.x * static_cast<int64_t>(blockDim.y) + threadIdx.y;
  const bool active = row < g.rows;
  const int64_t stride = g.inner, n = active ? g.n : 0;
  const int64_t base = stride == 1 ? row * g.n : row / stride * g.n * stride + row % stride;
  const A scale = static_cast<A>(g.scale);

  A a[kItems], b[kItems];
  if constexpr (kCached) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int64_t c = lane + i * lanes;
      if (c >= n) continue;
      a[i] = convert<A>(x[base + c]);
      if constexpr (kPair) b[i] = convert<A>(dy[base + c]);
    }
  }
  // Calls f(c, x[c], dy[c]) for this lane's elements.
  const auto each = [&](auto f) {
    if constexpr (kCached) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        const int64_t c = lane + i * lanes;
        if (c < n) f(c, a[i], kPair ? b[i] : A(0));
      }
    } else {
      for (int64_t c = lane; c < n; c += lanes) {
        const int64_t at = base + c * stride;
        f(c, convert<A>(x[at]), kPair ? convert<A>(dy[at]) : A(0));
      }
    }
  };

  if constexpr (kPair) {
    A total = 0;
    each([&](int64_t, A v, A d) { total += kMode == Mode::softmax_grad ? v * d : d; });
    total = all_lanes<Sum>(total, lanes, shared);
    each([&](int64_t c, A v, A d) {
      const A dx = kMode == Mode::softmax_grad ? v * (d - total) : d - exponential(v) * total;
      y[base + c * stride] = convert<T>(dx * scale);
    });
  } else {
    A top = Max::identity<A>();
    each([&](int64_t, A v, A) { top = Max::combine(top, v); });
    top = all_lanes<Max>(top, lanes, shared);
    A total = 0;
    each([&](int64_t, A v, A) { total += exponential((v - top) * scale); });
    total = all_lanes<Sum>(total, lanes, shared);

    if constexpr (kLabels) {
      if (!active) return;
      const int64_t label = label_at(g.labels, row);
      const bool valid = label >= 0 && label < g.n;
      if (!valid && lane == 0) report(g.fault, label, g.n);
      if constexpr (kMode == Mode::loss) {
        if (lane > 0) return;
        // NaN where there is no such class.
        const A picked = valid ? convert<A>(x[base + label]) : top;
        const A loss = logarithm(total) - (picked - top);
        y[row] = convert<T>(valid ? loss : (loss - loss) / (loss - loss));
      } else {
        const A head = convert<A>(dy[row]), factor = A(1) / total;
        each([&](int64_t c, A v, A) {
          const A p = exponential(v - top) * factor;
          y[base + c] = convert<T>((c == label ? p - A(1) : p) * head);
        });
      }
    } else if constexpr (kMode == Mode::softmax) {
      const A factor = A(1) / total;
      each([&](int64_t c, A v, A) {
        y[base + c * stride] = convert<T>(exponential((v - top) * scale) * factor);
      });
    } else {
      const A log_total = logarithm(total);
      each([&](int64_t c, A v, A) {
        y[base + c * stride] = convert<T>((v - top) * scale - log_total);
      });
    }
  }
}

template <Mode kMode, class T>
void launch(const Call& call, const Rows& g, const T* dy) {
  int lanes = 1;
  if (g.inner == 1)
    for (lanes = 8; lanes < kMaxLanes && lanes * kItems < g.n;) lanes *= 2;
  const bool cached = g.inner == 1 && g.n <= static_cast<int64_t>(lanes) * kItems;
  const int together = lanes >= 128 ? 1 : 128 / lanes;
  const dim3 block(static_cast<unsigned>(lanes), static_cast<unsigned>(together));
  const auto grid = static_cast<unsigned>((g.rows + together - 1) / together);
  const T* x = call.in[0].as<const T>();
  T* y = call.out[0].as<T>();
  if (cached)
    softmax_kernel<kMode, T, true><<<grid, block, 0, stream(call)>>>(x, dy, y, g);
  else
    softmax_kernel<kMode, T, false><<<grid, block, 0, stream(call)>>>(x, dy, y, g);
}

struct Backend {
  template <Mode kMode, DType D>
  static void along_axis(const Call& call) {
    const SoftmaxAttrs& attrs = call.attributes<SoftmaxAttrs>();
    const SoftmaxShape s(call.in[0].meta, attrs.axis);
    const Rows g{s.rows(), s.n, s.inner, 1 / attrs.temperature, {}, nullptr};
    using T = CppTypeOf<D>;
    launch<kMode, T>(call, g, call.n_in == 2 ? call.in[1].as<const T>() : nullptr);
  }

  template <Mode kMode, DType D>
  static void cross_entropy(const Call& call) {
    const Meta& m = call.in[0].meta;
    const Rows g{call.in[1].meta.size(), m.shape[m.rank - 1], 1, 1, call.in[1], fault(call)};
    using T = CppTypeOf<D>;
    launch<kMode, T>(call, g, call.n_in == 3 ? call.in[2].as<const T>() : nullptr);
  }
};

}  // namespace

extern constinit const KernelList softmax = softmax_kernels<Backend>();

}  // namespace locus::cuda
