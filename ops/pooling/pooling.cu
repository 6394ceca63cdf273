#include <locus/ops/kernel/launch.h>
#include <locus/ops/pooling/pooling_kernel.h>

namespace locus::cuda {
namespace {

// Where element i of the data or the result, of this many along each axis, lies.
struct Place {
  int64_t image, channel, at[3];
};
__device__ __forceinline__ Place place_of(const Pooling& g, int64_t i, const int64_t (&n)[3]) {
  Place p;
  if (g.channels_last) {
    p.channel = i % g.channels;
    i /= g.channels;
  }
  for (int a = 2; a >= 0; --a) {
    p.at[a] = i % n[a];
    i /= n[a];
  }
  if (!g.channels_last) {
    p.channel = i % g.channels;
    i /= g.channels;
  }
  p.image = i;
  return p;
}

// f(offset) for each element of window `at`, in row-major order.
template <class F>
__device__ __forceinline__ void each_element(const Pooling& g, int64_t image, int64_t channel,
                                             const int64_t (&at)[3], const F& f) {
  const Range a = g.range(0, at[0]), b = g.range(1, at[1]), c = g.range(2, at[2]);
  for (int64_t i = a.begin; i < a.end; ++i)
    for (int64_t j = b.begin; j < b.end; ++j)
      for (int64_t k = c.begin; k < c.end; ++k)
        f(g.data_at(image, channel, (i * g.data[1] + j) * g.data[2] + k));
}

// The offset of a window's maximum.
template <class S, class T = Compute<S>>
__device__ __forceinline__ int64_t max_place(const Pooling& g, const S* x, int64_t image,
                                             int64_t channel, const int64_t (&at)[3]) {
  int64_t place = -1;
  T best = 0;
  each_element(g, image, channel, at, [&](int64_t offset) {
    const T v = convert<T>(x[offset]);
    if (place >= 0 && !exceeds(v, best)) return;
    best = v;
    place = offset;
  });
  return place;
}

// y = what `other` has where x has its maxima: max_pool where other is x.
template <class S>
__global__ void __launch_bounds__(kBlock)
    gather_kernel(Pooling g, const S* x, const S* other, S* y, int64_t total) {
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const Place p = place_of(g, i, g.result);
    y[i] = other[max_place(g, x, p.image, p.channel, p.at)];
  }
}

__device__ __forceinline__ double count_of(const Pooling& g, const int64_t (&at)[3]) {
  return static_cast<double>(g.range(0, at[0]).count * g.range(1, at[1]).count *
                             g.range(2, at[2]).count);
}

template <class S>
__global__ void __launch_bounds__(kBlock)
    average_kernel(Pooling g, const S* x, S* y, int64_t total) {
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const Place p = place_of(g, i, g.result);
    double sum = 0;
    each_element(g, p.image, p.channel, p.at,
                 [&](int64_t offset) { sum += convert<double>(x[offset]); });
    y[i] = convert<S>(sum / count_of(g, p.at));
  }
}

// dx = the sum over the windows that hold an element: of those whose maximum it is (x not null), or
// of their means' shares.
template <class S, class T = Compute<S>>
__global__ void __launch_bounds__(kBlock)
    grad_kernel(Pooling g, const S* x, const S* dy, S* dx, int64_t total) {
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const Place p = place_of(g, i, g.data);
    const Range a = g.windows(0, p.at[0]), b = g.windows(1, p.at[1]), c = g.windows(2, p.at[2]);
    T sum = 0;
    for (int64_t u = a.begin; u < a.end; ++u)
      for (int64_t v = b.begin; v < b.end; ++v)
        for (int64_t w = c.begin; w < c.end; ++w) {
          const int64_t at[3] = {u, v, w};
          if (x != nullptr && max_place(g, x, p.image, p.channel, at) != i) continue;
          const T d = convert<T>(
              dy[g.result_at(p.image, p.channel, (u * g.result[1] + v) * g.result[2] + w)]);
          sum += x != nullptr ? d : static_cast<T>(static_cast<double>(d) / count_of(g, at));
        }
    dx[i] = convert<S>(sum);
  }
}

template <class S>
struct Gpu {
  const Call& call;
  const Pooling g;

  int64_t results() const { return g.images * g.channels * g.positions(); }
  void max(const S* x, S* y) const { max_gather(x, x, y); }
  void max_gather(const S* x, const S* other, S* y) const {
    launch(call.stream, results(), gather_kernel<S>, g, x, other, y, results());
  }
  void average(const S* x, S* y) const {
    launch(call.stream, results(), average_kernel<S>, g, x, y, results());
  }
  void max_grad(const S* x, const S* dy, S* dx) const {
    const int64_t total = g.images * g.channels * g.elements();
    launch(call.stream, total, grad_kernel<S, Compute<S>>, g, x, dy, dx, total);
  }
  void average_grad(const S* dy, S* dx) const { max_grad(nullptr, dy, dx); }
};

}  // namespace

extern constinit const KernelList pooling = pooling_kernels<Gpu>();

}  // namespace locus::cuda
