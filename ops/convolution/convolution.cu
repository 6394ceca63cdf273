#include <algorithm>

#include <locus/core/scratch.h>
#include <locus/devices/cuda_check.h>
#include <locus/ops/convolution/convolution_direct.h>
#include <locus/ops/convolution/gathered_cuda.h>

namespace locus::cuda {
namespace {

template <class S>
__global__ void __launch_bounds__(kBlock)
    add_kernel(const S* parts, int64_t n, S* sum, int64_t size) {
  for (int64_t i = first_thread(); i < size; i += all_threads()) {
    Compute<S> v = 0;
    for (int64_t p = 0; p < n; ++p) v += convert<Compute<S>>(parts[p * size + i]);
    sum[i] = convert<S>(v);
  }
}

template <DType D>
struct Gpu {
  using S = CppTypeOf<D>;

  const Call& call;
  const Convolution g;

  void forward(const S* x, const S* w, const S* bias, bool relu, S* y) const {
    const int64_t total = results(g.images);
    if (total == 0) return;
    if (direct())
      return by_width([&](auto i) {
        launch(call.stream, total, direct_forward_kernel<S, decltype(i)>, g, x, w, bias, relu, y,
               total);
      });
    each_chunk([&](const Convolution& part, int64_t image) {
      GatheredMemory<S> m{w, x + elements(image), nullptr, nullptr, bias, y + results(image)};
      m.relu = relu;
      multiply_gathered(call, forward_products(part), m);
    });
  }

  void data_gradient(const S* dy, const S* y, const S* w, S* dx) const {
    const int64_t total = elements(g.images);
    if (total == 0) return;
    if (direct())
      return by_width([&](auto i) {
        launch(call.stream, total, direct_data_kernel<S, decltype(i)>, g, dy, y, w, dx, total);
      });
    each_chunk([&](const Convolution& part, int64_t image) {
      const int64_t at = results(image);
      for (int64_t phase = 0; phase < data_phases(part); phase += kMostProducts)
        multiply_gathered<S>(
            call, data_products(part, phase),
            {w, dy + at, nullptr, y ? y + at : nullptr, nullptr, dx + elements(image)});
    });
  }

  void weight_gradient(const S* x, const S* dy, const S* y, S* dw, S* db) const {
    const int64_t weights = dw ? g.groups * g.out * g.depth() : 0;
    const int64_t channels = db ? g.groups * g.out : 0;
    const auto zero = [&](S* to, int64_t n) {
      if (n > 0)
        LOCUS_CUDA(cudaMemsetAsync(to, 0, static_cast<size_t>(n) * sizeof(S), stream(call)));
    };
    if (g.images == 0) return zero(dw, weights), zero(db, channels);
    if (weights == 0 || direct() || weight_products(g).each[0].column.count == 0)
      return by_width([&](auto i) {
        using I = decltype(i);
        if (channels > 0)
          bias_grad_kernel<S, I>
              <<<static_cast<unsigned>(channels), kBlock, 0, stream(call)>>>(g, dy, y, db);
        if (weights > 0)
          direct_weight_kernel<S, I>
              <<<static_cast<unsigned>(weights), kBlock, 0, stream(call)>>>(g, x, dy, y, dw);
      });
    const int64_t chunks = (g.images - 1) / chunk() + 1, size = weights + channels;
    const Scratch scratch(call, chunks > 1 ? static_cast<size_t>(chunks * size) * sizeof(S) : 0);
    S* const parts = scratch.as<S>();
    each_chunk([&](const Convolution& part, int64_t image) {
      const int64_t at = results(image), place = image / chunk();
      S* const to = chunks > 1 ? parts + place * weights : dw;
      GatheredMemory<S> m{dy + at, x + elements(image), y ? y + at : nullptr, nullptr, nullptr, to};
      if (db) m.row_sum = chunks > 1 ? parts + chunks * weights + place * channels : db;
      const GatheredProducts products = weight_products(part);
      if (!products.whole) zero(to, weights);
      multiply_gathered(call, products, m);
    });
    if (chunks == 1) return;
    launch(call.stream, weights, add_kernel<S>, parts, chunks, dw, weights);
    if (db)
      launch(call.stream, channels, add_kernel<S>, parts + chunks * weights, chunks, db, channels);
  }

 private:
  int64_t elements(int64_t images) const { return images * g.groups * g.in * g.elements(); }
  int64_t results(int64_t images) const { return images * g.groups * g.out * g.positions(); }

  // A tile of a group of few channels would be mostly empty.
  bool direct() const {
    return (g.groups > 1 && (g.in < 8 || g.out < 8)) || g.groups * kMostProducts > 65535 ||
           !gatherable(g, 1);
  }
  // f(an index that is wide enough)
  void by_width(const auto& f) const {
    if (gatherable(g, g.images))
      f(uint32_t{});
    else
      f(uint64_t{});
  }
  // So many images at once that 32 bits count them.
  int64_t chunk() const {
    int64_t n = g.images;
    while (n > 1 && !gatherable(g, n)) n = (n + 1) / 2;
    return n;
  }
  // f(the convolution of so many images, the first of them)
  void each_chunk(const auto& f) const {
    const int64_t most = chunk();
    for (int64_t image = 0; image < g.images; image += most) {
      Convolution part = g;
      part.images = std::min(most, g.images - image);
      f(part, image);
    }
  }
};

}  // namespace

extern constinit const KernelList convolution = convolution_kernels<Gpu>();

}  // namespace locus::cuda
