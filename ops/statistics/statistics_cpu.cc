#include <locus/ops/kernel/copy.h>
#include <locus/ops/reduce/reduce_cpu.h>
#include <locus/ops/statistics/nan.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

// Counts words that are not 0. Bits outside the mask, the sign of a floating 0, do not count.
template <class W>
struct Counter {
  static constexpr int64_t kLanes = 128 / sizeof(W), kMost = 255;  // a lane of a byte counts to 255

  const W* x;
  int64_t* out;
  W mask;

  __attribute__((noinline)) int64_t run(const W* at, int64_t n) const {
    const W bits = mask;
    int64_t total = 0, i = 0;
    while (i + kLanes <= n) {
      W lane[kLanes] = {};
      const int64_t left = (n - i) / kLanes, rows = left < kMost ? left : kMost;
      for (int64_t r = 0; r < rows; ++r, i += kLanes)
        for (int64_t k = 0; k < kLanes; ++k)
          lane[k] = static_cast<W>(lane[k] + ((at[i + k] & bits) != 0));
      for (int64_t k = 0; k < kLanes; ++k) total += static_cast<int64_t>(lane[k]);
    }
    for (; i < n; ++i) total += (at[i] & bits) != 0;
    return total;
  }
  // Elements begin .. end of the output at `base`.
  int64_t count(const ReduceWalk& p, const W* base, int64_t begin, int64_t end) const {
    int64_t total = 0;
    if (begin < end)
      for_rows(p.reduce.path(0), begin, end - begin,
               [&](int64_t at, int64_t, int64_t length, int64_t stride) {
                 if (stride == 1) {
                   total += run(base + at, length);
                 } else {
                   for (int64_t i = 0; i < length; ++i)
                     total += (base[at + i * stride] & mask) != 0;
                 }
               });
    return total;
  }

  void rows(const ReduceWalk& p) const {
    if (splits_outputs(p.outputs, p.count)) {
      for (int64_t o = 0; o < p.outputs; ++o) {
        const Offsets at = output_offsets(p, o, p.keep.rank);
        int64_t total = 0;
        parallel_ranges(p.count, kParallelWork, [&](int64_t begin, int64_t end) {
          __atomic_fetch_add(&total, count(p, x + at.in, begin, end), __ATOMIC_RELAXED);
        });
        out[at.out] = total;
      }
      return;
    }
    parallel_ranges(p.outputs, grain(p.count), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const Offsets at = output_offsets(p, o, p.keep.rank);
        out[at.out] = count(p, x + at.in, 0, p.count);
      }
    });
  }
  // Neighbouring outputs have neighbouring elements.
  void columns(const ReduceWalk& p) const {
    constexpr int64_t kColumns = 128;
    const int64_t inner = p.width(), apart = p.keep.stride[0][p.keep.rank - 1];
    const int64_t across = (inner + kColumns - 1) / kColumns, tiles = p.outputs / inner * across;
    parallel_ranges(tiles, grain(p.count * kColumns), [&](int64_t t, int64_t end) {
      for (; t < end; ++t) {
        const Offsets at = output_offsets(p, t / across, p.keep.rank - 1);
        const int64_t j = t % across * kColumns,
                      width = inner - j < kColumns ? inner - j : kColumns;
        int64_t total[kColumns] = {};
        for_rows(p.reduce.path(0), 0, p.count,
                 [&](int64_t from, int64_t, int64_t length, int64_t stride) {
                   for (int64_t i = 0; i < length; ++i)
                     add_row(x + at.in + j + from + i * stride, width, total);
                 });
        for (int64_t k = 0; k < width; ++k) out[at.out + (j + k) * apart] = total[k];
      }
    });
  }
  __attribute__((noinline)) void add_row(const W* at, int64_t width,
                                         int64_t* __restrict total) const {
    const W bits = mask;
    for (int64_t k = 0; k < width; ++k) total[k] += (at[k] & bits) != 0;
  }
};

struct CountEngine {
  template <class R, DType>
  static constexpr Kernel kernel() {
    return &run;
  }

 private:
  static void run(const Call& call) {
    const View& in = call.in[0];
    const ReduceWalk p(in, call.attributes<ReduceBy<CountNonzero>>().axes, false);
    by_size(size_of(in.meta.dtype), [&](auto word) {
      using W = decltype(word);
      const Counter<W> counter{in.as<W>(), call.out[0].as<int64_t>(),
                               static_cast<W>(CountWords(in.meta.dtype).mask)};
      if (p.count > 0 && p.width() >= 8 && p.across() == 1 && p.down() != 1)
        counter.columns(p);
      else
        counter.rows(p);
    });
  }
};

}  // namespace

extern constinit const KernelList nan_reductions = formula::kernels_of<Engine>(NanReductions());
extern constinit const KernelList counts = formula::kernels_of<CountEngine>(Counts());

}  // namespace locus::LOCUS_ISA_NAMESPACE
