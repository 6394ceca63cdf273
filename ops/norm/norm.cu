// Normalisations with statistics per row: a warp per row of up to 1024 elements, else a block. Rows
// are read twice, the second time from the caches.
#include <locus/ops/norm/norm_cuda.h>

namespace locus::cuda {
namespace {

constexpr int kRowsABlock = 4;  // if a row is a warp's

struct Rows : NormRows {
  Divisor by_inner;  // of rows of fewer than 2^31 elements
  bool narrow;

  explicit Rows(const NormRows& s)
      : NormRows(s), by_inner(n >> 31 == 0 && n > 0 ? inner : 1), narrow(n >> 31 == 0) {}
};

// A lane's view of a row, kN elements at once.
template <int kN>
struct Lane {
  const Rows& s;
  int64_t row, n, base, channel;

  __device__ explicit Lane(const Rows& rows)
      : s(rows),
        row(blockIdx.x * int64_t{blockDim.y} + threadIdx.y),
        n(row < s.rows ? s.n : 0),
        base(row * s.n),
        channel(s.groups == 1 ? 0 : row % s.groups * s.each) {}
  __device__ bool first() const { return threadIdx.x == 0 && n > 0; }
  // The channel of element j + k.
  __device__ int64_t channel_of(int64_t j, int k) const {
    return channel + (s.inner == 1 ? j + k
                      : s.narrow   ? static_cast<int32_t>(j) / s.by_inner
                                   : j / s.inner);
  }
  __device__ void each(const auto& f) const {
    for (int64_t j = int64_t{threadIdx.x} * kN; j < n; j += int64_t{blockDim.x} * kN) f(j);
  }
};

template <bool kCentred, class T, int kN>
__global__ void __launch_bounds__(1024, 1)
    forward_kernel(const T* __restrict__ x, const Compute<T>* __restrict__ gamma,
                   const Compute<T>* __restrict__ beta, T* __restrict__ y,
                   double* __restrict__ means, double* __restrict__ variances,
                   const __grid_constant__ Rows s, double epsilon) {
  using A = Compute<T>;
  const Lane<kN> lane(s);
  const double origin = kCentred && lane.n > 0 ? convert<double>(x[lane.base]) : 0;
  const auto take = [&](auto adder) {
    lane.each([&](int64_t j) {
      adder.add(load<kN>(x + lane.base + j));
      adder.fold();
    });
    return all_of_team(adder.end(), static_cast<int>(blockDim.x),
                       [](Distances a, Distances b) { return combine(a, b); });
  };
  Distances all = take(AddDistances<A, kCentred>(origin));
  if constexpr (!kSame<A, double>)
    if (!all.kept()) all = take(AddDistances<double, kCentred>(origin));
  const double n = static_cast<double>(s.n), spread = all.variance(n);
  const double centre = kCentred ? all.mean(origin, n) : 0;
  if (threadIdx.x == 0 && lane.row < s.rows) {
    if (kCentred) means[lane.row] = centre;
    variances[lane.row] = spread;
  }
  const auto stat = NormStat<A>::of(centre, spread, epsilon);
  lane.each([&](int64_t j) {
    auto v = load<kN>(x + lane.base + j);
#pragma unroll
    for (int k = 0; k < kN; ++k) {
      const int64_t c = lane.channel_of(j, k);
      v.v[k] = convert<T>(stat.apply(convert<A>(v.v[k]), gamma[c], kCentred ? beta[c] : A(0)));
    }
    *reinterpret_cast<Pack<T, kN>*>(y + lane.base + j) = v;
  });
}

// Writes dx and each row's statistics; either may be null.
template <bool kCentred, class T, int kN>
__global__ void __launch_bounds__(1024, 1)
    backward_kernel(const T* __restrict__ dy, const T* __restrict__ x,
                    const Compute<T>* __restrict__ gamma, const double* __restrict__ means,
                    const double* __restrict__ variances, T* __restrict__ dx,
                    NormStat<Compute<T>>* __restrict__ stats, const __grid_constant__ Rows s,
                    double epsilon) {
  using A = Compute<T>;
  struct Sums {
    A dy, hat;
  };
  const Lane<kN> lane(s);
  auto stat = NormStat<A>::of(0, 1, 0);
  if (lane.n > 0)
    stat = NormStat<A>::of(kCentred ? means[lane.row] : 0, variances[lane.row], epsilon);
  if (stats && lane.first()) stats[lane.row] = stat;
  if (!dx) return;
  Sums sums{0, 0};
  lane.each([&](int64_t j) {
    const auto d = load<kN>(dy + lane.base + j), v = load<kN>(x + lane.base + j);
#pragma unroll
    for (int k = 0; k < kN; ++k) {
      const A e = convert<A>(d.v[k]) * gamma[lane.channel_of(j, k)];
      sums.dy += e;
      sums.hat += e * stat.hat(convert<A>(v.v[k]));
    }
  });
  sums = all_of_team(sums, static_cast<int>(blockDim.x), [](Sums a, Sums b) {
    return Sums{a.dy + b.dy, a.hat + b.hat};
  });
  stat.share({kCentred ? static_cast<double>(sums.dy) : 0, static_cast<double>(sums.hat)},
             static_cast<double>(s.n));
  lane.each([&](int64_t j) {
    const auto d = load<kN>(dy + lane.base + j);
    auto v = load<kN>(x + lane.base + j);
#pragma unroll
    for (int k = 0; k < kN; ++k)
      v.v[k] = convert<T>(
          stat.slope(convert<A>(d.v[k]), convert<A>(v.v[k]), gamma[lane.channel_of(j, k)]));
    *reinterpret_cast<Pack<T, kN>*>(dx + lane.base + j) = v;
  });
}

// Calls kernel(elements at once, grid, block) for blocks of rows.
template <class T>
void launch_rows(const NormRows& s, std::initializer_list<const T*> memory, const auto& kernel) {
  if (s.rows == 0) return;
  constexpr int kN = 16 / sizeof(T);
  bool whole = s.n % kN == 0 && (s.inner == 1 || s.inner % kN == 0);
  for (const T* p : memory) whole = whole && aligned(p, 16);
  const bool warps = s.n <= 1024;
  const dim3 block(warps ? 32 : s.n <= 16384 ? 256 : 1024, warps ? kRowsABlock : 1);
  const int64_t grid = (s.rows + block.y - 1) / block.y;
  if (whole)
    kernel(std::integral_constant<int, kN>(), static_cast<unsigned>(grid), block);
  else
    kernel(std::integral_constant<int, 1>(), static_cast<unsigned>(grid), block);
}

// The gradients of gamma and beta, from the statistics of rows.
template <class T>
struct Parameters {
  using A = Compute<T>;
  struct Channel {};
  using Sum = NormSums;
  static constexpr bool kTriesF32 = false;
  static constexpr int kWhole = 16 / sizeof(T);
  const T *dy, *x;
  const NormStat<A>* stats;
  int64_t groups, each;
  A *gamma, *beta;  // null: not computed

  struct OfRow {
    const NormStat<A>* stats;
    int64_t groups;
    __device__ NormStat<A> operator()(int64_t o) const { return stats[o * groups]; }
  };
  bool whole() const { return aligned(dy, 16) && aligned(x, 16); }
  bool applies() const { return false; }
  __device__ Channel before(int64_t) const { return {}; }
  __device__ AddSums<T, OfRow> adder(const Channel&, int64_t c) const {
    return {dy, x, {stats + (groups == 1 ? 0 : c / each), groups}};
  }
  __device__ Channel after(Channel v, int64_t c, const NormSums& sums) const {
    if (gamma) gamma[c] = static_cast<A>(sums.hat);
    if (beta) beta[c] = static_cast<A>(sums.dy);
    return v;
  }
  template <int kN>
  __device__ void apply(const Channel&, const auto&) const {}
};

struct Backend {
  template <bool kCentred, class T>
  static void forward(const Call& call) {
    using A = Compute<T>;
    const NormAttrs& attrs = call.attributes<NormAttrs>();
    const Rows s{NormRows(call.in[0].meta, attrs)};
    const T* x = call.in[0].as<T>();
    T* y = call.out[0].as<T>();
    launch_rows<T>(s, {x, y}, [&](auto n, unsigned grid, dim3 block) {
      forward_kernel<kCentred, T, n.value><<<grid, block, 0, stream(call)>>>(
          x, call.in[1].as<A>(), kCentred ? call.in[2].as<A>() : nullptr, y,
          kCentred ? call.out[1].as<double>() : nullptr, call.out[1 + kCentred].as<double>(), s,
          attrs.epsilon);
    });
  }

  template <bool kCentred, class T>
  static void backward(const Call& call) {
    using A = Compute<T>;
    const NormGradAttrs& attrs = call.attributes<NormGradAttrs>();
    const Rows s{NormRows(call.in[1].meta, attrs)};
    const T *dy = call.in[0].as<T>(), *x = call.in[1].as<T>();
    T* dx = attrs.data ? call.out[0].as<T>() : nullptr;
    const bool beta = kCentred && attrs.beta, parameters = attrs.gamma || beta;
    const Scratch scratch(
        call, parameters ? static_cast<size_t>(s.rows) * sizeof(NormStat<A>) : size_t{0});
    NormStat<A>* const stats = scratch.as<NormStat<A>>();
    launch_rows<T>(s, {dy, x, dx}, [&](auto n, unsigned grid, dim3 block) {
      backward_kernel<kCentred, T, n.value><<<grid, block, 0, stream(call)>>>(
          dy, x, call.in[2].as<A>(), kCentred ? call.in[3].as<double>() : nullptr,
          call.in[3 + kCentred].as<double>(), dx, stats, s, attrs.epsilon);
    });
    if (!parameters) return;
    for_channels(
        call, Along(call.in[1].meta, attrs.axis),
        Parameters<T>{dy, x, stats, s.groups, s.each, attrs.gamma ? call.out[1].as<A>() : nullptr,
                      beta ? call.out[2].as<A>() : nullptr});
  }
};

}  // namespace

extern constinit const KernelList row_norm = row_norm_kernels<Backend>();

}  // namespace locus::cuda
