#include <cuda_runtime.h>

#include <locus/ops/kernel/launch.h>
#include <locus/ops/rearrange/resample_kernel.h>

namespace locus::cuda {
namespace {

// One thread per element of the result.
template <class T, class I, class M>
__global__ void __launch_bounds__(kBlock)
    fold_places(M map, Along p, int64_t m, const T* in, T* out) {
  using A = Compute<T>;
  const I inner = static_cast<I>(p.inner), n = static_cast<I>(p.n);
  for (int64_t i = first_thread(); i < p.rows() * p.n; i += all_threads()) {
    const I place = static_cast<I>(i) / inner, within = static_cast<I>(i) - place * inner;
    const I outer = place / n, j = place - outer * n;
    const T* const from = in + static_cast<int64_t>(outer) * m * p.inner + within;
    A sum = 0;
    map.each(static_cast<int64_t>(j), p.n, m, [&](int64_t k, auto weight) {
      sum += static_cast<A>(weight) * static_cast<A>(from[k * p.inner]);
    });
    out[i] = static_cast<T>(sum);
  }
}

template <class T, class I>
__global__ void __launch_bounds__(kBlock)
    linear_places(Linear map, Along p, int64_t n, const T* in, T* out) {
  using A = Compute<T>;
  const I inner = static_cast<I>(p.inner), length = static_cast<I>(p.n);
  for (int64_t i = first_thread(); i < p.rows() * p.n; i += all_threads()) {
    const I place = static_cast<I>(i) / inner, within = static_cast<I>(i) - place * inner;
    const I outer = place / length;
    const Between b = map.between(static_cast<int64_t>(place - outer * length), n, p.n);
    const T* const x = in + (static_cast<int64_t>(outer) * n + b.first) * p.inner + within;
    const A first = static_cast<A>(1 - b.weight), second = static_cast<A>(b.weight);
    const A next = static_cast<A>(b.first + 1 < n ? x[p.inner] : *x);
    out[i] = b.weight == 0 ? *x : static_cast<T>(first * static_cast<A>(*x) + second * next);
  }
}

template <class T, class I>
__global__ void __launch_bounds__(kBlock)
    columns_places(const __grid_constant__ ColumnsWalk w, const T* in, T* out) {
  using A = Compute<T>;
  const I all = static_cast<I>(w.elements()), inner = static_cast<I>(w.n[1] * w.n[2]);
  const int64_t windows = w.window_count();
  const int64_t positions = w.kernel[0] * w.kernel[1] * w.kernel[2];
  for (int64_t i = first_thread(); i < w.planes * w.elements(); i += all_threads()) {
    const I plane = static_cast<I>(i) / all, rest = static_cast<I>(i) - plane * all;
    const I d = rest / inner, row = (rest - d * inner) / static_cast<I>(w.n[2]);
    const int64_t at[3] = {
        static_cast<int64_t>(d), static_cast<int64_t>(row),
        static_cast<int64_t>(rest - d * inner) - static_cast<int64_t>(row) * w.n[2]};
    int64_t window[3];
    const auto finds = [&](int s, int64_t position) {
      const I distance = static_cast<I>(at[s] + w.pad[s] - position * w.dilate[s]);
      if (at[s] + w.pad[s] < position * w.dilate[s]) return false;
      const I step = static_cast<I>(w.stride[s]), found = distance / step;
      window[s] = static_cast<int64_t>(found);
      return found * step == distance && window[s] < w.windows[s];
    };
    const T* const from = in + static_cast<int64_t>(plane) * positions * windows;
    A sum = 0;
    for (int64_t a = 0; a < w.kernel[0]; ++a) {
      if (!finds(0, a)) continue;
      for (int64_t b = 0; b < w.kernel[1]; ++b) {
        if (!finds(1, b)) continue;
        for (int64_t c = 0; c < w.kernel[2]; ++c)
          if (finds(2, c))
            sum += static_cast<A>(
                from[((a * w.kernel[1] + b) * w.kernel[2] + c) * windows +
                     (window[0] * w.windows[1] + window[1]) * w.windows[2] + window[2]]);
      }
    }
    out[i] = static_cast<T>(sum);
  }
}

struct Backend {
  template <class T, class M>
  static void fold(const Call& call) {
    const M& map = call.attributes<M>();
    const Along p(call.out[0].meta, map.axis);
    const int64_t n = p.rows() * p.n, m = call.in[0].meta.shape[map.axis];
    if (n == 0) return;
    const auto kernel = narrow(n) ? fold_places<T, uint32_t, M> : fold_places<T, uint64_t, M>;
    launch(call.stream, n, kernel, map, p, m, call.in[0].as<T>(), call.out[0].as<T>());
  }

  template <class T>
  static void linear(const Call& call) {
    const Linear& map = call.attributes<Linear>();
    const Along p(call.out[0].meta, map.axis);
    const int64_t n = p.rows() * p.n;
    if (n == 0) return;
    const auto kernel = narrow(n) ? linear_places<T, uint32_t> : linear_places<T, uint64_t>;
    launch(call.stream, n, kernel, map, p, call.in[0].meta.shape[map.axis], call.in[0].as<T>(),
           call.out[0].as<T>());
  }

  template <class T>
  static void columns(const Call& call) {
    const ColumnsWalk w(call.attributes<Columns>(), call.in[0].meta, call.out[0].meta);
    const int64_t n = w.planes * w.elements();
    if (n == 0) return;
    const auto kernel = narrow(n) ? columns_places<T, uint32_t> : columns_places<T, uint64_t>;
    launch(call.stream, n, kernel, w, call.in[0].as<T>(), call.out[0].as<T>());
  }
};

}  // namespace

extern constinit const KernelList resample = resample_kernels<Backend>();

}  // namespace locus::cuda
