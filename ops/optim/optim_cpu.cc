#include <locus/ops/optim/optim_kernel.h>
#include <locus/ops/reduce/reduce_stage.h>

namespace locus::LOCUS_ISA {
namespace {

constexpr int64_t kPiece = 512;

template <class T>
void sgd_range(const SGDRule<ComputeType<T>>& rule, T* __restrict w, const T* __restrict g,
               T* __restrict m, int64_t begin, int64_t end) {
  using A = ComputeType<T>;
  if constexpr (std::is_same_v<T, A>) {
    if (m)
      for (int64_t i = begin; i < end; ++i) rule(w[i], g[i], m[i]);
    else
      for (int64_t i = begin; i < end; ++i) rule(w[i], g[i]);
  } else {
    alignas(64) A ws[kPiece], gs[kPiece], ms[kPiece];
    for (int64_t i = begin; i < end; i += kPiece) {
      const int64_t n = end - i < kPiece ? end - i : kPiece;
      widen(w + i, n, ws);
      widen(g + i, n, gs);
      if (m) widen(m + i, n, ms);
      sgd_range<A>(rule, ws, gs, m ? ms : nullptr, 0, n);
      narrow(ws, n, w + i);
      if (m) narrow(ms, n, m + i);
    }
  }
}

// All tensors as one row of elements, cut among the threads.
template <DType D>
void sgd_update(const Call& call) {
  using T = CppTypeOf<D>;
  const SGDRule<ComputeType<T>> rule(call.attributes<SGDUpdate>());
  const int each = call.n_in * 2 == call.n_out * 3 ? 3 : 2, n = call.n_in / each;
  int64_t total = 0;
  for (int i = 0; i < n; ++i) total += call.in[i * each].meta.size();
  parallel_for(total, kParallelWork / 2, [&](int64_t begin, int64_t end) {
    int64_t first = 0;
    for (int i = 0; i < n && first < end; ++i) {
      const int64_t size = call.in[i * each].meta.size();
      const int64_t from = begin > first ? begin - first : 0;
      const int64_t to = end - first < size ? end - first : size;
      if (from < to)
        sgd_range<T>(rule, call.out[i * (each - 1)].template as<T>(),
                     call.in[i * each + 1].template as<T>(),
                     each == 3 ? call.out[i * 2 + 1].template as<T>() : nullptr, from, to);
      first += size;
    }
  });
}

struct Backend {
  template <DType D>
  static constexpr Kernel sgd_update = &locus::LOCUS_ISA::sgd_update<D>;
};

}  // namespace

extern constinit const KernelList optim = optim_kernels<Backend>();

}  // namespace locus::LOCUS_ISA
