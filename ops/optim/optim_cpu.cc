#include <utility>

#include <locus/devices/cpu.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/optim/optim_kernel.h>

namespace locus::LOCUS_ISA {
namespace {

constexpr int64_t kPiece = 512, kGrain = 1 << 14;

template <class A>
void update(const auto& rule, int64_t n, A* __restrict w, const A* __restrict g,
            auto* __restrict... states) {
  for (int64_t i = 0; i < n; ++i) rule(w[i], g[i], states[i]...);
}

template <class T, size_t... S>
void update_range(const auto& rule, int64_t size, T* w, const T* g, T* const* states,
                  std::index_sequence<S...>) {
  using A = Compute<T>;
  if constexpr (kSame<T, A>) {
    update(rule, size, w, g, states[S]...);
  } else {
    alignas(64) A ws[kPiece], gs[kPiece], ss[sizeof...(S) + 1][kPiece];
    for (int64_t i = 0; i < size; i += kPiece) {
      const int64_t n = size - i < kPiece ? size - i : kPiece;
      convert_run(w + i, ws, n);
      convert_run(g + i, gs, n);
      (convert_run(states[S] + i, ss[S], n), ...);
      update(rule, n, ws, gs, ss[S]...);
      convert_run(ws, w + i, n);
      (convert_run(ss[S], states[S] + i, n), ...);
    }
  }
}

struct Backend {
  // All tensors as one row of elements, cut among the threads.
  template <class T, template <class> class Rule>
  static void multi_tensor(const Call& call) {
    using R = Rule<Compute<T>>;
    constexpr int kOut = 1 + R::kStates, kIn = kOut + 1;
    const R rule(call.attributes<Live<typename R::Numbers>>().now());
    const int n = call.n_in / kIn;
    int64_t total = 0;
    for (int i = 0; i < n; ++i) total += call.in[i * kIn].meta.size();
    parallel_for(total, kGrain, [&](int64_t begin, int64_t end) {
      int64_t first = 0;
      for (int i = 0; i < n && first < end; ++i) {
        const int64_t size = call.in[i * kIn].meta.size();
        const int64_t from = begin > first ? begin - first : 0;
        const int64_t to = end - first < size ? end - first : size;
        first += size;
        if (from >= to) continue;
        T* out[kOut];  // the weight, then its states
        for (int k = 0; k < kOut; ++k) out[k] = call.out[i * kOut + k].as<T>() + from;
        update_range<T>(rule, to - from, out[0], call.in[i * kIn + 1].as<T>() + from, out + 1,
                        std::make_index_sequence<R::kStates>());
      }
    });
  }
};

}  // namespace

extern constinit const KernelList optim = optim_kernels<Backend>();

}  // namespace locus::LOCUS_ISA
