// Convolutions on the host with one data channel per group: row by row, one tap at a time. Included
// by *_cpu.cc only.
#pragma once

#include <locus/ops/convolution/convolution_stage.h>

namespace locus::LOCUS_ISA_NAMESPACE {

inline bool is_depthwise(const Convolution& g) { return g.in == 1 && g.groups > 1; }

template <class S>
struct Depthwise {
  using T = Compute<S>;
  static constexpr int64_t kChannels = 16;  // with channels last, one cache line

  const Call& call;
  const Convolution g;
  const Planes p{g, 0, 0, g.result[0]};
  int64_t width = g.result[2], step = g.stride[2], size = g.positions();

  // f(row, at) for every row of results. `at` is its first kernel's offset in the planes.
  template <class F>
  LOCUS_HD void each_row(const F& f) const {
    for (int64_t i = 0; i < g.result[0]; ++i)
      for (int64_t j = 0; j < g.result[1]; ++j)
        f((i * g.result[1] + j) * width, p.at(i * g.stride[0], j * g.stride[1], 0));
  }
  // f(tap, at). `at` is the tap's offset in the planes.
  template <class F>
  LOCUS_HD void each_tap(const F& f) const {
    int64_t tap = 0;
    for (int64_t a = 0; a < g.kernel[0]; ++a)
      for (int64_t b = 0; b < g.kernel[1]; ++b)
        for (int64_t c = 0; c < g.kernel[2]; ++c)
          f(tap++, p.at(a * g.dilation[0], b * g.dilation[1], c * g.dilation[2]));
  }
  // f(step), with 1 as a constant.
  template <class F>
  LOCUS_HD void with_step(const F& f) const {
    if (step == 1)
      f(std::integral_constant<int64_t, 1>{});
    else
      f(step);
  }
  // body(image, first channel, last, planes, results), with memory for these channels.
  template <class F>
  void each_block(int64_t images, const F& body) const {
    const int64_t blocks = cuts(g.groups, kChannels);
    const TaskPartition partition(g, images * blocks);
    Parts own;
    own.add<T>(kChannels * p.volume());
    const size_t at = own.add<T>(kChannels * g.out * size);
    const Scratch scratch(call, own.bytes() * static_cast<size_t>(partition.slots()));
    partition.run([&](int64_t task, int64_t slot) {
      char* const mine = scratch.as<char>() + own.bytes() * static_cast<size_t>(slot);
      const int64_t first = task % blocks * kChannels;
      body(task / blocks, first, clamp(first + kChannels, 0, g.groups), reinterpret_cast<T*>(mine),
           reinterpret_cast<T*>(mine + at));
    });
  }

  void forward(const S* x, const S* w, const S* bias, bool relu, S* y) const {
    each_block(g.images, [&](int64_t n, int64_t first, int64_t last, T* planes, T* results) {
      stage(g, x, n, first, last, p, planes);
      const int64_t begin = first * g.out, count = (last - first) * g.out;
      for (int64_t o = 0; o < count; ++o) {
        const T* const plane = planes + o / g.out * p.volume();
        const T start = bias != nullptr ? convert<T>(bias[begin + o]) : T(0);
        each_row([&](int64_t row, int64_t from) {
          T* const to = results + o * size + row;
          for (int64_t k = 0; k < width; ++k) to[k] = start;
          each_tap([&](int64_t tap, int64_t at) {
            const T factor = convert<T>(w[(begin + o) * g.taps() + tap]);
            const T* const source = plane + from + at;
            with_step([&](auto s) {
              for (int64_t k = 0; k < width; ++k) to[k] += factor * source[k * s];
            });
          });
          if (relu)
            for (int64_t k = 0; k < width; ++k) to[k] = to[k] < T(0) ? T(0) : to[k];
        });
      }
      if (!g.channels_last) return convert_run(results, y + g.result_at(n, begin, 0), count * size);
      for (int64_t i = 0; i < size; ++i)
        for (int64_t o = 0; o < count; ++o)
          y[g.result_at(n, begin + o, i)] = convert<S>(results[o * size + i]);
    });
  }

  void data_gradient(const S* dy, const S* y, const S* w, const S* bias, S* dx) const {
    each_block(g.images, [&](int64_t n, int64_t first, int64_t last, T* planes, T* dz) {
      const int64_t begin = first * g.out, end = last * g.out;
      stage_result(g, dy, y, n, begin, end, dz);
      begin_planes(bias, first, last, p, planes);
      for (int64_t o = 0; o < end - begin; ++o) {
        T* const plane = planes + o / g.out * p.volume();
        each_row([&](int64_t row, int64_t from) {
          const T* const source = dz + o * size + row;
          each_tap([&](int64_t tap, int64_t at) {
            const T factor = convert<T>(w[(begin + o) * g.taps() + tap]);
            T* const to = plane + from + at;
            with_step([&](auto s) {
              for (int64_t k = 0; k < width; ++k) to[k * s] += factor * source[k];
            });
          });
        });
      }
      unstage(g, planes, n, first, last, p, bias, dx);
    });
  }

  // One thread sums a channel, image after image.
  void weight_gradient(const S* x, const S* dy, const S* y, S* dw, S* db) const {
    const int64_t taps = g.taps(), all = g.groups * g.out;
    const Scratch scratch(call, static_cast<size_t>(all * (taps + 1)) * sizeof(double));
    double* const sums = scratch.as<double>();  // a channel's taps and bias
    for (int64_t i = 0; i < all * (taps + 1); ++i) sums[i] = 0;
    each_block(1, [&](int64_t, int64_t first, int64_t last, T* planes, T* dz) {
      const int64_t begin = first * g.out, end = last * g.out;
      for (int64_t n = 0; n < g.images; ++n) {
        stage(g, x, n, first, last, p, planes);
        stage_result(g, dy, y, n, begin, end, dz);
        for (int64_t o = begin; o < end; ++o) {
          const T* const results = dz + (o - begin) * size;
          const T* const plane = planes + (o / g.out - first) * p.volume();
          double* const to = sums + o * (taps + 1);
          to[taps] += total(results, size);
          each_tap([&](int64_t tap, int64_t at) { to[tap] += products(results, plane + at); });
        }
      }
    });
    for (int64_t o = 0; o < all; ++o) {
      for (int64_t tap = 0; dw != nullptr && tap < taps; ++tap)
        dw[o * taps + tap] = convert<S>(sums[o * (taps + 1) + tap]);
      if (db != nullptr) db[o] = convert<S>(sums[o * (taps + 1) + taps]);
    }
  }

  // The sum of a channel's results times the plane's elements at a tap.
  double products(const T* results, const T* plane) const {
    constexpr int64_t kLanes = 16;
    double sum = 0;
    for (int64_t i = 0; i < g.result[0]; ++i) {
      T lanes[kLanes] = {};
      for (int64_t j = 0; j < g.result[1]; ++j) {
        const T* const a = results + (i * g.result[1] + j) * width;
        const T* const b = plane + p.at(i * g.stride[0], j * g.stride[1], 0);
        with_step([&](auto s) {
          int64_t k = 0;
          for (; k + kLanes <= width; k += kLanes)
            for (int64_t l = 0; l < kLanes; ++l) lanes[l] += a[k + l] * b[(k + l) * s];
          for (int64_t l = 0; k < width; ++k, ++l) lanes[l] += a[k] * b[k * s];
        });
      }
      for (int64_t l = 0; l < kLanes; ++l) sum += static_cast<double>(lanes[l]);
    }
    return sum;
  }
};

}  // namespace locus::LOCUS_ISA_NAMESPACE
