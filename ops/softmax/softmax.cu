// One kernel for all modes. `lanes` neighbouring threads share a row of classes; a block holds as
// many rows as fit. Rows are read once and kept in registers: short rows element by element, rows
// from 1024 elements on in 16-byte vectors if aligned. Longer rows are read again from the caches.
// So are rows along an axis that is not the last: one thread per row, so that neighbours read
// neighbouring rows.
#include <locus/devices/cuda.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/launch.h>
#include <locus/ops/kernel/math.h>
#include <locus/ops/softmax/softmax_kernel.h>

namespace locus::cuda {
namespace {

using Mode = SoftmaxMode;

constexpr int kMaxLanes = 1024, kVectorLanes = 512;

// Elements of a lane in registers: kSingles, or kVectors times kVector.
constexpr int kSingles = 8;
template <class T>
constexpr int kVector = 16 / sizeof(T);
template <class T>
constexpr int kVectors = sizeof(T) == 2 ? 4 : 8;

struct Rows {
  int64_t rows, n, inner;
  double scale;
  View labels;
  Fault* fault;
  void* losses;
};

// The combination of all lanes of a row, in every lane. lanes is a power of two.
template <class A>
__device__ A all_lanes(A a, int lanes, A* shared, const auto& combine) {
  const int width = lanes < 32 ? lanes : 32;
  for (int d = width / 2; d > 0; d /= 2) a = combine(a, __shfl_xor_sync(0xffffffffu, a, d, width));
  if (lanes <= 32) return a;
  const int warps = lanes / 32;
  A* mine = shared + threadIdx.y * warps;
  __syncthreads();
  if (threadIdx.x % 32 == 0) mine[threadIdx.x / 32] = a;
  __syncthreads();
  a = mine[0];
  for (int w = 1; w < warps; ++w) a = combine(a, mine[w]);
  return a;
}

template <Mode kMode, class T, int kN, int kItems>
__global__ void __launch_bounds__(kN > 1 ? kVectorLanes : kMaxLanes)
    softmax_kernel(const T* __restrict__ x, const T* __restrict__ dy, T* __restrict__ y,
                   const __grid_constant__ Rows g) {
  using A = Compute<T>;
  constexpr bool kPair = kMode == Mode::softmax_grad || kMode == Mode::log_softmax_grad;
  constexpr bool kLabels = takes_labels(kMode);
  constexpr bool kCached = kItems > 0;
  constexpr int kSize = kCached ? kN * kItems : 1;
  __shared__ A shared[32];

  const int lanes = blockDim.x, lane = threadIdx.x;
  const int64_t row = blockIdx.x * static_cast<int64_t>(blockDim.y) + threadIdx.y;
  const bool active = row < g.rows;
  using Int = std::conditional_t<kCached, int, int64_t>;  // short rows
  const Int n = active ? static_cast<Int>(g.n) : 0;
  const int64_t stride = g.inner;
  const int64_t base = stride == 1 ? row * g.n : row / stride * g.n * stride + row % stride;
  const A scale = static_cast<A>(g.scale);

  const auto add = [](A a, A b) { return a + b; };
  A a[kSize], b[kPair ? kSize : 1];
  const auto place = [&](int i) { return (lane + i * lanes) * kN; };
  if constexpr (kCached) {
    using V = Pack<T, kN>;
    V v[kItems], d[kPair ? kItems : 1];  // all loads are issued before the first use
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (place(i) < n) v[i] = *reinterpret_cast<const V*>(x + base + place(i));
      if (kPair && place(i) < n) d[i] = *reinterpret_cast<const V*>(dy + base + place(i));
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const bool inside = place(i) < n;  // beyond: neutral values
      for (int k = 0; k < kN; ++k) {
        const A outside = kPair ? A(0) : -static_cast<A>(INFINITY);
        a[i * kN + k] = inside ? convert<A>(v[i].v[k]) : outside;
        if constexpr (kPair) b[i * kN + k] = inside ? convert<A>(d[i].v[k]) : A(0);
      }
    }
  }
  // Calls f(c, x[c], dy[c]) for this lane's elements; if cached, changes of x[c] are kept.
  const auto each = [&](auto f) {
    if constexpr (kCached) {
#pragma unroll
      for (int i = 0; i < kItems; ++i)
        for (int k = 0; k < kN; ++k) f(place(i) + k, a[i * kN + k], b[kPair ? i * kN + k : 0]);
    } else {
      for (int64_t c = lane; c < n; c += lanes) {
        A v = convert<A>(x[base + c * stride]);
        f(c, v, kPair ? convert<A>(dy[base + c * stride]) : A(0));
      }
    }
  };
  // y[c] = f(c, x[c], dy[c])
  const auto write = [&](auto f) {
    if constexpr (kCached) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        if (place(i) >= n) continue;
        Pack<T, kN> v;
        for (int k = 0; k < kN; ++k)
          v.v[k] = convert<T>(f(place(i) + k, a[i * kN + k], b[kPair ? i * kN + k : 0]));
        *reinterpret_cast<Pack<T, kN>*>(y + base + place(i)) = v;
      }
    } else {
      each([&](int64_t c, A v, A d) { y[base + c * stride] = convert<T>(f(c, v, d)); });
    }
  };

  if constexpr (kPair) {
    A total = 0;
    each([&](int64_t, A v, A d) { total += kMode == Mode::softmax_grad ? v * d : d; });
    total = all_lanes(total, lanes, shared, add);
    write([&](int64_t, A v, A d) {
      return (kMode == Mode::softmax_grad ? v * (d - total) : d - m::exp(v) * total) * scale;
    });
  } else {
    A top = -static_cast<A>(INFINITY);
    // Ignores NaN, which the total keeps.
    const auto larger = [](A a, A b) { return b > a ? b : a; };
    each([&](int64_t, A v, A) { top = larger(top, v); });
    top = all_lanes(top, lanes, shared, larger);
    constexpr bool kKeeps = kCached && kMode != Mode::log_softmax && kMode != Mode::loss;
    A total = 0;
    each([&](int64_t, A& v, A) {
      const A e = m::exp((v - top) * scale);
      if constexpr (kKeeps) v = e;
      total += e;
    });
    total = all_lanes(total, lanes, shared, add);
    const A factor = A(1) / total;
    const auto probability = [&](A v) { return (kKeeps ? v : m::exp((v - top) * scale)) * factor; };

    if constexpr (kLabels) {
      if (!active) return;
      const int64_t label = label_at(g.labels, row);
      const bool valid = label >= 0 && label < g.n;
      if (!valid && lane == 0)
        report(g.fault, {FaultKind::label, label, g.n, row, is_exact(label, g.labels.meta.dtype)});
      if (kMode != Mode::loss_grad && lane == 0) {
        // NaN if the label is invalid.
        const A picked = valid ? convert<A>(x[base + label]) : top;
        const A loss = m::log(total) - (picked - top);
        static_cast<T*>(g.losses)[row] = convert<T>(valid ? loss : (loss - loss) / (loss - loss));
      }
      if constexpr (kMode != Mode::loss) {
        const A head = kMode == Mode::loss_grad ? convert<A>(dy[row]) : A(1);
        write([&](int64_t c, A v, A) {
          const A p = probability(v);
          return (c == label ? p - A(1) : p) * head;
        });
      }
    } else if constexpr (kMode == Mode::softmax) {
      write([&](int64_t, A v, A) { return probability(v); });
    } else {
      const A log_total = m::log(total);
      write([&](int64_t, A v, A) { return (v - top) * scale - log_total; });
    }
  }
}

template <Mode kMode, class T>
void launch_rows(const Call& call, const Rows& g, const T* dy) {
  const T* x = call.in[0].as<T>();
  T* y = call.out[call.n_out - 1].as<T>();
  // Launches blocks with enough lanes for `each` elements per lane.
  const auto run = [&](auto kernel, int least, int most, int64_t each) {
    int lanes = least;
    while (lanes < most && lanes * each < g.n) lanes *= 2;
    const int together = lanes >= 128 ? 1 : 128 / lanes;
    const dim3 block(static_cast<unsigned>(lanes), static_cast<unsigned>(together));
    const auto grid = static_cast<unsigned>((g.rows + together - 1) / together);
    kernel<<<grid, block, 0, stream(call)>>>(x, dy, y, g);
  };
  constexpr int kV = kVector<T>, kVs = kVectors<T>;
  const bool runs = g.inner == 1, whole = aligned(x, 16) && aligned(y, 16) && aligned(dy, 16);
  if (runs && whole && g.n % kV == 0 && g.n >= 1024 && g.n <= kVectorLanes * kV * kVs)
    run(softmax_kernel<kMode, T, kV, kVs>, 32, kVectorLanes, kV * kVs / 2);
  else if (runs && g.n <= kMaxLanes * kSingles)
    run(softmax_kernel<kMode, T, 1, kSingles>, 8, kMaxLanes, kSingles);
  else
    run(softmax_kernel<kMode, T, 1, 0>, runs ? kMaxLanes : 1, runs ? kMaxLanes : 1, 1);
}

struct Backend {
  template <Mode kMode, DType D>
  static void along_axis(const Call& call) {
    const SoftmaxAttrs& attrs = call.attributes<SoftmaxAttrs>();
    const Along s(call.in[0].meta, attrs.axis);
    const Rows g{s.rows(), s.n, s.inner, 1 / attrs.temperature, {}, nullptr, nullptr};
    using T = CppTypeOf<D>;
    launch_rows<kMode, T>(call, g, call.n_in == 2 ? call.in[1].as<const T>() : nullptr);
  }

  template <Mode kMode, DType D>
  static void cross_entropy(const Call& call) {
    const Meta& m = call.in[0].meta;
    const Rows g{call.in[1].meta.size(), m.shape[m.rank - 1], 1, 1, call.in[1], fault(call),
                 call.out[0].data};
    using T = CppTypeOf<D>;
    launch_rows<kMode, T>(call, g, call.n_in == 3 ? call.in[2].as<const T>() : nullptr);
  }
};

}  // namespace

extern constinit const KernelList softmax = softmax_kernels<Backend>();

}  // namespace locus::cuda
