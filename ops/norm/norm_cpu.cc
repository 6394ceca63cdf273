// Normalisations with statistics per row: layer, group, instance, rms.
#include <locus/ops/norm/norm_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

// Calls one() or each() with (begin, length, c) for the pieces of row r: one() if gamma is that of
// channel c, each() if gamma is contiguous from c on.
void for_gamma(const NormRows& s, int64_t r, const auto& one, const auto& each) {
  const int64_t c = r % s.groups * s.each;
  if (s.inner == 1) return each(int64_t{0}, s.n, c);
  for (int64_t k = 0; k < s.each; ++k) one(k * s.inner, s.inner, c + k);
}

struct Backend {
  template <bool kCentred, class T>
  static void forward(const Call& call) {
    using A = Compute<T>;
    const NormAttrs& attrs = call.attributes<NormAttrs>();
    const NormRows s(call.in[0].meta, attrs);
    const T* x = call.in[0].as<T>();
    const A *gamma = call.in[1].as<A>(), *beta = kCentred ? call.in[2].as<A>() : nullptr;
    T* y = call.out[0].as<T>();
    double* const means = kCentred ? call.out[1].as<double>() : nullptr;
    double* const variances = call.out[kCentred ? 2 : 1].as<double>();
    parallel_ranges(s.rows, grain(6 * s.n), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const Moments<double> m = moments_of<kCentred>(x + r * s.n, s.n);
        if (kCentred) means[r] = mean(m);
        variances[r] = variance(m);
        const Same<NormStat<A>> stat{
            NormStat<A>::of(kCentred ? means[r] : 0, variances[r], attrs.epsilon)};
        const int64_t at = r * s.n;
        for_gamma(
            s, r,
            [&](int64_t j, int64_t n, int64_t c) {
              apply_run(x + at + j, n, stat, Same<A>{gamma[c]}, Same<A>{kCentred ? beta[c] : 0},
                        y + at + j);
            },
            [&](int64_t j, int64_t n, int64_t c) {
              if constexpr (kCentred)
                apply_run(x + at + j, n, stat, Each<A>{gamma + c}, Each<A>{beta + c}, y + at + j);
              else
                apply_run(x + at + j, n, stat, Each<A>{gamma + c}, Same<A>{0}, y + at + j);
            });
      }
    });
  }

  template <bool kCentred, class T>
  static void backward(const Call& call) {
    using A = Compute<T>;
    const NormGradAttrs& attrs = call.attributes<NormGradAttrs>();
    const NormRows s(call.in[1].meta, attrs);
    const T *dy = call.in[0].as<T>(), *x = call.in[1].as<T>();
    const A* gamma = call.in[2].as<A>();
    const double* const means = kCentred ? call.in[3].as<double>() : nullptr;
    const double* const variances = call.in[kCentred ? 4 : 3].as<double>();
    const auto stat_of = [&](int64_t r) {
      return NormStat<A>::of(kCentred ? means[r] : 0, variances[r], attrs.epsilon);
    };
    if (attrs.data) {
      T* dx = call.out[0].as<T>();
      parallel_ranges(s.rows, grain(8 * s.n), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          Same<NormStat<A>> stat{stat_of(r)};
          const int64_t at = r * s.n;
          NormSums sums{};
          const auto add = [&](int64_t j, int64_t n, auto g) {
            sums = combine(sums, sums_of(dy + at + j, x + at + j, n, stat.value, g));
          };
          for_gamma(
              s, r, [&](int64_t j, int64_t n, int64_t c) { add(j, n, Same<A>{gamma[c]}); },
              [&](int64_t j, int64_t n, int64_t c) { add(j, n, Each<A>{gamma + c}); });
          if (!kCentred) sums.dy = 0;
          stat.value.share(sums, static_cast<double>(s.n));
          const auto write_run = [&](int64_t j, int64_t n, auto g) {
            slope_run(dy + at + j, x + at + j, n, stat, g, dx + at + j);
          };
          for_gamma(
              s, r, [&](int64_t j, int64_t n, int64_t c) { write_run(j, n, Same<A>{gamma[c]}); },
              [&](int64_t j, int64_t n, int64_t c) { write_run(j, n, Each<A>{gamma + c}); });
        }
      });
    }
    if (!attrs.gamma && !attrs.beta) return;
    const int64_t span = s.each * s.inner;  // columns with equal statistics
    for_channel_sums(
        call, Along(call.in[1].meta, attrs.axis), dy, x,
        [&](int64_t c, int64_t o) { return stat_of(o * s.groups + c / s.each); },
        [&](int64_t o, int64_t j, int64_t n, const auto& f) {
          for (int64_t k = 0; k < n;) {
            const int64_t group = (j + k) / span, end = (group + 1) * span - j;
            const int64_t length = (end < n ? end : n) - k;
            f(k, length, Same<NormStat<A>>{stat_of(o * s.groups + group)});
            k += length;
          }
        },
        [&](int64_t c, const NormSums& sums) {
          if (attrs.gamma) call.out[1].as<A>()[c] = static_cast<A>(sums.hat);
          if (kCentred && attrs.beta) call.out[2].as<A>()[c] = static_cast<A>(sums.dy);
        });
  }
};

}  // namespace

extern constinit const KernelList row_norm = row_norm_kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
