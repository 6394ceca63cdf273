// Pooling: a team of threads per window, one thread for small windows, or a thread per four data
// elements.
#include <locus/core/scratch.h>
#include <locus/ops/kernel/reduce_block.h>
#include <locus/ops/pooling/pooling_kernel.h>

namespace locus::cuda {
namespace {

constexpr int kColumns = 32;  // adjacent windows of a block if channels are last
constexpr int kRun = 4;       // elements along the last axis per thread

// At most length[a] elements along each axis, in row-major order.
template <class I>
struct Box {
  I length[3], most;
  DivisorOf<I> by_length[3];

  explicit Box(const int64_t (&n)[3]) : most(static_cast<I>(n[0] * n[1] * n[2])) {
    for (int a = 0; a < 3; ++a) {
      length[a] = static_cast<I>(n[a]);
      by_length[a] = DivisorOf<I>(n[a]);
    }
  }
};

template <class I>
struct PoolIndex {
  I outer, at[3], channel;
};

// Memory is (outer, 3 spatial axes, inner). Channels are inner if last, else outer.
template <class I>
struct Planes : PoolingOf<I> {
  I inner, n_runs, n_result;
  I runs;  // along the last axis of the data
  DivisorOf<I> by_inner, by_runs;
  Box<I> box;  // of a window
  int lanes;   // threads per window: a power of two

  // Element i of an array with these spatial lengths.
  __device__ PoolIndex<I> place(I i, const I (&length)[3], const DivisorOf<I> (&by)[3]) const {
    PoolIndex<I> p;
    const auto cut = [&i](I n, DivisorOf<I> d) {
      const I quotient = i / d, rest = i - quotient * n;
      i = quotient;
      return rest;
    };
    p.channel = cut(inner, by_inner);
    for (int a = 2; a >= 0; --a) p.at[a] = cut(length[a], by[a]);
    p.outer = i;
    return p;
  }
  __device__ PoolIndex<I> place_of_window(I i) const {
    return place(i, this->result, this->by_result);
  }
  __device__ PoolIndex<I> place_of_run(I i) const {
    const I length[] = {this->data[0], this->data[1], runs};
    const DivisorOf<I> by[] = {this->by_data[0], this->by_data[1], by_runs};
    PoolIndex<I> p = place(i, length, by);
    p.at[2] *= kRun;
    return p;
  }

  __device__ double count(const I (&at)[3]) const {
    return static_cast<double>(this->range(0, at[0]).count) *
           static_cast<double>(this->range(1, at[1]).count) *
           static_cast<double>(this->range(2, at[2]).count);
  }

  // f(window, lane) for each team, by all threads of a block together. Missing windows have numbers
  // from n_result on.
  __device__ void each_window(const auto& f) const {
    const int t = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const bool strided = inner > 1 && lanes > 1;
    int windows = threads, mine = t, lane = 0;
    if (lanes > 1) {
      windows = strided ? kColumns : threads / lanes;
      mine = strided ? t % kColumns : t / lanes;
      lane = strided ? t / kColumns : t % lanes;
    }
    for (I first = static_cast<I>(blockIdx.x) * windows; first < n_result;
         first += static_cast<I>(gridDim.x) * windows)
      f(first + mine, static_cast<I>(lane));
  }
  template <class V>
  __device__ V all_of_window(V v, const auto& join) const {
    if (lanes == 1) return v;
    return inner > 1 ? all_of_column(v, kColumns, join) : all_of_team(v, lanes, join);
  }
};

// f(offsets) for a lane's elements of a box at the start of `range`, four at a time, in row-major
// order. Offsets outside the range are negative.
template <class I>
__device__ __forceinline__ void each_four(const Planes<I>& g, const Box<I>& box,
                                          const PoolIndex<I>& p, const RangeOf<I> (&range)[3],
                                          I lane, const auto& f) {
  const I row = (p.outer * g.data[0] + range[0].begin) * g.data[1] + range[1].begin;
  const I first = (row * g.data[2] + range[2].begin) * g.inner + p.channel;
  if (g.lanes == 1) {
    const I n[] = {range[0].end - range[0].begin, range[1].end - range[1].begin,
                   range[2].end - range[2].begin};
    for (I u = 0; u < n[0]; ++u)
      for (I v = 0; v < n[1]; ++v) {
        const I line = first + (u * g.data[1] + v) * g.data[2] * g.inner;
        for (I w = 0; w < n[2]; w += 4) {
          I offset[4];
#pragma unroll
          for (int k = 0; k < 4; ++k) offset[k] = w + k < n[2] ? line + (w + k) * g.inner : -1;
          f(offset);
        }
      }
    return;
  }
  for (I e = lane; e < box.most; e += 4 * g.lanes) {
    I offset[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const I one = e + k * g.lanes, line = one / box.by_length[2], u = line / box.by_length[1];
      const I w = one - line * box.length[2], v = line - u * box.length[1];
      const bool there = one < box.most && u < range[0].end - range[0].begin &&
                         v < range[1].end - range[1].begin && w < range[2].end - range[2].begin;
      offset[k] = there ? first + ((u * g.data[1] + v) * g.data[2] + w) * g.inner : -1;
    }
    f(offset);
  }
}

// f(value, offset) for a lane's elements of a window, in row-major order.
template <class A, class S, class I>
__device__ __forceinline__ void each_element(const Planes<I>& g, const S* x, I window, I lane,
                                             const auto& f) {
  if (window >= g.n_result) return;
  const PoolIndex<I> p = g.place_of_window(window);
  const RangeOf<I> range[] = {g.range(0, p.at[0]), g.range(1, p.at[1]), g.range(2, p.at[2])};
  each_four(g, g.box, p, range, lane, [&](const I(&offset)[4]) {
    A v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = offset[k] < 0 ? A(0) : convert<A>(x[offset[k]]);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (offset[k] >= 0) f(v[k], offset[k]);
  });
}

// The offset of a window's first maximum, in all its lanes.
template <class S, class I>
__device__ __forceinline__ I max_place(const Planes<I>& g, const S* x, I window, I lane) {
  using A = Compute<S>;
  struct Best {
    A value;
    I at;
  };
  Best best{0, -1};
  each_element<A>(g, x, window, lane, [&](A v, I at) {
    if (best.at < 0 || exceeds(v, best.value)) best = {v, at};
  });
  const auto join = [](Best a, Best b) {
    if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
    if (exceeds(b.value, a.value)) return b;
    if (exceeds(a.value, b.value)) return a;
    return a.at < b.at ? a : b;
  };
  return g.all_of_window(best, join).at;
}

// y = `other` at the maxima of x. If other is x: max_pool.
template <class S, class I>
__global__ void __launch_bounds__(1024, 1)
    gather_kernel(const __grid_constant__ Planes<I> g, const S* x, const S* other, S* y) {
  g.each_window([&](I window, I lane) {
    const I at = max_place(g, x, window, lane);
    if (lane == 0 && window < g.n_result) y[window] = other[at];
  });
}

template <class S, class I>
__global__ void __launch_bounds__(1024, 1)
    places_kernel(const __grid_constant__ Planes<I> g, const S* x, I* places) {
  g.each_window([&](I window, I lane) {
    const I at = max_place(g, x, window, lane);
    if (lane == 0 && window < g.n_result) places[window] = at;
  });
}

template <class S, class I>
__global__ void __launch_bounds__(1024, 1)
    average_kernel(const __grid_constant__ Planes<I> g, const S* x, S* y) {
  g.each_window([&](I window, I lane) {
    double sum = 0;
    each_element<double>(g, x, window, lane, [&](double v, I) { sum += v; });
    sum = g.all_of_window(sum, [](double a, double b) { return a + b; });
    if (lane == 0 && window < g.n_result)
      y[window] = convert<S>(sum / g.count(g.place_of_window(window).at));
  });
}

// If no element is in two windows: a window's team writes its cell, the elements up to the next
// window.
template <class S, class I>
__global__ void __launch_bounds__(1024, 1)
    max_grad_kernel(const __grid_constant__ Planes<I> g, const __grid_constant__ Box<I> cell,
                    const S* x, const S* dy, S* dx) {
  g.each_window([&](I window, I lane) {
    const I maximum = max_place(g, x, window, lane);
    if (window >= g.n_result) return;
    const PoolIndex<I> p = g.place_of_window(window);
    RangeOf<I> range[3];
    for (int a = 0; a < 3; ++a) {
      const I from = p.at[a] * g.stride[a] - g.padding[a];
      range[a].begin = p.at[a] == 0 ? 0 : from;
      range[a].end = p.at[a] == g.result[a] - 1 ? g.data[a] : from + g.stride[a];
    }
    const S d = dy[window];
    each_four(g, cell, p, range, lane, [&](const I(&offset)[4]) {
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (offset[k] >= 0) dx[offset[k]] = offset[k] == maximum ? d : S();
    });
  });
}

// dx of an element = the sum over its windows: dy of windows whose maximum it is (if places is not
// null), or its shares of the means.
template <class S, class I>
__global__ void __launch_bounds__(kBlock)
    grad_kernel(const __grid_constant__ Planes<I> g, const I* places, const S* dy, S* dx) {
  using A = Compute<S>;
  const bool whole = g.inner == 1 && g.data[2] % kRun == 0 && aligned(dx, kRun * sizeof(S));
  for (int64_t i = first_thread(); i < g.n_runs; i += all_threads()) {
    const PoolIndex<I> p = g.place_of_run(static_cast<I>(i));
    const I rest = g.data[2] - p.at[2], n = rest < kRun ? rest : kRun;
    const I row = (p.outer * g.data[0] + p.at[0]) * g.data[1] + p.at[1];
    const I first = (row * g.data[2] + p.at[2]) * g.inner + p.channel;
    const RangeOf<I> a = g.windows(0, p.at[0]), b = g.windows(1, p.at[1]);
    const I begin = g.windows(2, p.at[2]).begin, end = g.windows(2, p.at[2] + n - 1).end;
    A sum[kRun] = {};
    for (I u = a.begin; u < a.end; ++u)
      for (I v = b.begin; v < b.end; ++v)
        for (I w = begin; w < end; ++w) {
          const I line = (p.outer * g.result[0] + u) * g.result[1] + v;
          const I window = (line * g.result[2] + w) * g.inner + p.channel;
          const A d = convert<A>(dy[window]);
          if (places) {
            const I maximum = places[window] - first;
#pragma unroll
            for (int k = 0; k < kRun; ++k)
              if (maximum == k * g.inner) sum[k] += d;
          } else {
            const A share = static_cast<A>(static_cast<double>(d) / g.count({u, v, w}));
            const RangeOf<I> range = g.range(2, w);
#pragma unroll
            for (int k = 0; k < kRun; ++k)
              if (p.at[2] + k >= range.begin && p.at[2] + k < range.end) sum[k] += share;
          }
        }
    if (whole) {
      Pack<S, kRun> v;
#pragma unroll
      for (int k = 0; k < kRun; ++k) v.v[k] = convert<S>(sum[k]);
      *reinterpret_cast<Pack<S, kRun>*>(dx + first) = v;
    } else {
#pragma unroll
      for (int k = 0; k < kRun; ++k)
        if (k < n) dx[first + k * g.inner] = convert<S>(sum[k]);
    }
  }
}

// The same elements in fewer axes, if a window covers these axes.
Pooling joined(Pooling g) {
  const auto whole = [&g](int a) {
    return g.result[a] == 1 && (g.adaptive || (g.window[a] == g.data[a] && g.padding[a] == 0));
  };
  for (int a = 1; a >= 0 && whole(2) && whole(a); --a) {
    g.window[2] = g.data[2] *= g.data[a];
    g.window[a] = g.data[a] = 1;
  }
  g.set_divisors();
  return g;
}

template <class I>
Planes<I> planes_of(const Pooling& g) {
  int64_t window[3];
  for (int a = 0; a < 3; ++a) {
    const int64_t n = g.data[a], r = g.result[a], most = g.adaptive ? (n - 1) / r + 2 : g.window[a];
    window[a] = most < n ? most : n;
  }
  const int64_t inner = g.channels_last ? g.channels : 1, planes = g.images * g.channels;
  const int64_t runs = (g.data[2] + kRun - 1) / kRun;
  const auto cut = [](int64_t v) { return static_cast<I>(v); };
  Planes<I> p{{},
              cut(inner),
              cut(planes * g.data[0] * g.data[1] * runs),
              cut(planes * g.positions()),
              cut(runs),
              DivisorOf<I>(inner),
              DivisorOf<I>(runs),
              Box<I>(window),
              1};
  if constexpr (kSame<I, int32_t>)
    static_cast<PoolingOf<I>&>(p) = narrowed(g);
  else
    static_cast<PoolingOf<I>&>(p) = g;
  constexpr int kSmall = 16;  // elements for one thread
  if (p.box.most < kSmall) return p;
  if (inner == 1)
    while (p.lanes < 1024 && p.lanes * 8 <= p.box.most) p.lanes *= 2;
  else if (p.n_result < kColumns << 12)
    p.lanes = p.box.most < 4096 ? 8 : 32;
  return p;
}

template <class S>
struct Gpu {
  const Call& call;
  const Pooling g;

  // Calls f(planes) unless they are empty.
  void with_planes(const auto& f) const {
    if (g.images * g.channels == 0) return;
    const Pooling all = joined(g);
    if (narrow(all))
      f(planes_of<int32_t>(all));
    else
      f(planes_of<int64_t>(all));
  }
  template <class I, class... P>
  void launch_windows(const Planes<I>& p, void (*kernel)(P...), const auto&... args) const {
    const bool strided = p.inner > 1 && p.lanes > 1;
    const int threads = strided ? p.lanes * kColumns : p.lanes > kBlock ? p.lanes : kBlock;
    const int64_t windows = threads / p.lanes;
    const unsigned blocks = blocks_for(call.stream, (p.n_result + windows - 1) / windows * kBlock);
    kernel<<<blocks, static_cast<unsigned>(threads), 0, stream(call)>>>(p, args...);
  }

  void max(const S* x, S* y) const { max_gather(x, x, y); }
  void max_gather(const S* x, const S* other, S* y) const {
    with_planes(
        [&]<class I>(const Planes<I>& p) { launch_windows(p, gather_kernel<S, I>, x, other, y); });
  }
  void average(const S* x, S* y) const {
    with_planes(
        [&]<class I>(const Planes<I>& p) { launch_windows(p, average_kernel<S, I>, x, y); });
  }
  void max_grad(const S* x, const S* dy, S* dx) const {
    with_planes([&]<class I>(const Planes<I>& p) {
      bool apart = !g.adaptive;
      int64_t cell[3];
      for (int a = 0; a < 3; ++a) {
        const I n = p.data[a], last = n - (p.result[a] - 1) * p.stride[a] + p.padding[a];
        const bool one = p.result[a] == 1;
        apart = apart && (one || p.stride[a] >= p.window[a]);
        cell[a] = one ? n : last > p.stride[a] ? last : p.stride[a];
      }
      if (apart) return launch_windows(p, max_grad_kernel<S, I>, Box<I>(cell), x, dy, dx);
      const Scratch places(call, static_cast<size_t>(p.n_result) * sizeof(I));
      launch_windows(p, places_kernel<S, I>, x, places.as<I>());
      launch(call.stream, p.n_runs, grad_kernel<S, I>, p, places.as<const I>(), dy, dx);
    });
  }
  void average_grad(const S* dy, S* dx) const {
    with_planes([&]<class I>(const Planes<I>& p) {
      launch(call.stream, p.n_runs, grad_kernel<S, I>, p, static_cast<const I*>(nullptr), dy, dx);
    });
  }
};

}  // namespace

extern constinit const KernelList pooling = pooling_kernels<Gpu>();

}  // namespace locus::cuda
