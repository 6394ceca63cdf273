#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <locus/core/context.h>
#include <locus/core/scratch.h>
#include <locus/core/tuning.h>
#include <locus/devices/cuda/check.h>
#include <locus/devices/cuda/unlocked_stream.h>
#include <locus/ops/convolution/convolution_direct.h>
#include <locus/ops/convolution/convolution_ways.h>
#include <locus/ops/convolution/gathered_cuda.h>
#include <locus/ops/convolution/join_parts.h>
#include <locus/ops/convolution/patch_cuda.h>

namespace locus::cuda {
namespace {

template <class S>
__global__ void __launch_bounds__(kBlock)
    mask_kernel(const S* dy, const S* y, S* dz, int64_t size) {
  for (int64_t i = first_thread(); i < size; i += all_threads()) dz[i] = masked(dy, y, i);
}

template <class S, class T = Compute<S>>
__global__ void __launch_bounds__(kBlock)
    bias_kernel(const __grid_constant__ Convolution g, const S* bias, S* x, int64_t size) {
  const int64_t channels = g.groups * g.in, elements = g.channels_last ? 1 : g.elements();
  for (int64_t i = first_thread(); i < size; i += all_threads())
    x[i] = convert<S>(convert<T>(x[i]) + convert<T>(bias[i / elements % channels]));
}

// Our own products. With kAnyTile: patches if they fit, else gathered products.
template <DType D>
struct Products {
  using S = CppTypeOf<D>;

  const Call& call;
  const Convolution g;
  int tile = kAnyTile;

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
      multiply(forward_products(part), m);
    });
  }

  void data_gradient(const S* dy, const S* y, const S* w, const S* bias, S* dx) const {
    const int64_t total = elements(g.images);
    if (total == 0) return;
    if (direct())
      return by_width([&](auto i) {
        launch(call.stream, total, direct_data_kernel<S, decltype(i)>, g, dy, y, w, bias, dx,
               total);
      });
    each_chunk([&](const Convolution& part, int64_t image) {
      const int64_t at = results(image);
      for (int64_t phase = 0; phase < data_phases(part); phase += kMostProducts)
        multiply(data_products(part, phase),
                 {w, dy + at, nullptr, y ? y + at : nullptr, bias, dx + elements(image)});
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
    if (weights == 0 || direct() || weight_products(g, false).each[0].column.count == 0)
      return by_width([&](auto i) {
        using I = decltype(i);
        if (channels > 0) bias_gradient<I>(dy, y, db);
        if (weights > 0)
          direct_weight_kernel<S, I>
              <<<static_cast<unsigned>(weights), kBlock, 0, stream(call)>>>(g, x, dy, y, dw);
      });
    const int64_t chunks = (g.images - 1) / chunk() + 1, size = weights + channels;
    const Scratch scratch(call, chunks > 1 ? static_cast<size_t>(chunks * size) * sizeof(S) : 0);
    S* const parts = scratch.as<S>();
    each_chunk([&](const Convolution& part, int64_t image) {
      const int64_t at = results(image), place = image / chunk();
      S* const to = chunks > 1 ? parts + place * size : dw;
      GatheredMemory<S> m{dy + at, x + elements(image), y ? y + at : nullptr, nullptr, nullptr, to};
      if (db) m.row_sum = chunks > 1 ? to + weights : db;
      const GatheredProducts products = weight_products(part, false);
      if (!products.whole) zero(to, weights);
      if constexpr (kSame<S, float>)
        if (tile == kAnyTile && weight_patches(call, products, m)) return;
      multiply_gathered(call, weight_products(part, !db), m, tile);
    });
    if (chunks > 1) join_parts(call, parts, chunks, weights, size, dw, db);
  }
  template <class I>
  void bias_gradient(const S* dy, const S* y, S* db) const {
    const unsigned channels = static_cast<unsigned>(g.groups * g.out);
    bias_grad_kernel<S, I><<<channels, kBlock, 0, stream(call)>>>(g, dy, y, db);
  }

  int64_t elements(int64_t images) const { return images * g.groups * g.in * g.elements(); }
  int64_t results(int64_t images) const { return images * g.groups * g.out * g.positions(); }

  // In a group of few channels, a tile would be mostly empty.
  bool direct() const {
    return (g.groups > 1 && (g.in < 8 || g.out < 8)) || g.groups * kMostProducts > 65535 ||
           !gatherable(g, 1);
  }

 private:
  void multiply(const GatheredProducts& products, const GatheredMemory<S>& m) const {
    if constexpr (kSame<S, float>)
      if (tile == kAnyTile && multiply_patches(call, products, m)) return;
    multiply_gathered(call, products, m, tile);
  }
  // Calls f with an index type that is wide enough.
  void by_width(const auto& f) const {
    if (gatherable(g, g.images))
      f(uint32_t{});
    else
      f(uint64_t{});
  }
  // Images per launch such that 32-bit indices suffice.
  int64_t chunk() const {
    int64_t n = g.images;
    while (n > 1 && !gatherable(g, n)) n = (n + 1) / 2;
    return n;
  }
  // f(part of the convolution, its first image)
  void each_chunk(const auto& f) const {
    const int64_t most = chunk();
    for (int64_t image = 0; image < g.images; image += most) {
      Convolution part = g;
      part.images = std::min(most, g.images - image);
      f(part, image);
    }
  }
};

// For all dtypes and kinds, which are in the key.
auto& chosen_ways() {
  static auto& all =
      *new tuning::Lookup<WayNumbers, ConvolutionWay, HashNumbers>(tuning::choices());
  return all;
}

// Chooses and runs a way (convolution_ways.h).
template <DType D>
struct Gpu {
  using S = CppTypeOf<D>;

  const Call& call;
  const Convolution g;

  void forward(const S* x, const S* w, const S* bias, bool relu, S* y) const {
    take(
        dnn_convolution(g, DnnKind::forward, D, bias != nullptr, relu), {x, w, y, bias}, y,
        [&](const Products<D>& ours) { ours.forward(x, w, bias, relu, y); },
        [&](const DnnPlan& plan) {
          dnn_convolve(call, plan, {x, w, y, bias});
        });
  }

  // cuDNN's plans add no bias. Ours adds it to 16-bit results before they are rounded.
  void data_gradient(const S* dy, const S* y, const S* w, const S* bias, S* dx) const {
    if (k16Bit<S> && bias != nullptr) return products().data_gradient(dy, y, w, bias, dx);
    take(
        dnn_convolution(g, DnnKind::data_gradient, D), {dx, w, dy}, dx,
        [&](const Products<D>& ours) { ours.data_gradient(dy, y, w, bias, dx); },
        [&](const DnnPlan& plan) {
          with_mask(dy, y, [&](const S* dz) { dnn_convolve(call, plan, {dx, w, dz}); });
          const int64_t size = products().elements(g.images);
          if (bias) launch(call.stream, size, bias_kernel<S>, g, bias, dx, size);
        });
  }

  void weight_gradient(const S* x, const S* dy, const S* y, S* dw, S* db) const {
    take(
        dnn_convolution(g, DnnKind::weight_gradient, D), {x, dw, dy}, dw,
        [&](const Products<D>& ours) { ours.weight_gradient(x, dy, y, dw, db); },
        [&](const DnnPlan& plan) {
          with_mask(dy, y, [&](const S* dz) { dnn_convolve(call, plan, {x, dw, dz}); });
          if (db) products().template bias_gradient<uint32_t>(dy, y, db);
        });
  }

 private:
  static constexpr int kTiles = std::size(tiles_of<S>());

  Products<D> products() const { return {call, g}; }

  // f(dy, with relu's mask if y is given)
  void with_mask(const S* dy, const S* y, const auto& f) const {
    const int64_t size = products().results(g.images);
    const Scratch dz(call, y ? static_cast<size_t>(size) * sizeof(S) : 0);
    if (y) launch(call.stream, size, mask_kernel<S>, dy, y, dz.as<S>(), size);
    f(y ? dz.as<S>() : dy);
  }

  struct Way {
    int tile = kAnyTile;
    DnnPlanRef plan = nullptr;
  };

  // Runs ours(products) or library(plan). `result` is null if only the bias gradient is needed.
  void take(const DnnConvolution& c, const DnnOperands& o, const S* result, const auto& ours,
            const auto& library) const {
    const auto run = [&](const Way& way) {
      if (way.plan) return library(*way.plan);
      Products<D> own = products();
      own.tile = way.tile;
      ours(own);
    };
    const bool wanted = result != nullptr && g.images > 0;
    const bool fits = wanted && g.in > 0 && g.out > 0 && gatherable(g, g.images) &&
                      aligned(o.data, 16) && aligned(o.weight, 16) && aligned(o.result, 16) &&
                      aligned(o.bias, 16);
    const Way way = tuning::kept<Way>([&]() -> Way {
      if (wanted && (tuning::measures() || tuning::choices().any())) [[unlikely]]
        if (const std::optional<Way> chosen = choice(c, fits, run)) return *chosen;
      return {kAnyTile, fits && dnn_convolution_wins(c) ? dnn_plan(call, c) : nullptr};
    });
    // A version of a recorded call may have arrays that are not aligned.
    run(way.plan && !fits ? Way{} : way);
  }

  // Empty if nothing was chosen and nothing can be measured now.
  std::optional<Way> choice(const DnnConvolution& c, bool fits, const auto& run) const {
    const auto key = [&] { return way_key(c, context_info(call.stream.context).name, fits); };
    std::optional<ConvolutionWay> way = chosen_ways().find(
        way_numbers(c, call.stream.context.index, fits), key,
        [&](const std::string& name) { return convolution_way(name, kTiles, key()); });
    if (!way) {
      if (!tuning::measures() || captured()) return {};
      way = measured(c, key(), fits, run);
    }
    if (way->plan.empty()) return Way{way->tile};
    if (DnnPlanRef plan = fits ? dnn_plan(call, c, way->plan) : nullptr)
      return Way{kAnyTile, std::move(plan)};
    throw no_way(way->plan, key());
  }

  ConvolutionWay measured(const DnnConvolution& c, const std::string& key, bool fits,
                          const auto& run) const {
    constexpr size_t kMostPlans = 8;
    std::vector<std::string> names{"ours"};
    std::vector<Way> ways(1);
    for (int tile = 0; tile < kTiles && !products().direct(); ++tile) {
      names.push_back(ours_name(tile));
      ways.push_back({tile});
    }
    if (fits)
      for (DnnPlanRef& plan : dnn_plans(call, c, kMostPlans)) {
        names.push_back(dnn_name(*plan));
        ways.push_back({kAnyTile, std::move(plan)});
      }
    const UnlockedStream others_launch(call.stream);
    const auto milliseconds = [&](size_t i) {
      std::optional<tuning::Timed> timed;
      others_launch.enqueue([&] { timed.emplace(call, [&] { run(ways[i]); }); });
      return timed->milliseconds();
    };
    return convolution_way(tuning::choices().fastest(key, names, milliseconds), kTiles, key);
  }

  bool captured() const {
    cudaStreamCaptureStatus status{};
    LOCUS_CUDA(cudaStreamIsCapturing(stream(call), &status));
    return status != cudaStreamCaptureStatusNone;
  }
};

}  // namespace

extern constinit const KernelList convolution = convolution_kernels<Gpu>();

}  // namespace locus::cuda
