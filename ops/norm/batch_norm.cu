// Batch normalisation: the sums of each channel, then one pass over the elements with a table of
// what belongs to each channel.
#include <locus/ops/norm/norm_cuda.h>

namespace locus::cuda {
namespace {

// Row k of the table is an array of one number a channel.
constexpr int kRows = 7;
enum { kHigh, kLow, kRstd, kMeanDy, kMeanHat, kGamma, kBeta };

template <class A>
struct Table {
  A* memory;
  int64_t channels;

  __device__ void set(int64_t c, const NormStat<A>& s, A gamma, A beta) const {
    const A values[kRows] = {s.high, s.low, s.rstd, s.mean_dy, s.mean_hat, gamma, beta};
    for (int k = 0; k < kRows; ++k) memory[k * channels + c] = values[k];
  }
};

// The table for given statistics; beta may be null.
template <class A, class S>
__global__ void __launch_bounds__(kBlock)
    table_kernel(const S* means, const S* variances, const A* gamma, const A* beta, double epsilon,
                 const __grid_constant__ Table<A> table) {
  for (int64_t c = first_thread(); c < table.channels; c += all_threads())
    table.set(
        c,
        NormStat<A>::of(static_cast<double>(means[c]), static_cast<double>(variances[c]), epsilon),
        gamma[c], beta ? beta[c] : A(0));
}

template <class A>
struct Finish {
  double *means, *variances;
  const A *gamma, *beta;
  double epsilon;
  Table<A> table;

  __device__ void operator()(int64_t c, const Moments<double>& m) const {
    means[c] = mean(m);
    variances[c] = variance(m);
    table.set(c, NormStat<A>::of(means[c], variances[c], epsilon), gamma[c], beta[c]);
  }
};

template <class A>
struct OfChannel {
  const double *means, *variances;
  double epsilon;
  NormStat<A> stat;

  __device__ void start(int64_t c) { stat = NormStat<A>::of(means[c], variances[c], epsilon); }
  __device__ NormStat<A> operator()(int64_t, int64_t) const { return stat; }
};
template <class A>
struct FinishGrad {
  A *dgamma, *dbeta;  // null: not asked for
  const A* gamma;
  OfChannel<A> stats;
  double count;
  bool given;
  Table<A> table;

  __device__ void operator()(int64_t c, const NormSums& sums) const {
    if (dgamma) dgamma[c] = static_cast<A>(sums.hat);
    if (dbeta) dbeta[c] = static_cast<A>(sums.dy);
    OfChannel<A> of = stats;
    of.start(c);
    const double g = static_cast<double>(gamma[c]);
    if (!given) of.stat.share({g * sums.dy, g * sums.hat}, count);
    table.set(c, of.stat, gamma[c], A(0));
  }
};

// y of x, or, with dy, dx. kN elements at once, of kN channels (kLast) or of one.
template <class T, int kN, bool kLast, bool kBackward>
__global__ void __launch_bounds__(kBlock)
    apply_kernel(const T* __restrict__ x, const T* __restrict__ dy, T* __restrict__ y,
                 const __grid_constant__ Table<Compute<T>> table, int64_t inner, int64_t size) {
  using A = Compute<T>;
  using P = Pack<T, kN>;
  constexpr int kC = kLast ? kN : 1;
  const bool narrow = size >> 31 == 0;
  for (int64_t p = first_thread() * kN; p < size; p += all_threads() * kN) {
    const int64_t c = narrow ? uint32_t(p) / uint32_t(inner) % uint32_t(table.channels)
                             : p / inner % table.channels;
    const auto row = [&](int k) {
      return *reinterpret_cast<const Pack<A, kC>*>(table.memory + k * table.channels + c);
    };
    P v = *reinterpret_cast<const P*>(x + p), d;
    if constexpr (kBackward) d = *reinterpret_cast<const P*>(dy + p);
    const auto high = row(kHigh), low = row(kLow), rstd = row(kRstd), gamma = row(kGamma);
    const auto beta = row(kBackward ? kMeanDy : kBeta), hat = row(kBackward ? kMeanHat : kBeta);
#pragma unroll
    for (int k = 0; k < kN; ++k) {
      const int i = kLast ? k : 0;
      const NormStat<A> stat{high.v[i], low.v[i], rstd.v[i], beta.v[i], hat.v[i]};
      const A e = convert<A>(v.v[k]);
      if constexpr (kBackward)
        v.v[k] = convert<T>(stat.slope(convert<A>(d.v[k]), e, gamma.v[i]));
      else
        v.v[k] = convert<T>(stat.apply(e, gamma.v[i], beta.v[i]));
    }
    *reinterpret_cast<P*>(y + p) = v;
  }
}

template <bool kBackward, class T>
void apply_all(const Call& call, const Along& s, const Table<Compute<T>>& table, const T* x,
               const T* dy, T* y) {
  const int64_t size = s.outer * s.n * s.inner;
  if (size == 0) return;
  constexpr int kN = 16 / sizeof(T);
  const bool whole = aligned(x, 16) && aligned(y, 16) && aligned(dy, 16);
  const auto run = [&](auto kernel, int64_t threads) {
    launch(call.stream, threads, kernel, x, dy, y, table, s.inner, size);
  };
  if (whole && s.inner % kN == 0)
    run(apply_kernel<T, kN, false, kBackward>, size / kN);
  else if (whole && s.inner == 1 && s.n % kN == 0)
    run(apply_kernel<T, kN, true, kBackward>, size / kN);
  else
    run(apply_kernel<T, 1, false, kBackward>, size);
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    update_kernel(T* running_mean, T* running_var, const double* mean, const double* var,
                  T momentum, int64_t n) {
  for (int64_t c = first_thread(); c < n; c += all_threads()) {
    running_mean[c] = running_average(running_mean[c], mean[c], momentum);
    running_var[c] = running_average(running_var[c], var[c], momentum);
  }
}

struct Backend {
  template <class T>
  static void forward(const Call& call) {
    using A = Compute<T>;
    const NormAttrs& attrs = call.attributes<NormAttrs>();
    const Along s(call.in[0].meta, attrs.axis);
    const T* x = call.in[0].as<T>();
    const Scratch scratch(call, static_cast<size_t>(kRows * s.n) * sizeof(A));
    const Table<A> table{scratch.as<A>(), s.n};
    for_channels(call, s, AddMoments<T>{x, 0, {}, 0},
                 Finish<A>{call.out[1].as<double>(), call.out[2].as<double>(), call.in[1].as<A>(),
                           call.in[2].as<A>(), attrs.epsilon, table});
    apply_all<false, T>(call, s, table, x, nullptr, call.out[0].as<T>());
  }

  template <class T>
  static void inference(const Call& call) {
    using A = Compute<T>;
    const NormAttrs& attrs = call.attributes<NormAttrs>();
    const Along s(call.in[0].meta, attrs.axis);
    const Scratch scratch(call, static_cast<size_t>(kRows * s.n) * sizeof(A));
    const Table<A> table{scratch.as<A>(), s.n};
    launch(call.stream, s.n, table_kernel<A, A>, call.in[3].as<const A>(), call.in[4].as<const A>(),
           call.in[1].as<const A>(), call.in[2].as<const A>(), attrs.epsilon, table);
    apply_all<false, T>(call, s, table, call.in[0].as<T>(), nullptr, call.out[0].as<T>());
  }

  template <class T>
  static void backward(const Call& call) {
    using A = Compute<T>;
    const NormGradAttrs& attrs = call.attributes<NormGradAttrs>();
    const Along s(call.in[1].meta, attrs.axis);
    const T *dy = call.in[0].as<T>(), *x = call.in[1].as<T>();
    const A* gamma = call.in[2].as<A>();
    const Scratch scratch(call, static_cast<size_t>(kRows * s.n) * sizeof(A));
    const Table<A> table{scratch.as<A>(), s.n};
    const OfChannel<A> stats{call.in[3].as<double>(), call.in[4].as<double>(), attrs.epsilon, {}};
    if (attrs.gamma || attrs.beta || !attrs.given)
      for_channels(call, s, AddSums<T, OfChannel<A>>{dy, x, stats, 0, 0},
                   FinishGrad<A>{attrs.gamma ? call.out[1].as<A>() : nullptr,
                                 attrs.beta ? call.out[2].as<A>() : nullptr, gamma, stats,
                                 static_cast<double>(s.outer * s.inner), attrs.given, table});
    else
      launch(call.stream, s.n, table_kernel<A, double>, stats.means, stats.variances, gamma,
             static_cast<const A*>(nullptr), attrs.epsilon, table);
    if (attrs.data) apply_all<true, T>(call, s, table, x, dy, call.out[0].as<T>());
  }

  template <class T>
  static void update(const Call& call) {
    const int64_t n = call.out[0].meta.size();
    launch(call.stream, n, update_kernel<T>, call.out[0].as<T>(), call.out[1].as<T>(),
           call.in[2].as<const double>(), call.in[3].as<const double>(),
           static_cast<T>(call.attributes<BatchNormUpdateAttrs>().momentum), n);
  }
};

}  // namespace

extern constinit const KernelList batch_norm = batch_norm_kernels<Backend>();

}  // namespace locus::cuda
