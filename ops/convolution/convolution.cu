#include <locus/core/scratch.h>
#include <locus/devices/cuda_check.h>
#include <locus/ops/convolution/convolution_kernel.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/matmul/matmul_cuda.h>

namespace locus::cuda {
namespace {

// Where element `at` of an array lies that has the channels (of all groups) last or before `size`.
struct Place {
  int64_t n, channel, at;
};
__device__ __forceinline__ Place place_of(int64_t at, int64_t channels, int64_t size, bool last) {
  const int64_t fast = last ? channels : size, slow = last ? size : channels;
  const int64_t f = at % fast, s = at / fast % slow, n = at / fast / slow;
  return last ? Place{n, f, s} : Place{n, s, f};
}

// Groups: a thread a result, and a block a weight.

template <class S, class T = Compute<S>>
__global__ void __launch_bounds__(kBlock)
    forward_kernel(Convolution g, const S* x, const S* w, const S* bias, bool relu, S* y,
                   int64_t total) {
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const Place p = place_of(i, g.groups * g.out, g.positions(), g.channels_last);
    const int64_t first = p.channel / g.out * g.in;
    T sum = bias != nullptr ? convert<T>(bias[p.channel]) : T(0);
    for (int64_t c = 0; c < g.in; ++c) {
      T part = 0;
      for (int64_t tap = 0; tap < g.taps(); ++tap) {
        const int64_t at = g.data_met(p.at, tap);
        const T v = at < 0 ? T(0) : convert<T>(x[g.data_at(p.n, first + c, at)]);
        part += v * convert<T>(w[g.weight_at(p.channel, c, tap)]);
      }
      sum += part;
    }
    y[i] = convert<S>(relu && sum < T(0) ? T(0) : sum);
  }
}

template <class S, class T = Compute<S>>
__device__ __forceinline__ T masked(const S* dy, const S* y, int64_t at) {
  return y != nullptr && convert<T>(y[at]) <= T(0) ? T(0) : convert<T>(dy[at]);
}

template <class S, class T = Compute<S>>
__global__ void __launch_bounds__(kBlock)
    data_kernel(Convolution g, const S* dy, const S* y, const S* w, S* dx, int64_t total) {
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const Place p = place_of(i, g.groups * g.in, g.elements(), g.channels_last);
    const int64_t first = p.channel / g.in * g.out, c = p.channel % g.in;
    T sum = 0;
    for (int64_t tap = 0; tap < g.taps(); ++tap) {
      const int64_t at = g.result_met(p.at, tap);
      if (at < 0) continue;
      T part = 0;
      for (int64_t o = first; o < first + g.out; ++o)
        part += masked(dy, y, g.result_at(p.n, o, at)) * convert<T>(w[g.weight_at(o, c, tap)]);
      sum += part;
    }
    dx[i] = convert<S>(sum);
  }
}

// The sum of a block's values, in thread 0.
__device__ double block_sum(double v) {
  __shared__ double sums[kBlock];
  sums[threadIdx.x] = v;
  for (unsigned half = kBlock / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  __syncthreads();
  return sums[0];
}

template <class S>
__global__ void __launch_bounds__(kBlock)
    weight_kernel(Convolution g, const S* x, const S* dy, const S* y, S* dw) {
  const Place p = place_of(blockIdx.x, g.in, g.taps(), g.channels_last);
  const int64_t channel = p.n / g.out * g.in + p.channel, size = g.positions();
  double sum = 0;
  for (int64_t i = threadIdx.x; i < g.images * size; i += kBlock) {
    const int64_t n = i / size, at = i % size, from = g.data_met(at, p.at);
    const double v = from < 0 ? 0 : convert<double>(x[g.data_at(n, channel, from)]);
    sum += v * static_cast<double>(masked(dy, y, g.result_at(n, p.n, at)));
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) dw[blockIdx.x] = convert<S>(sum);
}

template <class S>
__global__ void __launch_bounds__(kBlock)
    bias_grad_kernel(Convolution g, const S* dy, const S* y, S* db) {
  const int64_t size = g.positions();
  double sum = 0;
  for (int64_t i = threadIdx.x; i < g.images * size; i += kBlock)
    sum += static_cast<double>(masked(dy, y, g.result_at(i / size, blockIdx.x, i % size)));
  sum = block_sum(sum);
  if (threadIdx.x == 0) db[blockIdx.x] = convert<S>(sum);
}

// One group: products over rows of what each result meets. Results and rows of images
// [image, image + ...) are counted from 0; a row is laid out as a weight.

template <class S>
__global__ void __launch_bounds__(kBlock)
    gather_kernel(Convolution g, const S* x, int64_t image, S* rows, int64_t total) {
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const int64_t row = i / g.depth(), size = g.positions();
    const Place p = place_of(i % g.depth(), g.in, g.taps(), g.channels_last);
    const int64_t at = g.data_met(row % size, p.at);
    rows[i] = at < 0 ? S{} : x[g.data_at(image + row / size, p.channel, at)];
  }
}

// dx = the sum of what the rows say of each element.
template <class S, class T = Compute<S>>
__global__ void __launch_bounds__(kBlock)
    spread_kernel(Convolution g, const S* rows, int64_t image, S* dx, int64_t total) {
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const Place p = place_of(i, g.in, g.elements(), g.channels_last);
    T sum = 0;
    for (int64_t tap = 0; tap < g.taps(); ++tap) {
      const int64_t at = g.result_met(p.at, tap);
      if (at >= 0)
        sum += convert<T>(
            rows[(p.n * g.positions() + at) * g.depth() + g.weight_at(0, p.channel, tap)]);
    }
    dx[g.data_at(image, 0, 0) + i] = convert<S>(sum);
  }
}

// y = products + bias, each where it belongs.
template <class S, class T = Compute<S>>
__global__ void __launch_bounds__(kBlock)
    finish_kernel(Convolution g, const S* products, const S* bias, bool relu, int64_t image, S* y,
                  int64_t total) {
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const Place p = place_of(i, g.out, g.positions(), g.channels_last);
    T v = convert<T>(products[(p.n * g.positions() + p.at) * g.out + p.channel]);
    if (bias != nullptr) v += convert<T>(bias[p.channel]);
    y[g.result_at(image, 0, 0) + i] = convert<S>(relu && v < T(0) ? T(0) : v);
  }
}

// The reverse for gradients, which relu masks.
template <class S>
__global__ void __launch_bounds__(kBlock)
    rows_kernel(Convolution g, const S* dy, const S* y, int64_t image, S* dz, int64_t total) {
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const int64_t row = i / g.out, size = g.positions();
    dz[i] = convert<S>(masked(dy, y, g.result_at(image + row / size, i % g.out, row % size)));
  }
}

template <class To, class From>
__global__ void __launch_bounds__(kBlock) convert_kernel(const From* from, To* to, int64_t n) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) to[i] = convert<To>(from[i]);
}

// cuBLAS may add up all of k in one lane a result: longer sums are sums of parts.
constexpr int64_t kDepth = 4096;
constexpr int64_t kRowsBytes = int64_t{256} << 20;

template <DType D>
struct Gpu {
  using S = CppTypeOf<D>;
  using T = Compute<S>;

  const Call& call;
  const Convolution g;

  size_t bytes(int64_t n) const { return static_cast<size_t>(n) * sizeof(S); }
  int64_t ld(int64_t n) const { return n > 0 ? n : 1; }
  // So many images at once that their rows take no more than kRowsBytes.
  int64_t chunk() const {
    const int64_t image = static_cast<int64_t>(bytes(g.positions() * ld(g.depth())));
    const int64_t n = kRowsBytes / image;
    return n < 1 ? 1 : n < g.images ? n : g.images;
  }
  // body(first image, images)
  template <class F>
  void each_chunk(const F& body) const {
    const int64_t most = chunk();
    for (int64_t n = 0; n < g.images; n += most) body(n, g.images - n < most ? g.images - n : most);
  }

  // The ways to compute: here is where another one, a library's, is chosen.
  bool by_products() const { return g.groups == 1; }

  void forward(const S* x, const S* w, const S* bias, bool relu, S* y) const {
    const int64_t total = g.images * g.groups * g.out * g.positions();
    if (total == 0) return;
    if (!by_products())
      return launch(call.stream, total, forward_kernel<S, T>, g, x, w, bias, relu, y, total);
    const int64_t most = chunk() * g.positions();
    const Scratch rows(call, bytes(most * g.depth())), products(call, bytes(most * g.out));
    each_chunk([&](int64_t image, int64_t images) {
      const int64_t n = images * g.positions();
      gather(x, image, n, rows.as<S>());
      library_product(call, D, n, g.out, g.depth(), {rows.data(), ld(g.depth())},
                      {w, ld(g.depth()), true}, products.data());
      launch(call.stream, n * g.out, finish_kernel<S, T>, g, products.as<const S>(), bias, relu,
             image, y, n * g.out);
    });
  }

  void data_gradient(const S* dy, const S* y, const S* w, S* dx) const {
    const int64_t total = g.images * g.groups * g.in * g.elements();
    if (total == 0) return;
    if (!by_products())
      return launch(call.stream, total, data_kernel<S, T>, g, dy, y, w, dx, total);
    const int64_t most = chunk() * g.positions();
    const Scratch rows(call, bytes(most * g.depth())), dz(call, bytes(most * g.out));
    each_chunk([&](int64_t image, int64_t images) {
      const int64_t n = images * g.positions(), elements = images * g.in * g.elements();
      take_rows(dy, y, image, n, dz.as<S>());
      library_product(call, D, n, g.depth(), g.out, {dz.data(), ld(g.out)}, {w, ld(g.depth())},
                      rows.data());
      launch(call.stream, elements, spread_kernel<S, T>, g, rows.as<const S>(), image, dx,
             elements);
    });
  }

  void weight_gradient(const S* x, const S* dy, const S* y, S* dw, S* db) const {
    const int64_t channels = g.groups * g.out;
    if (db != nullptr && channels > 0)
      bias_grad_kernel<S>
          <<<static_cast<unsigned>(channels), kBlock, 0, stream(call)>>>(g, dy, y, db);
    if (dw != nullptr) weight_gradient(x, dy, y, dw);
  }

 private:
  void weight_gradient(const S* x, const S* dy, const S* y, S* dw) const {
    const int64_t total = g.groups * g.out * g.depth();
    if (total == 0) return;
    if (g.images == 0) {
      LOCUS_CUDA(cudaMemsetAsync(dw, 0, bytes(total), stream(call)));
      return;
    }
    if (!by_products()) {
      weight_kernel<S><<<static_cast<unsigned>(total), kBlock, 0, stream(call)>>>(g, x, dy, y, dw);
      return;
    }
    const int64_t most = chunk() * g.positions();
    const bool whole = chunk() == g.images, direct = sizeof(S) == sizeof(T);
    const Scratch rows(call, bytes(most * g.depth())), dz(call, bytes(most * g.out));
    const Scratch sums(call, whole || direct ? 0 : static_cast<size_t>(total) * sizeof(T));
    each_chunk([&](int64_t image, int64_t images) {
      const int64_t n = images * g.positions();
      gather(x, image, n, rows.as<S>());
      take_rows(dy, y, image, n, dz.as<S>());
      if (whole)
        return library_product(call, D, g.out, g.depth(), n, {dz.data(), ld(g.out), true},
                               {rows.data(), ld(g.depth())}, dw);
      const bool tf32 = D == f32 && matmul_precision() == Precision::tf32;
      for (int64_t at = 0; at < n; at += kDepth)
        blas_product(call, D, g.out, g.depth(), n - at < kDepth ? n - at : kDepth,
                     {dz.as<S>() + at * g.out, ld(g.out), true},
                     {rows.as<S>() + at * g.depth(), ld(g.depth())},
                     direct ? static_cast<void*>(dw) : sums.data(), 1,
                     {D == f64 ? f64 : f32, tf32, image > 0 || at > 0});
    });
    if (!whole && !direct)
      launch(call.stream, total, convert_kernel<S, T>, sums.as<const T>(), dw, total);
  }

  void gather(const S* x, int64_t image, int64_t n, S* rows) const {
    launch(call.stream, n * g.depth(), gather_kernel<S>, g, x, image, rows, n * g.depth());
  }
  void take_rows(const S* dy, const S* y, int64_t image, int64_t n, S* dz) const {
    launch(call.stream, n * g.out, rows_kernel<S>, g, dy, y, image, dz, n * g.out);
  }
};

}  // namespace

extern constinit const KernelList convolution = convolution_kernels<Gpu>();

}  // namespace locus::cuda
