#include <locus/devices/cpu.h>
#include <locus/ops/random/lanes.h>
#include <locus/ops/random/random_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kGrain = 1024;  // blocks

struct Backend {
  template <class T, template <class> class Distribution>
  static void draw(const Call& call) {
    using D = Distribution<T>;
    constexpr int kCount = D::kCount;
    const RandomAttrs& a = call.attributes<RandomAttrs>();
    const PhiloxKey key = a.key.now();
    const D distribution(a);
    const int64_t n = call.out[0].meta.size();
    T* const out = call.out[0].as<T>();
    parallel_ranges((n + kCount - 1) / kCount, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kLanes) {
        const BlockLanes lanes(key, static_cast<uint64_t>(i));
        T values[kLanes * kCount];
        for (int k = 0; k < kLanes; ++k) distribution.draw(lanes[k], values + k * kCount);
        const int64_t last = i + kLanes < end ? i + kLanes : end;
        const int64_t at = i * kCount, stop = last * kCount < n ? last * kCount : n;
        if (stop - at == kLanes * kCount) {
          for (int k = 0; k < kLanes * kCount; ++k) out[at + k] = values[k];
        } else {
          for (int64_t k = 0; at + k < stop; ++k) out[at + k] = values[k];
        }
      }
    });
  }

  template <class D>
  static void check(const Call& call, int input) {
    const double* const v = call.in[input].as<double>();
    const int64_t n = call.in[input].meta.size();
    for (int64_t i = 0; i < n; ++i)
      if (!D::valid(v[i])) detail::throw_bad_parameter(D::kText, input, i, v[i]);
  }

  template <class From>
  static void draw_each(const Call& call, const Live<PhiloxKey>& live, const From& from) {
    const PhiloxKey key = live.now();
    const View& out = call.out[0];
    const auto one = from.build(0);
    constexpr int kFirst = From::D::kFirst;
    parallel_ranges(out.meta.size(), kGrain / 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kLanes) {
        PhiloxBlock first[kLanes][kFirst];
        double normal[kLanes][kFirst];
        for (int part = 0; part < kFirst; ++part) {
          const BlockLanes lanes(key, static_cast<uint64_t>(i), static_cast<uint32_t>(2 * part));
          double normals[kLanes];
          if constexpr (From::D::kNormals)
            for (int k = 0; k < kLanes; ++k) normals[k] = detail::normal_of(lanes[k]);
          for (int k = 0; k < kLanes; ++k) {
            first[k][part] = lanes[k];
            if constexpr (From::D::kNormals) normal[k][part] = normals[k];
          }
        }
        for (int k = 0; k < kLanes && i + k < end; ++k) {
          const ElementBlocks blocks{key, static_cast<uint64_t>(i + k)};
          const double v =
              (from.each() ? from.build(i + k) : one).draw(blocks, first[k], normal[k]);
          store(out.meta.dtype, out.data, i + k, v);
        }
      }
    });
  }

  static void multinomial(const Call& call) {
    const RandomAttrs& a = call.attributes<RandomAttrs>();
    const PhiloxKey key = a.key.now();
    const View& out = call.out[0];
    const int64_t count = call.in[0].meta.size(), rows = count ? out.meta.size() / count : 0;
    const double* const chances = call.in[0].as<double>();
    parallel_ranges(rows, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        draw_multinomial(
            a.low, chances, count, {key, static_cast<uint64_t>(i)},
            [&](int64_t k, double v) { store(out.meta.dtype, out.data, i * count + k, v); });
    });
  }

  template <class T>
  static void choice(const Call& call) {
    const PhiloxKey key = call.attributes<RandomAttrs>().key.now();
    const int64_t n = call.out[0].meta.size(), count = call.in[0].meta.size();
    const double* const sums = call.in[0].as<double>();
    T* const out = call.out[0].as<T>();
    parallel_ranges((n + 1) / 2, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kLanes) {
        const BlockLanes lanes(key, static_cast<uint64_t>(i));
        for (int k = 0; k < kLanes && i + k < end; ++k)
          for (int64_t at = 2 * (i + k), half = 0; half < 2 && at + half < n; ++half)
            out[at + half] = static_cast<T>(place_of(
                detail::fraction(detail::pair(lanes[k], static_cast<int>(half))), sums, count));
      }
    });
  }
};

}  // namespace

extern constinit const KernelList random = random_kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
