// Batch normalisation: the sums of each channel, then its elements. One launch if a block can have
// a channel; else a second launch reads a table of the channels' statistics.
#include <locus/ops/norm/norm_cuda.h>

namespace locus::cuda {
namespace {

template <class A>
struct OfChannel {
  NormStat<A> stat;
  A gamma, beta;
};

// Row k of the table is an array of one number per channel.
constexpr int kRows = 7;
enum { kHigh, kLow, kRstd, kMeanDy, kMeanHat, kGamma, kBeta };

template <class A>
struct Table {
  A* memory;
  int64_t channels;

  __device__ void set(int64_t c, const OfChannel<A>& v) const {
    const NormStat<A>& s = v.stat;
    const A values[kRows] = {s.high, s.low, s.rstd, s.mean_dy, s.mean_hat, v.gamma, v.beta};
    for (int k = 0; k < kRows; ++k) memory[k * channels + c] = values[k];
  }
};

// The table for given statistics; means and beta may be null: all 0.
template <class A, class S>
__global__ void __launch_bounds__(kBlock)
    table_kernel(const S* means, const S* variances, const A* gamma, const A* beta, double epsilon,
                 const __grid_constant__ Table<A> table) {
  for (int64_t c = first_thread(); c < table.channels; c += all_threads())
    table.set(c, {NormStat<A>::of(means ? static_cast<double>(means[c]) : 0,
                                  static_cast<double>(variances[c]), epsilon),
                  gamma[c], beta ? beta[c] : A(0)});
}

template <class T>
struct Statistics {
  using A = Compute<T>;
  using Channel = OfChannel<A>;
  using Sum = Distances;
  static constexpr bool kTriesF32 = !kSame<A, double>;
  static constexpr int kWhole = 16 / sizeof(T);
  const T* x;
  double *means, *variances;
  double count;
  int64_t inner;

  template <class V>
  struct Adder : AddDistances<V> {
    const T* x;
    template <int kN, int kM>
    __device__ void add(const int64_t (&)[kM], const int64_t (&at)[kM]) {
      Pack<T, kN> v[kM];
#pragma unroll
      for (int m = 0; m < kM; ++m) v[m] = load<kN>(x + at[m]);
#pragma unroll
      for (int m = 0; m < kM; ++m) AddDistances<V>::add(v[m]);
      AddDistances<V>::fold();
    }
  };
  bool whole() const { return aligned(x, 16); }
  bool applies() const { return false; }
  // Distances are from the channel's first element.
  __device__ Channel before(int64_t c) const {
    const A origin = count > 0 ? convert<A>(x[c * inner]) : A(0);
    return {{origin, 0, 0, 0, 0}, 0, 0};
  }
  __device__ Adder<A> adder(const Channel& v, int64_t) const { return adder_in<A>(v); }
  __device__ Adder<double> wide_adder(const Channel& v, int64_t) const {
    return adder_in<double>(v);
  }
  template <class V>
  __device__ Adder<V> adder_in(const Channel& v) const {
    return {AddDistances<V>(static_cast<double>(v.stat.high)), x};
  }
  __device__ Channel after(const Channel& v, int64_t c, const Distances& sums) const {
    means[c] = sums.mean(static_cast<double>(v.stat.high), count);
    variances[c] = sums.variance(count);
    return v;
  }
  template <int kN, int kM>
  __device__ void apply(const Channel&, const int64_t (&)[kM]) const {}
};

template <class T>
struct Forward : Statistics<T> {
  using typename Statistics<T>::A;
  using typename Statistics<T>::Channel;
  using Statistics<T>::x, Statistics<T>::means, Statistics<T>::variances;
  T* y;
  const A *gamma, *beta;
  double epsilon;
  Running running;
  Table<A> table;

  bool whole() const { return aligned(x, 16) && aligned(y, 16); }
  bool applies() const { return true; }
  __device__ Channel before(int64_t c) const {
    return {Statistics<T>::before(c).stat, gamma[c], beta[c]};
  }
  __device__ Channel after(Channel v, int64_t c, const Distances& sums) const {
    Statistics<T>::after(v, c, sums);
    running.step(c, means[c], variances[c]);
    v.stat = NormStat<A>::of(means[c], variances[c], epsilon);
    table.set(c, v);
    return v;
  }
  template <int kN, int kM>
  __device__ void apply(const Channel& v, const int64_t (&at)[kM]) const {
    Pack<T, kN> e[kM];
#pragma unroll
    for (int m = 0; m < kM; ++m) e[m] = load<kN>(x + at[m]);
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int k = 0; k < kN; ++k)
        e[m].v[k] = convert<T>(v.stat.apply(convert<A>(e[m].v[k]), v.gamma, v.beta));
      *reinterpret_cast<Pack<T, kN>*>(y + at[m]) = e[m];
    }
  }
};

template <class T>
struct Backward {
  using A = Compute<T>;
  using Channel = OfChannel<A>;
  using Sum = NormSums;
  static constexpr bool kTriesF32 = false;
  static constexpr int kWhole = 16 / sizeof(T);
  const T *dy, *x;
  T* dx;              // null: not computed
  A *dgamma, *dbeta;  // null: not computed
  const A* gamma;
  const double *means, *variances;
  double epsilon, count;
  bool given;
  Table<A> table;

  struct Same {
    NormStat<A> stat;
    __device__ const NormStat<A>& operator()(int64_t) const { return stat; }
  };
  bool whole() const { return aligned(dy, 16) && aligned(x, 16) && aligned(dx, 16); }
  bool applies() const { return dx != nullptr && !given; }
  __device__ Channel before(int64_t c) const {
    return {NormStat<A>::of(means[c], variances[c], epsilon), gamma[c], 0};
  }
  __device__ AddSums<T, Same> adder(const Channel& v, int64_t) const { return {dy, x, {v.stat}}; }
  __device__ Channel after(Channel v, int64_t c, const NormSums& sums) const {
    if (dgamma) dgamma[c] = static_cast<A>(sums.hat);
    if (dbeta) dbeta[c] = static_cast<A>(sums.dy);
    const double g = static_cast<double>(v.gamma);
    if (given)
      v.stat = v.stat.given();
    else
      v.stat.share({g * sums.dy, g * sums.hat}, count);
    table.set(c, v);
    return v;
  }
  template <int kN, int kM>
  __device__ void apply(const Channel& v, const int64_t (&at)[kM]) const {
    Pack<T, kN> d[kM], e[kM];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      d[m] = load<kN>(dy + at[m]);
      e[m] = load<kN>(x + at[m]);
    }
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int k = 0; k < kN; ++k)
        e[m].v[k] = convert<T>(v.stat.slope(convert<A>(d[m].v[k]), convert<A>(e[m].v[k]), v.gamma));
      *reinterpret_cast<Pack<T, kN>*>(dx + at[m]) = e[m];
    }
  }
};

// y or, if kBackward, dx. kN elements at once, of kN channels (kLast) or of one.
template <class T, int kN, bool kLast, bool kBackward>
__global__ void __launch_bounds__(kBlock)
    apply_kernel(const T* __restrict__ x, const T* __restrict__ dy, T* __restrict__ y,
                 const __grid_constant__ Table<Compute<T>> table, int64_t inner, int64_t size,
                 Divisor by_inner, Divisor by_channels) {
  using A = Compute<T>;
  using P = Pack<T, kN>;
  constexpr int kC = kLast ? kN : 1;
  const bool narrow = size >> 31 == 0;
  for (int64_t p = first_thread() * kN; p < size; p += all_threads() * kN) {
    int64_t c;
    if (narrow) {
      const int32_t row = static_cast<int32_t>(p) / by_inner,
                    n = static_cast<int32_t>(table.channels);
      c = row - row / by_channels * n;
    } else {
      c = p / inner % table.channels;
    }
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
  const bool divisors = size >> 31 == 0;
  const Divisor by_inner(divisors ? s.inner : 1), by_channels(divisors ? s.n : 1);
  const auto run = [&](auto kernel, int64_t threads) {
    launch(call.stream, threads, kernel, x, dy, y, table, s.inner, size, by_inner, by_channels);
  };
  if (whole && s.inner % kN == 0)
    run(apply_kernel<T, kN, false, kBackward>, size / kN);
  else if (whole && s.inner == 1 && s.n % kN == 0)
    run(apply_kernel<T, kN, true, kBackward>, size / kN);
  else
    run(apply_kernel<T, 1, false, kBackward>, size);
}

struct Backend {
  template <class T>
  static void forward(const Call& call) {
    using A = Compute<T>;
    const BatchNormAttrs& attrs = call.attributes<BatchNormAttrs>();
    const Along s(call.in[0].meta, attrs.axis);
    const T* x = call.in[0].as<T>();
    const Scratch scratch(call, static_cast<size_t>(kRows * s.n) * sizeof(A));
    const Table<A> table{scratch.as<A>(), s.n};
    const Forward<T> op{{x, call.out[1].as<double>(), call.out[2].as<double>(),
                         static_cast<double>(s.rows()), s.inner},
                        call.out[0].as<T>(),
                        call.in[1].as<A>(),
                        call.in[2].as<A>(),
                        attrs.epsilon,
                        Running(call, s.rows()),
                        table};
    if (!for_channels(call, s, op)) apply_all<false, T>(call, s, table, x, nullptr, op.y);
  }

  template <class T>
  static void statistics(const Call& call) {
    const Along s(call.in[0].meta, call.attributes<NormAttrs>().axis);
    for_channels(call, s,
                 Statistics<T>{call.in[0].as<T>(), call.out[0].as<double>(),
                               call.out[1].as<double>(), static_cast<double>(s.rows()), s.inner});
  }

  template <class T>
  static void inference(const Call& call) {
    using A = Compute<T>;
    const NormAttrs& attrs = call.attributes<NormAttrs>();
    const Along s(call.in[0].meta, attrs.axis);
    const Scratch scratch(call, static_cast<size_t>(kRows * s.n) * sizeof(A));
    const Table<A> table{scratch.as<A>(), s.n};
    const auto set = [&]<class S>(S*) {
      launch(call.stream, s.n, table_kernel<A, S>, call.in[3].as<const S>(),
             call.in[4].as<const S>(), call.in[1].as<const A>(), call.in[2].as<const A>(),
             attrs.epsilon, table);
    };
    if (call.in[3].meta.dtype == f64)
      set(static_cast<double*>(nullptr));
    else
      set(static_cast<float*>(nullptr));
    apply_all<false, T>(call, s, table, call.in[0].as<T>(), nullptr, call.out[0].as<T>());
  }

  template <class T>
  static void backward(const Call& call) {
    using A = Compute<T>;
    const NormGradAttrs& attrs = call.attributes<NormGradAttrs>();
    const Along s(call.in[1].meta, attrs.axis);
    const Scratch scratch(call, static_cast<size_t>(kRows * s.n) * sizeof(A));
    const Backward<T> op{call.in[0].as<T>(),
                         call.in[1].as<T>(),
                         attrs.data ? call.out[0].as<T>() : nullptr,
                         attrs.gamma ? call.out[1].as<A>() : nullptr,
                         attrs.beta ? call.out[2].as<A>() : nullptr,
                         call.in[2].as<A>(),
                         call.in[3].as<double>(),
                         call.in[4].as<double>(),
                         attrs.epsilon,
                         static_cast<double>(s.rows()),
                         attrs.given,
                         {scratch.as<A>(), s.n}};
    if (attrs.gamma || attrs.beta || !attrs.given) {
      if (for_channels(call, s, op) && !attrs.given) return;
    } else {
      launch(call.stream, s.n, table_kernel<A, double>, static_cast<const double*>(nullptr),
             op.variances, op.gamma, static_cast<const A*>(nullptr), attrs.epsilon, op.table);
    }
    if (!op.dx) return;
    if (attrs.given)
      apply_all<false, T>(call, s, op.table, op.dy, nullptr, op.dx);
    else
      apply_all<true, T>(call, s, op.table, op.x, op.dy, op.dx);
  }
};

}  // namespace

extern constinit const KernelList batch_norm = batch_norm_kernels<Backend>();

}  // namespace locus::cuda
