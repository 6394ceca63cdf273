#include <utility>

#include <locus/core/scratch.h>
#include <locus/ops/optim/multi_kernel.h>
#include <locus/ops/optim/optim_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kGrain = 1 << 14;
constexpr int kMaxStates = 3;

// `ratio`: for rules with norms.
template <class A>
using Update = void (*)(const void* numbers, double ratio, int64_t n, A* w, const A* g,
                        A* const* states);
// Adds the squares of w, and of measure()'s results, to sums.
template <class A>
using Measure = void (*)(const void* numbers, double* sums, int64_t n, A* w, const A* g,
                         A* const* states);

template <class A, class R>
void update(const typename R::Numbers& u, double ratio, int64_t n, A* __restrict w,
            const A* __restrict g, auto* __restrict... states) {
  for (int64_t i = 0; i < n; ++i)
    if constexpr (R::kNorms)
      R::update(u, ratio, w[i], g[i], states[i]...);
    else
      R::update(u, w[i], g[i], states[i]...);
}
template <class A, class R>
void update_run(const void* numbers, double ratio, int64_t n, A* w, const A* g, A* const* states) {
  [&]<size_t... S>(std::index_sequence<S...>) {
    const typename R::Numbers u = *static_cast<const typename R::Numbers*>(numbers);
    update<A, R>(u, ratio, n, w, g, states[S]...);
  }
  (std::make_index_sequence<R::kStates>());
}

template <class A, class R>
void measure(const typename R::Numbers& u, int64_t n, A* __restrict measured, const A* w,
             const A* __restrict g, const auto* __restrict... states) {
  for (int64_t i = 0; i < n; ++i) measured[i] = R::measure(u, w[i], g[i], states[i]...);
}
template <class A, class R>
void measure_run(const void* numbers, double* sums, int64_t n, A* w, const A* g, A* const* states) {
  [&]<size_t... S>(std::index_sequence<S...>) {
    const typename R::Numbers u = *static_cast<const typename R::Numbers*>(numbers);
    alignas(64) A measured[kPiece];
    for (int64_t i = 0; i < n; i += kPiece) {
      const int64_t count = n - i < kPiece ? n - i : kPiece;
      measure<A, R>(u, count, measured, w + i, g + i, states[S] + i...);
      sums[0] = reduce_run<SumSquares>(sums[0], w + i, count);
      sums[1] = reduce_run<SumSquares>(sums[1], measured, count);
    }
  }
  (std::make_index_sequence<R::kStates>());
}

// A call as one row of elements, divided among threads. Weights may have f32 master copies, as one
// more state; then states are f32, too.
template <class T>
struct Tensors {
  using A = Compute<T>;
  const Call& call;
  int states;
  int n = call.n_in - call.n_out;  // each has one input more than results: its gradient
  int per = n == 0 ? 1 : call.n_out / n;
  bool master = per == states + 2;

  int64_t size(int i) const { return call.out[i * per].meta.size(); }
  T* weight(int i) const { return call.out[i * per].as<T>(); }
  const T* grad(int i) const { return call.in[i * (per + 1) + 1].as<T>(); }
  template <class S>
  S* state(int i, int k) const {
    return call.out[i * per + 1 + k].as<S>();
  }

  // Calls f(i, from, to) for elements [from, to) of tensor i.
  void each_range(const auto& f) const {
    int64_t total = 0;
    for (int i = 0; i < n; ++i) total += size(i);
    parallel_ranges(total, kGrain, [&](int64_t begin, int64_t end) {
      int64_t first = 0;
      for (int i = 0; i < n && first < end; ++i) {
        const int64_t from = begin > first ? begin - first : 0;
        const int64_t to = end - first < size(i) ? end - first : size(i);
        first += size(i);
        if (from < to) f(i, from, to);
      }
    });
  }

  // Calls f(count, w, g, states) for elements [from, to) of tensor i, in pieces if they are
  // converted.
  void each_piece(int i, int64_t from, int64_t to, const auto& f) const {
    if constexpr (kSame<T, A>) {
      A* s[kMaxStates];
      for (int k = 0; k < states; ++k) s[k] = state<A>(i, k) + from;
      f(to - from, weight(i) + from, grad(i) + from, s);
    } else {
      alignas(64) A ws[kPiece], gs[kPiece], buffer[kMaxStates][kPiece];
      for (int64_t at = from; at < to; at += kPiece) {
        const int64_t count = to - at < kPiece ? to - at : kPiece;
        T* const w = weight(i) + at;
        A *s[kMaxStates], *in = ws;
        for (int k = 0; k < states; ++k) {
          s[k] = master ? state<A>(i, k) + at : buffer[k];
          if (!master) convert_run(state<T>(i, k) + at, s[k], count);
        }
        convert_run(grad(i) + at, gs, count);
        if (master)
          follow(w, in = state<A>(i, states) + at, count);
        else
          convert_run(w, ws, count);
        f(count, in, gs, s);
        convert_run(in, w, count);
        for (int k = 0; k < states && !master; ++k) convert_run(s[k], state<T>(i, k) + at, count);
      }
    }
  }
  // If others changed a weight, its master takes the new value.
  static void follow(const T* w, A* copy, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      copy[i] = convert<T>(copy[i]).bits == w[i].bits ? copy[i] : convert<A>(w[i]);
  }
};

// `ratios`: of each tensor, or null.
template <class T>
void update_all(const Tensors<T>& t, Update<Compute<T>> f, const void* numbers,
                const double* ratios) {
  t.each_range([&](int i, int64_t from, int64_t to) {
    t.each_piece(i, from, to, [&](int64_t n, auto* w, const auto* g, auto* const* s) {
      f(numbers, ratios ? ratios[i] : 1, n, w, g, s);
    });
  });
}

// The norms of each tensor's weight and of measure()'s results.
template <class T>
void measure_all(const Tensors<T>& t, Measure<Compute<T>> f, const void* numbers,
                 double (*norms)[2]) {
  int64_t chunks = 0;
  for (int i = 0; i < t.n; ++i) chunks += chunks_of(t.size(i));
  const Scratch scratch(t.call, static_cast<size_t>(chunks) * 2 * sizeof(double));
  double* const sums = scratch.as<double>();
  each_chunk(
      t.n, [&](int i) { return t.size(i); },
      [&](int i, int64_t begin, int64_t end, int64_t chunk) {
        double* const own = sums + 2 * chunk;
        own[0] = own[1] = 0;
        t.each_piece(i, begin, end, [&](int64_t n, auto* w, const auto* g, auto* const* s) {
          f(numbers, own, n, w, g, s);
        });
      });
  const double* at = sums;
  for (int i = 0; i < t.n; ++i)
    for (int k = 0; k < 2; ++k) {
      double sum = 0;
      for (int64_t c = 0; c < chunks_of(t.size(i)); ++c) sum += at[2 * c + k];
      norms[i][k] = __builtin_sqrt(sum);
      if (k == 1) at += 2 * chunks_of(t.size(i));
    }
}

struct Backend {
  template <class T, class R>
  static void multi_tensor(const Call& call) {
    using A = Compute<T>;
    const typename R::Numbers u = call.attributes<Live<typename R::Numbers>>().now();
    const Tensors<T> t{call, R::kStates};
    if constexpr (R::kNorms) {
      const Scratch scratch(call, static_cast<size_t>(t.n) * 3 * sizeof(double));
      auto* const norms = static_cast<double(*)[2]>(scratch.data());
      double* const ratios = scratch.as<double>() + 2 * t.n;
      measure_all<T>(t, measure_run<A, R>, &u, norms);
      for (int i = 0; i < t.n; ++i) {
        const bool counts = !R::kMatrices || call.out[i * t.per].meta.rank >= 2;
        ratios[i] = counts ? R::ratio(u, norms[i][0], norms[i][1]) : 1;
      }
      update_all<T>(t, update_run<A, R>, &u, ratios);
    } else {
      update_all<T>(t, update_run<A, R>, &u, nullptr);
    }
  }
};

}  // namespace

extern constinit const KernelList optim = optim_kernels<Backend>(OptimRules());

}  // namespace locus::LOCUS_ISA_NAMESPACE
