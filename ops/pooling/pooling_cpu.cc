#include <cstring>
#include <type_traits>
#include <utility>

#include <locus/core/scratch.h>
#include <locus/devices/cpu.h>
#include <locus/ops/pooling/pooling_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kRun = 64;         // adjacent results
constexpr int64_t kGrain = 1 << 15;  // elements worth a thread

int64_t clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

// Adjacent results in memory: of a row or, with channels last, of an element.
struct Run {
  int64_t image, channel, at[3];
  int64_t first, count;  // of the results, in memory
  bool room;             // whether kRun results' elements can be read
};

// f(step), with 1 and 2 as constants.
template <class F>
LOCUS_HD void with_step(int64_t step, const F& f) {
  if (step == 1)
    f(std::integral_constant<int64_t, 1>{});
  else if (step == 2)
    f(std::integral_constant<int64_t, 2>{});
  else
    f(step);
}

#if defined(__AVX512F__)
constexpr int64_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int64_t kVectorBytes = 32;
#else
constexpr int64_t kVectorBytes = 16;
#endif

// Vectors of several results, and of as many integers.
template <class T>
struct Lanes {
  using Whole = If<sizeof(T) == 4, int32_t, int64_t>;
  typedef T V __attribute__((vector_size(kVectorBytes)));
  typedef Whole I __attribute__((vector_size(kVectorBytes)));
  static constexpr int64_t kN = kVectorBytes / static_cast<int64_t>(sizeof(T));

  template <class X>
  LOCUS_HD static void load(const void* from, X& to) {
    std::memcpy(&to, from, sizeof to);
  }
  // Loads every element, or every second one. g++ would leave the last ones to a scalar loop.
  LOCUS_HD static void load(const T* from, std::integral_constant<int64_t, 1>, V& to) {
    load(from, to);
  }
  LOCUS_HD static void load(const T* from, std::integral_constant<int64_t, 2>, V& to) {
    V a, b;
    load(from, a);
    load(from + kN, b);
    to = [&]<int... i>(std::integer_sequence<int, i...>) {
      return __builtin_shufflevector(a, b, (2 * i)...);
    }
    (std::make_integer_sequence<int, kN>());
  }
};

template <class T>
struct Core {
  using L = Lanes<T>;
  using Place = typename L::Whole;
  const Pooling g;
  bool rounded_again = false;  // to 16 bits

  // Calls before(image, channel, channels), then body(run). Images and channels run in parallel.
  template <class Before, class F>
  void each_run(const Before& before, const F& body) const {
    const int64_t blocks = g.channels_last ? (g.channels + kRun - 1) / kRun : g.channels;
    int64_t size = g.positions(), met[3];
    for (int i = 0; i < 3; ++i) size *= met[i] = clamp(g.window[i], 0, g.data[i]);
    size += g.elements();
    const int64_t work = size * (g.channels_last ? kRun : 1);
    const int64_t width = one() ? 1 : kRun;
    const int64_t total = g.images * g.channels * g.elements();
    const int64_t reach = (((met[0] * g.data[1]) + met[1]) * g.data[2] + met[2]) *
                              (g.channels_last ? g.channels : 1) +
                          kRun * step();
    parallel_ranges(g.images * blocks, kGrain / (work + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        Run r{task / blocks, task % blocks * (g.channels_last ? kRun : 1), {}, 0, 1, false};
        const int64_t channels = g.channels_last ? clamp(g.channels - r.channel, 0, kRun) : 1;
        before(r.image, r.channel, channels);
        int64_t* const at = r.at;
        for (at[0] = 0; at[0] < g.result[0]; ++at[0])
          for (at[1] = 0; at[1] < g.result[1]; ++at[1])
            for (at[2] = 0; at[2] < g.result[2]; at[2] += width) {
              r.first = g.result_at(r.image, r.channel,
                                    (at[0] * g.result[1] + at[1]) * g.result[2] + at[2]);
              r.count = g.channels_last ? channels : clamp(g.result[2] - at[2], 0, width);
              r.room = origin(r) + reach < total;
              body(r);
            }
      }
    });
  }
  template <class F>
  void each_run(const F& body) const {
    each_run([](int64_t, int64_t, int64_t) {}, body);
  }

  // The data offset of the first result's window, padding included.
  int64_t origin(const Run& r) const {
    const int64_t column = r.at[2] * g.stride[2] - g.padding[2];
    const int64_t row = g.range(0, r.at[0]).begin * g.data[1] + g.range(1, r.at[1]).begin;
    return g.data_at(r.image, r.channel,
                     row * g.data[2] + (one() ? g.range(2, r.at[2]).begin : column));
  }
  // Whether a run is one window. Windows longer than a row are too: few of their taps read data.
  bool one() const { return g.channels_last || g.adaptive || g.window[2] > g.data[2]; }
  // Distance between adjacent results' elements at a tap.
  int64_t step() const { return g.channels_last ? 1 : g.stride[2]; }

  // f(tap, begin, end), in row-major order of the window: results [begin, end) of the run read the
  // element `tap` past their window's origin.
  template <class F>
  LOCUS_HD void each_tap(const Run& r, auto s, const F& f) const {
    const Range a = g.range(0, r.at[0]), b = g.range(1, r.at[1]), c = g.range(2, r.at[2]);
    const int64_t scale = g.channels_last ? g.channels : 1;
    for (int64_t i = 0; i < a.end - a.begin; ++i)
      for (int64_t j = 0; j < b.end - b.begin; ++j) {
        const int64_t row = (i * g.data[1] + j) * g.data[2];
        if (one()) {
          for (int64_t k = 0; k < c.end - c.begin; ++k) f((row + k) * scale, int64_t{0}, r.count);
          continue;
        }
        for (int64_t k = 0; k < g.window[2]; ++k) {
          const int64_t before = g.padding[2] - k - r.at[2] * s;
          const int64_t begin = before > 0 ? (before + s - 1) / s : 0,
                        last = g.data[2] - 1 + before;
          f(row + k, begin, last < 0 ? begin : clamp(last / s + 1, begin, r.count));
        }
      }
  }

  // Whether a run can use vectors: all its windows lie in the data along the last axis. Excess
  // vector lanes are unused.
  template <class Step>
  LOCUS_HD bool vectors(const Run& r, Step s) const {
    if constexpr (std::is_same_v<Step, int64_t>) return false;
    const int64_t begin = r.at[2] * s - g.padding[2];
    return r.room && !one() && begin >= 0 && begin + (r.count - 1) * s + g.window[2] <= g.data[2];
  }
  // f(tap) for all taps, if vectors() holds.
  template <class F>
  LOCUS_HD void each_whole_tap(const Run& r, const F& f) const {
    const Range a = g.range(0, r.at[0]), b = g.range(1, r.at[1]);
    for (int64_t i = 0; i < a.end - a.begin; ++i)
      for (int64_t j = 0; j < b.end - b.begin; ++j)
        for (int64_t k = 0; k < g.window[2]; ++k) f((i * g.data[1] + j) * g.data[2] + k);
  }
  // to[0], ..., to[n - 1], at most one vector.
  template <class X, class V>
  LOCUS_HD static void store(const V& v, int64_t n, X* to) {
    if (n >= L::kN) {
      std::memcpy(to, &v, sizeof v);
    } else {
      X all[L::kN];
      std::memcpy(all, &v, sizeof v);
      for (int64_t i = 0; i < n; ++i) to[i] = all[i];
    }
  }

  void max(const T* x, T* y) const {
    each_run([&](const Run& r) {
      const T* const from = x + origin(r);
      with_step(step(), [&](auto s) {
        if constexpr (!std::is_same_v<decltype(s), int64_t>)
          if (vectors(r, s)) {
            for (int64_t i = 0; i < r.count; i += L::kN) {
              typename L::V best = typename L::V{} - static_cast<T>(__builtin_inf()), v;
              each_whole_tap(r, [&](int64_t tap) {
                L::load(from + tap + i * s, s, v);
                best = (~(v <= best) & (best == best)) ? v : best;
              });
              store(best, r.count - i, y + r.first + i);
            }
            return;
          }
        T best[kRun];
        for (T& v : best) v = -__builtin_inf();
        each_tap(r, s, [&](int64_t tap, int64_t begin, int64_t end) {
          for (int64_t j = begin; j < end; ++j) {
            const T v = from[tap + j * s];
            best[j] = exceeds(v, best[j]) ? v : best[j];
          }
        });
        for (int64_t j = 0; j < r.count; ++j) y[r.first + j] = best[j];
      });
    });
  }

  // place[j]: the offset of result j's maximum from its window's origin.
  [[gnu::noinline]] void places(const Run& r, const T* x, Place (&place)[kRun]) const {
    const T* const from = x + origin(r);
    with_step(step(), [&](auto s) {
      if constexpr (!std::is_same_v<decltype(s), int64_t>)
        if (vectors(r, s)) {
          for (int64_t i = 0; i < r.count; i += L::kN) {
            typename L::V best = typename L::V{} - static_cast<T>(__builtin_inf()), v;
            typename L::I where = typename L::I{} - 1;
            each_whole_tap(r, [&](int64_t tap) {
              L::load(from + tap + i * s, s, v);
              const typename L::I better = (~(v <= best) & (best == best)) | (where < 0);
              best = better ? v : best;
              where = better ? static_cast<Place>(tap) : where;
            });
            std::memcpy(place + i, &where, sizeof where);
          }
          return;
        }
      T best[kRun];
      for (T& v : best) v = -__builtin_inf();
      for (Place& p : place) p = -1;
      each_tap(r, s, [&](int64_t tap, int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j) {
          const T v = from[tap + j * s];
          const bool better = exceeds(v, best[j]) | (place[j] < 0);
          best[j] = better ? v : best[j];
          place[j] = better ? static_cast<Place>(tap) : place[j];
        }
      });
    });
  }

  void max_gather(const T* x, const T* other, T* y) const {
    each_run([&](const Run& r) {
      Place place[kRun];
      places(r, x, place);
      const T* const from = other + origin(r);
      for (int64_t j = 0; j < r.count; ++j) y[r.first + j] = from[place[j] + j * step()];
    });
  }

  // Adds gradients to zeros.
  template <class F>
  void spread(T* to, const F& body) const {
    each_run(
        [&](int64_t image, int64_t channel, int64_t channels) {
          const int64_t elements = g.elements(), rows = g.channels_last ? elements : 1;
          for (int64_t i = 0; i < rows; ++i) {
            T* const row = to + g.data_at(image, channel, i);
            const int64_t n = g.channels_last ? channels : elements;
            for (int64_t j = 0; j < n; ++j) row[j] = T(0);
          }
        },
        [&](const Run& r) { body(r, to + origin(r)); });
  }

  void max_grad(const T* x, const T* dy, T* dx) const {
    spread(dx, [&](const Run& r, T* to) {
      Place place[kRun];
      places(r, x, place);
      for (int64_t j = 0; j < r.count; ++j) to[place[j] + j * step()] += dy[r.first + j];
    });
  }

  // The divisors of a run's means.
  void counts(const Run& r, double (&count)[kRun]) const {
    const double outer = static_cast<double>(g.range(0, r.at[0]).count) *
                         static_cast<double>(g.range(1, r.at[1]).count);
    for (int64_t j = 0; j < r.count; ++j)
      count[j] = outer * static_cast<double>(g.range(2, r.at[2] + (one() ? 0 : j)).count);
  }

  void average(const T* x, T* y) const {
    each_run([&](const Run& r) {
      double sum[kRun] = {}, count[kRun];
      counts(r, count);
      const T* const from = x + origin(r);
      with_step(step(), [&](auto s) {
        each_tap(r, s, [&](int64_t tap, int64_t begin, int64_t end) {
          for (int64_t j = begin; j < end; ++j) sum[j] += static_cast<double>(from[tap + j * s]);
        });
      });
      for (int64_t j = 0; j < r.count; ++j) {
        const double mean = sum[j] / count[j];
        y[r.first + j] =
            rounded_again ? static_cast<T>(detail::to_odd(mean)) : static_cast<T>(mean);
      }
    });
  }

  void average_grad(const T* dy, T* dx) const {
    spread(dx, [&](const Run& r, T* to) {
      double count[kRun];
      counts(r, count);
      T share[kRun];
      for (int64_t j = 0; j < r.count; ++j)
        share[j] = static_cast<T>(static_cast<double>(dy[r.first + j]) / count[j]);
      with_step(step(), [&](auto s) {
        each_tap(r, s, [&](int64_t tap, int64_t begin, int64_t end) {
          for (int64_t j = begin; j < end; ++j) to[tap + j * s] += share[j];
        });
      });
    });
  }
};

// Pools 16-bit operands as f32.
template <class S>
struct Host {
  using T = Compute<S>;
  static constexpr bool kDirect = sizeof(S) == sizeof(T);

  const Call& call;
  const Pooling g;

  class Wide {
   public:
    Wide(const Call& call, const S* from, int64_t n)
        : copy_(call, kDirect ? 0 : static_cast<size_t>(n) * sizeof(T)), data_(copy_.as<T>()) {
      if constexpr (kDirect)
        data_ = const_cast<S*>(from);
      else
        convert_run(from, data_, n);
    }
    T* data() const { return data_; }

   private:
    Scratch copy_;
    T* data_;
  };
  // run(to): `to` is y or, if y is 16-bit, memory that is then rounded to y.
  template <class F>
  void results(S* y, int64_t n, const F& run) const {
    if constexpr (kDirect) {
      run(y);
    } else {
      const Scratch sums(call, static_cast<size_t>(n) * sizeof(T));
      run(sums.as<T>());
      convert_run(sums.as<T>(), y, n);
    }
  }

  const Core<T> core{g, !kDirect};
  int64_t n_data = g.images * g.channels * g.elements();
  int64_t n_result = g.images * g.channels * g.positions();

  void max(const S* x, S* y) const {
    const Wide data(call, x, n_data);
    results(y, n_result, [&](T* to) { core.max(data.data(), to); });
  }
  void max_gather(const S* x, const S* other, S* y) const {
    const Wide data(call, x, n_data), from(call, other, n_data);
    results(y, n_result, [&](T* to) { core.max_gather(data.data(), from.data(), to); });
  }
  void max_grad(const S* x, const S* dy, S* dx) const {
    const Wide data(call, x, n_data), from(call, dy, n_result);
    results(dx, n_data, [&](T* to) { core.max_grad(data.data(), from.data(), to); });
  }
  void average(const S* x, S* y) const {
    const Wide data(call, x, n_data);
    results(y, n_result, [&](T* to) { core.average(data.data(), to); });
  }
  void average_grad(const S* dy, S* dx) const {
    const Wide from(call, dy, n_result);
    results(dx, n_data, [&](T* to) { core.average_grad(from.data(), to); });
  }
};

}  // namespace

extern constinit const KernelList pooling = pooling_kernels<Host>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
