#include <Eigen/Core>

#include <locus/ops/kernel/math.h>
#include <locus/ops/kernel/rows_cpu.h>
#include <locus/ops/reduce/extreme.h>
#include <locus/ops/reduce/reduce_stage.h>
#include <locus/ops/reduce/sum.h>
#include <locus/ops/softmax/softmax_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

template <class A>
using ConstRow = Eigen::Map<const Eigen::Array<A, Eigen::Dynamic, 1>>;

// out = exp((x - top) * scale); out may be x.
template <class A>
__attribute__((noinline)) void exp_row(const A* x, int64_t n, A top, A scale, A* out) {
#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (int64_t i = 0; i < n; ++i) out[i] = m::exp((x[i] - top) * scale);
}

constexpr int64_t kPiece = 1024;

// sum(exp((x - top) * scale))
template <class A>
__attribute__((noinline)) A exp_sum(const A* x, int64_t n, A top, A scale) {
  alignas(64) A e[kPiece];
  A total = 0;
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t length = n - i < kPiece ? n - i : kPiece;
    exp_row(x + i, length, top, scale, e);
    total += reduce_block<Sum>(e, length);
  }
  return total;
}

using Mode = SoftmaxMode;

// One row of n; the result may be written over the first operand.
template <Mode kMode, class A>
__attribute__((noinline)) void row(const A* x, [[maybe_unused]] const A* dy, A* y, int64_t n,
                                   A scale) {
  if constexpr (kMode == Mode::softmax) {
    exp_row(x, n, reduce_block<Max>(x, n), scale, y);
    const A factor = A(1) / reduce_block<Sum>(y, n);
    for (int64_t i = 0; i < n; ++i) y[i] *= factor;
  } else if constexpr (kMode == Mode::log_softmax) {
    const A top = reduce_block<Max>(x, n), log_sum = std::log(exp_sum(x, n, top, scale));
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - top) * scale - log_sum;
  } else if constexpr (kMode == Mode::softmax_grad) {
    const A dot = (ConstRow<A>(x, n) * ConstRow<A>(dy, n)).sum();
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * (dy[i] - dot) * scale;
  } else {
    const A total = reduce_block<Sum>(dy, n);
    exp_row(x, n, A(0), A(1), y);
    for (int64_t i = 0; i < n; ++i) y[i] = (dy[i] - y[i] * total) * scale;
  }
}

template <Mode kMode, class T>
void run(const Call& call) {
  using A = Compute<T>;
  const SoftmaxAttrs& attrs = call.attributes<SoftmaxAttrs>();
  const Along along(call.in[0].meta, attrs.axis);
  const int64_t n = along.n;
  const A scale = static_cast<A>(1 / attrs.temperature);
  const RowIn<T, A> x{call.in[0].as<T>(), n};
  const RowOut<T, A> y{call.out[0].as<T>(), n};
  if constexpr (kMode == Mode::softmax || kMode == Mode::log_softmax) {
    map_rows(
        call, along, {.work = 4 * n},
        [&](int64_t, const A* in, A* out) { row<kMode, A>(in, nullptr, out, n, scale); }, x, y);
  } else {
    map_rows(
        call, along, {.work = 4 * n},
        [&](int64_t, const A* in, const A* dy, A* out) { row<kMode>(in, dy, out, n, scale); }, x,
        RowIn<T, A>{call.in[1].as<T>(), n}, y);
  }
}

// Sums in the order of exp_sum().
template <class A>
A sum_of(const A* e, int64_t n) {
  A total = 0;
  for (int64_t i = 0; i < n; i += kPiece)
    total += reduce_block<Sum>(e + i, n - i < kPiece ? n - i : kPiece);
  return total;
}

// The loss of each row, its gradient, or both.
template <Mode kMode, class T>
void losses(const Call& call) {
  using A = Compute<T>;
  const Meta& m = call.in[0].meta;
  const int64_t n = m.shape[m.rank - 1];
  T *const loss = call.out[0].as<T>(), *const out = call.out[call.n_out - 1].as<T>();
  const auto label = [&](int64_t r) {
    const int64_t id = label_at(call.in[1], r);
    if (id < 0 || id >= n) throw_label_out_of_range(id, call.in[1].meta.dtype, r, n);
    return id;
  };
  const auto loss_of = [&](A sum, A top, A picked) {
    return convert<T>(std::log(sum) - (picked - top));
  };
  const Along along(m, m.rank - 1);
  const RowOptions options{.work = 4 * n};
  const RowIn<T, A> logits{call.in[0].as<T>(), n};
  if constexpr (kMode == Mode::loss) {
    const auto each = [&](int64_t r, const A* x) {
      const int64_t id = label(r);
      const A top = reduce_block<Max>(x, n);
      loss[r] = loss_of(exp_sum(x, n, top, A(1)), top, x[id]);
    };
    return map_rows(call, along, options, each, logits);
  }
  const auto each = [&](int64_t r, const A* x, A* y) {
    const int64_t id = label(r);
    const A top = reduce_block<Max>(x, n);
    exp_row(x, n, top, A(1), y);
    if constexpr (kMode == Mode::loss_with_grad) loss[r] = loss_of(sum_of(y, n), top, x[id]);
    const A factor = A(1) / reduce_block<Sum>(y, n);
    for (int64_t c = 0; c < n; ++c) y[c] *= factor;
    y[id] -= A(1);
    if constexpr (kMode == Mode::loss_grad) {
      const A head = convert<A>(call.in[2].as<T>()[r]);
      for (int64_t c = 0; c < n; ++c) y[c] *= head;
    }
  };
  map_rows(call, along, options, each, logits, RowOut<T, A>{out, n});
}

struct Backend {
  template <Mode kMode, DType D>
  static void along_axis(const Call& call) {
    run<kMode, CppTypeOf<D>>(call);
  }
  template <Mode kMode, DType D>
  static void cross_entropy(const Call& call) {
    losses<kMode, CppTypeOf<D>>(call);
  }
};

}  // namespace

extern constinit const KernelList softmax = softmax_kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
