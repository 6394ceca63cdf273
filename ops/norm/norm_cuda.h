// For the CUDA kernels of normalisations: the sums over each channel and their use, in one launch.
// The order of summation depends only on the shape. Included by *.cu only.
#pragma once

#include <type_traits>

#include <locus/core/scratch.h>
#include <locus/ops/kernel/divisor.h>
#include <locus/ops/kernel/reduce_block.h>
#include <locus/ops/norm/norm_kernel.h>

namespace locus::cuda {
namespace {

constexpr int kMost = 1024;          // threads of a block
constexpr int64_t kSideBySide = 16;  // shorter runs of a channel are columns, one per thread

// Loads from memory that the kernel does not write.
template <int kN, class T>
__device__ __forceinline__ Pack<T, kN> load(const T* p) {
  constexpr size_t kBytes = kN * sizeof(T);
  using Word =
      If<kBytes == 16, uint4, If<kBytes == 8, uint2, If<kBytes == 4, unsigned, unsigned short>>>;
  static_assert(sizeof(Word) == kBytes);
  using Whole = Pack<T, kN>;
  const Word word = __ldg(reinterpret_cast<const Word*>(p));
  return __builtin_bit_cast(Whole, word);
}

// Sums of distances of x from an origin, and of their squares.
struct Distances {
  double sum, squares;

  __device__ friend Distances combine(Distances a, Distances b) {
    return {a.sum + b.sum, a.squares + b.squares};
  }
  // The biased variance and the mean of n elements: 0 without elements; both NaN if one is not
  // finite.
  __device__ double variance(double n) const {
    const double v = n > 0 ? (squares - sum * (sum / n)) / n : 0;
    return v < 0 ? 0 : v;
  }
  __device__ double mean(double origin, double n) const {
    const double v = variance(n);
    return v == v ? n > 0 ? origin + sum / n : 0 : v;
  }
  // Whether no square overflowed in f32, and those that underflowed are negligible.
  __device__ bool kept() const { return squares > 0x1p-100 && squares < m::infinity(squares); }
};

// A thread's Distances. Every few elements are summed in A as distances from their first, to limit
// cancellation. Without kCentred: only the squares of the elements themselves.
template <class A, bool kCentred = true>
class AddDistances {
 public:
  __device__ explicit AddDistances(double origin) : origin_(origin) {}

  template <int kN, class T>
  __device__ void add(const Pack<T, kN>& v) {
    if (kCentred && count_ == 0) first_ = convert<A>(v.v[0]);
#pragma unroll
    for (int k = 0; k < kN; ++k) {
      const A d = convert<A>(v.v[k]) - first_;
      if (kCentred) sum_ += d;
      squares_ += d * d;
    }
    count_ += kN;
  }
  // Call regularly: adds these sums to f64 sums.
  __device__ void fold(int most = 64) {
    if (count_ < most) return;
    const double n = count_, d = static_cast<double>(first_) - origin_;
    const double sum = static_cast<double>(sum_);
    all_.sum += n * d + sum;
    all_.squares += static_cast<double>(squares_) + d * (2 * sum + n * d);
    sum_ = squares_ = 0;
    count_ = 0;
  }
  __device__ Distances end() {
    fold(1);
    return all_;
  }

 private:
  double origin_;
  A first_ = 0, sum_ = 0, squares_ = 0;
  int count_ = 0;
  Distances all_{0, 0};
};

// A thread's sums of dy, and of dy times the normalised x. stat(o): the statistics of row o.
template <class T, class Stat>
struct AddSums {
  using A = Compute<T>;
  const T *dy, *x;
  Stat stat;
  A a = 0, b = 0;

  template <int kN, int kM>
  __device__ void add(const int64_t (&o)[kM], const int64_t (&at)[kM]) {
    Pack<T, kN> d[kM], v[kM];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      d[m] = load<kN>(dy + at[m]);
      v[m] = load<kN>(x + at[m]);
    }
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      const NormStat<A> s = stat(o[m]);
#pragma unroll
      for (int k = 0; k < kN; ++k) {
        a += convert<A>(d[m].v[k]);
        b += convert<A>(d[m].v[k]) * s.hat(convert<A>(v[m].v[k]));
      }
    }
  }
  __device__ NormSums end() const { return {static_cast<double>(a), static_cast<double>(b)}; }
};

// How blocks share channels. With runs, `lanes` threads take a channel, row after row, in packs of
// elements. Without, a block has `width` columns of whole channels, and `lanes` threads share a
// column. `parts` blocks divide the work of one.
struct ChannelPartition {
  int threads, lanes, width, channels;  // of a block
  int64_t parts, part;                  // rows, or packs with runs, of a part
  int64_t packs, whole, rest;           // of a row; `lanes` as rows and packs
  Divisor by_packs;
  bool narrow, apply;
};

// A thread's elements.
template <bool kRuns, int kN>
class Elements {
 public:
  const int columns, column, lane, channel;  // of the block
  const int64_t c;
  const bool there, leads;  // leads: the first of a channel's columns

  __device__ Elements(const Along& s, const ChannelPartition& w, int t)
      : columns(w.threads / w.lanes),
        column(kRuns ? 0 : t % columns),
        lane(kRuns ? t % w.lanes : t / columns),
        channel(kRuns ? t / w.lanes : column / static_cast<int>(s.inner)),
        c(static_cast<int64_t>(blockIdx.x) * w.channels + channel),
        there(channel < w.channels && c < s.n),
        leads(there && (kRuns || column % static_cast<int>(s.inner) == 0)) {}

  // Calls f(o, at) for elements at `at` in rows o: four at once, then one.
  __device__ void each(const Along& s, const ChannelPartition& w, const auto& f) const {
    if (!there) return;
    const int64_t rows = kRuns ? s.outer * w.packs : s.outer, step = w.lanes;
    const int64_t begin = blockIdx.y * w.part, end = begin + w.part < rows ? begin + w.part : rows;
    int64_t e = begin + lane, o = e, i = 0;
    if constexpr (kRuns) {
      o = w.narrow ? static_cast<int32_t>(e) / w.by_packs : e / w.packs;
      i = e - o * w.packs;
    }
    const int64_t first = static_cast<int64_t>(blockIdx.x) * w.width + column;
    const auto next = [&](int64_t& row, int64_t& at) {
      row = o;
      if constexpr (kRuns) {
        at = (o * s.n + c) * s.inner + i * kN;
        o += w.whole;
        i += w.rest;
        if (i >= w.packs) {
          i -= w.packs;
          ++o;
        }
      } else {
        at = o * s.n * s.inner + first;
        o += step;
      }
    };
    const auto some = [&]<int kM>(std::integral_constant<int, kM>) {
      int64_t row[kM], at[kM];
#pragma unroll
      for (int m = 0; m < kM; ++m) next(row[m], at[m]);
      f(row, at);
    };
    for (; e + 3 * step < end; e += 4 * step) some(std::integral_constant<int, 4>());
    for (; e < end; e += step) some(std::integral_constant<int, 1>());
  }

  // The sum over a channel, at least in the first thread that leads it.
  template <class Sum>
  __device__ Sum all(Sum v, const Along& s, const ChannelPartition& w) const {
    const auto join = [](Sum a, Sum b) { return combine(a, b); };
    if constexpr (kRuns) {
      return all_of_team(v, w.lanes, join);
    } else {
      v = all_of_column(v, columns, join);
      // A warp has all columns.
      Sum sum = v;
      for (int i = 1; i < s.inner; ++i)
        sum = combine(sum, by_words(v, [&](const uint32_t* word) {
                        return __shfl_down_sync(~0u, *word, static_cast<unsigned>(i));
                      }));
      return sum;
    }
  }
};

// An Op has:
//   Channel: state of a channel. One thread calls before(c), and after(channel, c, sum), which
//     writes the channel's results;
//   Sum, and adder(channel, c), a thread's: add<kN>(o, at) adds the kN elements at each `at`, of
//     rows o; end() returns the sum. If kTriesF32 and the sum is not kept(), wide_adder(channel, c)
//     adds them again;
//   apply<kN>(channel, at), called if no other block shares the channel and applies();
//   kWhole: the elements of 16 bytes; whole(): whether memory is aligned for them.
template <bool kRuns, int kN, class Op>
__global__ void __launch_bounds__(kMost, 1)
    channels_kernel(const __grid_constant__ Op op, const __grid_constant__ Along s,
                    const __grid_constant__ ChannelPartition w, typename Op::Sum* sums,
                    unsigned* counters) {
  using Sum = typename Op::Sum;
  using Channel = typename Op::Channel;
  __shared__ alignas(16) unsigned char bytes[32 * sizeof(Channel)];
  Channel* const channels = reinterpret_cast<Channel*>(bytes);
  const Elements<kRuns, kN> mine(s, w, static_cast<int>(threadIdx.x));
  const bool first = mine.leads && mine.lane == 0;
  if (first) channels[mine.channel] = op.before(mine.c);
  __syncthreads();
  Sum sum{};
  if (mine.there) {
    const auto take = [&](auto adder) {
      mine.each(s, w, [&](const auto& o, const auto& at) { adder.template add<kN>(o, at); });
      return adder.end();
    };
    sum = take(op.adder(channels[mine.channel], mine.c));
    if constexpr (Op::kTriesF32)
      if (!sum.kept()) sum = take(op.wide_adder(channels[mine.channel], mine.c));
  }
  sum = mine.all(sum, s, w);
  if (w.parts > 1) {
    if (first) sums[blockIdx.y * s.n + mine.c] = sum;
    if (!arrives_last(counters + blockIdx.x, static_cast<unsigned>(w.parts))) return;
    sum = Sum{};
    for (int64_t p = mine.lane; mine.leads && p < w.parts; p += w.lanes)
      sum = combine(
          sum, by_words(sums[p * s.n + mine.c], [](const uint32_t* word) { return __ldcg(word); }));
    sum = mine.all(sum, s, w);
  }
  if (first) channels[mine.channel] = op.after(channels[mine.channel], mine.c, sum);
  if (!w.apply) return;
  __syncthreads();
  const Channel channel = mine.there ? channels[mine.channel] : Channel{};
  mine.each(s, w, [&](const auto&, const auto& at) { op.template apply<kN>(channel, at); });
}

// A partition of channels. `alone`: prefers one block per channel, if that takes no longer than
// another launch.
inline ChannelPartition partition_of(const Along& s, int64_t pack, bool alone) {
  constexpr int64_t kBlocks = 1024, kElements = 2048;  // enough blocks; enough for a block
  constexpr int kThreads = 256;
  ChannelPartition w{kThreads, 32, 0, 1, 1, 0, 1, 0, 0, Divisor(), true, false};
  const int64_t count = s.outer * s.inner;
  int64_t elements = count, rows = s.outer;
  if (s.inner >= kSideBySide) {
    w.packs = s.inner / pack;
    rows *= w.packs;
    alone = alone && count <= (s.n < 64 ? 1 << 14 : 1 << 16);
    while (w.lanes < (alone ? kMost : kThreads) && w.lanes * 4 < rows) w.lanes *= 2;
    if (w.lanes > w.threads) w.threads = w.lanes;
    w.channels = w.threads / w.lanes;
    w.whole = w.lanes / w.packs;
    w.rest = w.lanes % w.packs;
    w.narrow = rows < int64_t{1} << 31;
    if (w.narrow) w.by_packs = Divisor(w.packs);
  } else {
    const bool few = s.outer > 1024 && s.inner <= 8;
    alone = alone && s.outer <= (few ? 4096 : 1024);
    const int columns = alone && few ? 8 : 32;
    if (alone && s.outer > 64) w.threads = kMost;
    w.lanes = w.threads / columns;
    w.channels = columns / static_cast<int>(s.inner);
    w.width = w.channels * static_cast<int>(s.inner);
    elements = s.outer * columns;
  }
  const int64_t tiles = (s.n + w.channels - 1) / w.channels;
  if (!alone) w.parts = elements / kElements;
  if (w.parts > kBlocks / tiles) w.parts = kBlocks / tiles;
  if (w.parts > rows) w.parts = rows;
  if (w.parts < 1) w.parts = 1;
  w.part = (rows + w.parts - 1) / w.parts;
  return w;
}

// Returns whether each channel had one block: then op.apply() was called if op.applies().
template <class Op>
bool for_channels(const Call& call, Along s, const Op& op) {
  if (s.n == 0) return true;
  if (s.outer * s.inner == 0) s.outer = 0, s.inner = 1;
  constexpr int kN = Op::kWhole;
  const bool runs = s.inner >= kSideBySide, whole = runs && s.inner % kN == 0 && op.whole();
  ChannelPartition w = partition_of(s, whole ? kN : 1, op.applies());
  w.apply = op.applies() && w.parts == 1;
  const dim3 grid(static_cast<unsigned>((s.n + w.channels - 1) / w.channels),
                  static_cast<unsigned>(w.parts));
  const Scratch scratch(
      call, w.parts > 1 ? static_cast<size_t>(w.parts * s.n) * sizeof(typename Op::Sum) : 0);
  const auto sums = scratch.as<typename Op::Sum>();
  unsigned* const counts = w.parts > 1 ? counters(call.stream, static_cast<int>(grid.x)) : nullptr;
  const auto threads = static_cast<unsigned>(w.threads);
  if (whole)
    channels_kernel<true, kN><<<grid, threads, 0, stream(call)>>>(op, s, w, sums, counts);
  else if (runs)
    channels_kernel<true, 1><<<grid, threads, 0, stream(call)>>>(op, s, w, sums, counts);
  else
    channels_kernel<false, 1><<<grid, threads, 0, stream(call)>>>(op, s, w, sums, counts);
  return w.parts == 1;
}

}  // namespace
}  // namespace locus::cuda
