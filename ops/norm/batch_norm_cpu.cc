#include <locus/ops/norm/norm_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

// The statistics of all channels, one array each. If runs are short, arrays have all columns: each
// channel `inner` times.
template <class A>
class Table {
 public:
  static constexpr int kRows = 7;  // those of EachStat, gamma, beta

  Table(const Call& call, const Along& s)
      : copies_(s.inner < kSideBySide ? s.inner : 1),
        width_(s.n * copies_),
        memory_(call, static_cast<size_t>(kRows * width_) * sizeof(A)) {}

  void set(int64_t c, const NormStat<A>& s, A gamma, A beta) const {
    const A values[kRows] = {s.high, s.low, s.rstd, s.mean_dy, s.mean_hat, gamma, beta};
    for (int k = 0; k < kRows; ++k)
      for (int64_t i = 0; i < copies_; ++i)
        memory_.as<A>()[k * width_ + c * copies_ + i] = values[k];
  }
  const A* row(int k) const { return memory_.as<A>() + k * width_; }
  EachStat<A> stats() const { return {row(0), row(1), row(2), row(3), row(4)}; }
  Each<A> gamma() const { return {row(5)}; }
  Each<A> beta() const { return {row(6)}; }

 private:
  const int64_t copies_, width_;
  Scratch memory_;
};

// Calls f(place, n, statistics, gamma, beta) for runs that cover all elements.
template <class A>
void for_runs(const Along& s, const Table<A>& t, const auto& f) {
  if (s.inner >= kSideBySide) {
    parallel_ranges(s.outer * s.n, grain(2 * s.inner), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t c = r % s.n;
        f(r * s.inner, s.inner, Same<NormStat<A>>{t.stats()(c)}, Same<A>{t.gamma()(c)},
          Same<A>{t.beta()(c)});
      }
    });
  } else {
    const int64_t width = s.n * s.inner;
    parallel_ranges(s.outer, grain(2 * width), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) f(o * width, width, t.stats(), t.gamma(), t.beta());
    });
  }
}

template <class T>
void apply_all(const Call& call, const Along& s, const Table<Compute<T>>& t) {
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  for_runs(s, t, [&](int64_t at, int64_t n, auto stat, auto gamma, auto beta) {
    apply_run(x + at, n, stat, gamma, beta, y + at);
  });
}

// The moments of n columns of `rows` rows, `width` apart, added in V.
template <class V>
struct ColumnMoments {
  alignas(64) V mean[kWide], squares[kWide];
  V count;

  template <class T>
  ColumnMoments(const T* x, int64_t width, int64_t n, int64_t rows) : count(static_cast<V>(rows)) {
    using A = Compute<T>;
    alignas(64) A first[kWide];
    alignas(64) Buffer<T> memory;
    for (int64_t o = 0; o < rows; ++o) {
      const A* v = loaded(x + o * width, n, memory);
      if (o == 0)
        for (int64_t k = 0; k < n; ++k) {
          first[k] = v[k];
          mean[k] = squares[k] = 0;
        }
      add_moments(v, n, o + 1, first, mean, squares);
    }
  }
  Moments<V> operator[](int64_t k) const { return {count, mean[k], squares[k]}; }
};

// Calls set(c, mean, variance) for each channel.
template <class T>
void statistics_of(const Call& call, const Along& s, const auto& set) {
  using A = Compute<T>;
  const T* x = call.in[0].as<T>();
  for_channels<Moments<double>>(
      call, s,
      [&](int64_t c, int64_t o) { return moments_of<true>(x + (o * s.n + c) * s.inner, s.inner); },
      [&](int64_t j, int64_t n, int64_t begin, int64_t end, Moments<double>* all) {
        const int64_t width = s.n * s.inner;
        const T* const from = x + begin * width + j;
        const ColumnMoments<A> part(from, width, n, end - begin);
        const auto add = [&](int64_t k, const Moments<double>& m) {
          all[k] = combine(all[k], widened(convert<A>(from[k]), m));
        };
        int lost = 0;
        if constexpr (!kSame<A, double>)
          for (int64_t k = 0; k < n; ++k) lost |= !part[k].kept();
        if (!lost) {
          for (int64_t k = 0; k < n; ++k) add(k, part[k]);
        } else {
          const ColumnMoments<double> wide(from, width, n, end - begin);
          for (int64_t k = 0; k < n; ++k)
            if (part[k].kept())
              add(k, part[k]);
            else
              add(k, wide[k]);
        }
      },
      [&](int64_t c, const Moments<double>& m) { set(c, mean(m), variance(m)); });
}

struct Backend {
  template <class T>
  static void forward(const Call& call) {
    using A = Compute<T>;
    const BatchNormAttrs& attrs = call.attributes<BatchNormAttrs>();
    const Along s(call.in[0].meta, attrs.axis);
    const Running running(call, s.rows());
    const A *gamma = call.in[1].as<A>(), *beta = call.in[2].as<A>();
    double *const means = call.out[1].as<double>(), *const variances = call.out[2].as<double>();
    const Table<A> table(call, s);
    statistics_of<T>(call, s, [&](int64_t c, double mean, double variance) {
      means[c] = mean;
      variances[c] = variance;
      running.step(c, mean, variance);
      table.set(c, NormStat<A>::of(mean, variance, attrs.epsilon), gamma[c], beta[c]);
    });
    apply_all<T>(call, s, table);
  }

  template <class T>
  static void statistics(const Call& call) {
    const Along s(call.in[0].meta, call.attributes<NormAttrs>().axis);
    double *const means = call.out[0].as<double>(), *const variances = call.out[1].as<double>();
    statistics_of<T>(call, s, [&](int64_t c, double mean, double variance) {
      means[c] = mean;
      variances[c] = variance;
    });
  }

  template <class T>
  static void inference(const Call& call) {
    if (call.in[3].meta.dtype == f64)
      inference_by<T, double>(call);
    else
      inference_by<T, float>(call);
  }
  template <class T, class S>
  static void inference_by(const Call& call) {
    using A = Compute<T>;
    const NormAttrs& attrs = call.attributes<NormAttrs>();
    const Along s(call.in[0].meta, attrs.axis);
    const A *gamma = call.in[1].as<A>(), *beta = call.in[2].as<A>();
    const S *means = call.in[3].as<S>(), *variances = call.in[4].as<S>();
    const Table<A> table(call, s);
    for (int64_t c = 0; c < s.n; ++c)
      table.set(c,
                NormStat<A>::of(static_cast<double>(means[c]), static_cast<double>(variances[c]),
                                attrs.epsilon),
                gamma[c], beta[c]);
    apply_all<T>(call, s, table);
  }

  template <class T>
  static void backward(const Call& call) {
    using A = Compute<T>;
    const NormGradAttrs& attrs = call.attributes<NormGradAttrs>();
    const Along s(call.in[1].meta, attrs.axis);
    const T *dy = call.in[0].as<T>(), *x = call.in[1].as<T>();
    const A* gamma = call.in[2].as<A>();
    const double *means = call.in[3].as<double>(), *variances = call.in[4].as<double>();
    const auto stat_of = [&](int64_t c) {
      return NormStat<A>::of(means[c], variances[c], attrs.epsilon);
    };
    const Table<A> table(call, s);
    for (int64_t c = 0; c < s.n; ++c) table.set(c, stat_of(c), gamma[c], 0);
    const double count = static_cast<double>(s.outer * s.inner);
    if (attrs.gamma || attrs.beta || !attrs.given)
      for_channel_sums(
          call, s, dy, x, [&](int64_t c, int64_t) { return table.stats()(c); },
          [&](int64_t, int64_t j, int64_t n, const auto& f) {
            f(int64_t{0}, n, from(table.stats(), j));
          },
          [&](int64_t c, const NormSums& sums) {
            if (attrs.gamma) call.out[1].as<A>()[c] = static_cast<A>(sums.hat);
            if (attrs.beta) call.out[2].as<A>()[c] = static_cast<A>(sums.dy);
            if (attrs.given) return;
            NormStat<A> stat = stat_of(c);
            const double g = gamma[c];
            stat.share({g * sums.dy, g * sums.hat}, count);
            table.set(c, stat, gamma[c], 0);
          });
    if (!attrs.data) return;
    if (attrs.given)
      for (int64_t c = 0; c < s.n; ++c) table.set(c, stat_of(c).given(), gamma[c], 0);
    T* dx = call.out[0].as<T>();
    for_runs(s, table, [&](int64_t at, int64_t n, auto stat, auto g, auto beta) {
      if (attrs.given)
        apply_run(dy + at, n, stat, g, beta, dx + at);
      else
        slope_run(dy + at, x + at, n, stat, g, dx + at);
    });
  }
};

}  // namespace

extern constinit const KernelList batch_norm = batch_norm_kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
