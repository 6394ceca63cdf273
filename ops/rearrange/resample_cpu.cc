#include <locus/core/scratch.h>
#include <locus/devices/cpu.h>
#include <locus/ops/rearrange/resample_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kGrain = 16384;  // terms worth a thread
constexpr int64_t kBlock = 256;    // adjacent elements of one place

// f(first element of a block, its length) for adjacent elements.
LOCUS_HD void for_blocks(int64_t inner, const auto& f) {
  for (int64_t at = 0; at < inner; at += kBlock) f(at, inner - at < kBlock ? inner - at : kBlock);
}

struct Backend {
  template <class T, class M>
  static void fold(const Call& call) {
    using A = Compute<T>;
    const M& map = call.attributes<M>();
    const Along p(call.out[0].meta, map.axis);
    const int64_t m = call.in[0].meta.shape[map.axis];
    const T* in = call.in[0].as<T>();
    T* out = call.out[0].as<T>();
    const int64_t terms = (p.n == 0 ? 0 : m / p.n + 1) * p.inner;
    parallel_ranges(p.outer * p.n, kGrain / (terms + 1) + 1, [&](int64_t begin, int64_t end) {
      A sum[kBlock];
      for (int64_t at = begin; at < end; ++at) {
        const T* from = in + at / p.n * m * p.inner;
        for_blocks(p.inner, [&](int64_t first, int64_t n) {
          for (int64_t k = 0; k < n; ++k) sum[k] = 0;
          map.each(at % p.n, p.n, m, [&](int64_t i, auto weight) {
            const T* const row = from + i * p.inner + first;
            const A w = static_cast<A>(weight);
            for (int64_t k = 0; k < n; ++k) sum[k] += w * static_cast<A>(row[k]);
          });
          for (int64_t k = 0; k < n; ++k) out[at * p.inner + first + k] = static_cast<T>(sum[k]);
        });
      }
    });
  }

  template <class T>
  static void linear(const Call& call) {
    using A = Compute<T>;
    const Linear& map = call.attributes<Linear>();
    const Along p(call.out[0].meta, map.axis);
    const int64_t n = call.in[0].meta.shape[map.axis];
    const T* in = call.in[0].as<T>();
    T* out = call.out[0].as<T>();
    if (p.outer * p.n * p.inner == 0) return;
    const Scratch places(call, static_cast<size_t>(p.n) * sizeof(Between));
    Between* const table = places.as<Between>();
    for (int64_t i = 0; i < p.n; ++i) table[i] = map.between(i, n, p.n);
    parallel_ranges(p.outer * p.n, kGrain / p.inner + 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const Between& b = table[at % p.n];
        const T* const x = in + (at / p.n * n + b.first) * p.inner;
        const T* const next = b.first + 1 < n ? x + p.inner : x;
        T* const to = out + at * p.inner;
        const A second = static_cast<A>(b.weight), first = static_cast<A>(1 - b.weight);
        if (b.weight == 0) {
          for (int64_t k = 0; k < p.inner; ++k) to[k] = x[k];
          continue;
        }
        for (int64_t k = 0; k < p.inner; ++k)
          to[k] = static_cast<T>(first * static_cast<A>(x[k]) + second * static_cast<A>(next[k]));
      }
    });
  }

  template <class T>
  static void columns(const Call& call) {
    using A = Compute<T>;
    const ColumnsWalk w(call.attributes<Columns>(), call.in[0].meta, call.out[0].meta);
    const int64_t positions = w.kernel[0] * w.kernel[1] * w.kernel[2];
    const T* in = call.in[0].as<T>();
    T* out = call.out[0].as<T>();
    const int64_t rows = w.n[0] * w.n[1];
    const int64_t terms = w.n[2] * positions;
    parallel_ranges(w.planes * rows, kGrain / (terms + 1) + 1, [&](int64_t begin, int64_t end) {
      A sum[kBlock];
      for (int64_t at = begin; at < end; ++at)
        for_blocks(w.n[2], [&](int64_t first, int64_t n) {
          for (int64_t k = 0; k < n; ++k) sum[k] = 0;
          const T* const plane = in + at / rows * positions * w.window_count();
          each_row(w, at % rows, [&](int64_t position, int64_t window, int64_t shift) {
            const T* const row = plane + position * w.window_count() + window;
            const int64_t step = w.stride[2];
            const int64_t before = first - shift;  // of the first window inside
            int64_t o = before <= 0 ? 0 : (before + step - 1) / step;
            for (; o < w.windows[2] && o * step + shift < first + n; ++o)
              sum[o * step + shift - first] += static_cast<A>(row[o]);
          });
          for (int64_t k = 0; k < n; ++k) out[at * w.n[2] + first + k] = static_cast<T>(sum[k]);
        });
    });
  }

 private:
  // f(position in the window, first window, shift): window o of this row of windows adds to element
  // o * stride + shift of the row.
  LOCUS_HD static void each_row(const ColumnsWalk& w, int64_t row, const auto& f) {
    int64_t window[2];
    const auto finds = [&](int s, int64_t position, int64_t at) {
      const int64_t distance = at + w.pad[s] - position * w.dilate[s];
      window[s] = distance / w.stride[s];
      return distance >= 0 && distance % w.stride[s] == 0 && window[s] < w.windows[s];
    };
    for (int64_t a = 0; a < w.kernel[0]; ++a) {
      if (!finds(0, a, row / w.n[1])) continue;
      for (int64_t b = 0; b < w.kernel[1]; ++b) {
        if (!finds(1, b, row % w.n[1])) continue;
        for (int64_t c = 0; c < w.kernel[2]; ++c)
          f((a * w.kernel[1] + b) * w.kernel[2] + c,
            (window[0] * w.windows[1] + window[1]) * w.windows[2], c * w.dilate[2] - w.pad[2]);
      }
    }
  }
};

}  // namespace

extern constinit const KernelList resample = resample_kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
