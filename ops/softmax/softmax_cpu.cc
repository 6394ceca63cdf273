#include <Eigen/Core>

#include <locus/core/scratch.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/math.h>
#include <locus/ops/reduce/extreme.h>
#include <locus/ops/reduce/reduce_stage.h>
#include <locus/ops/reduce/sum.h>
#include <locus/ops/softmax/softmax_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

template <class A>
using ConstRow = Eigen::Map<const Eigen::Array<A, Eigen::Dynamic, 1>>;

// Calls body(begin, end, memory) on ranges of n rows, each with `elements` of scratch memory.
template <class A>
void for_rows(const Call& call, int64_t n, int64_t work_each, int64_t elements, const auto& body) {
  const int64_t whole = grain(work_each), most = (n + whole - 1) / whole;
  const int64_t ranges = most < num_threads() ? most : num_threads();
  const Scratch scratch(call, static_cast<size_t>(ranges * elements) * sizeof(A));
  A* const memory = scratch.as<A>();
  parallel_ranges(ranges, 1, [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin)
      body(n * begin / ranges, n * (begin + 1) / ranges, memory + begin * elements);
  });
}

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

constexpr int64_t kColumns = 16;  // rows gathered at once when they are strided

// Copies `w` neighbouring rows of n elements, `stride` apart, to and from scratch memory.
template <class T, class A>
__attribute__((noinline)) void gather(const T* x, int64_t n, int64_t stride, int64_t w, A* out) {
  for (int64_t c = 0; c < n; ++c)
    for (int64_t j = 0; j < w; ++j) out[j * n + c] = convert<A>(x[c * stride + j]);
}
template <class T, class A>
__attribute__((noinline)) void scatter(const A* x, int64_t n, int64_t stride, int64_t w, T* out) {
  for (int64_t c = 0; c < n; ++c)
    for (int64_t j = 0; j < w; ++j) out[c * stride + j] = convert<T>(x[j * n + c]);
}

template <Mode kMode, class T>
void run(const Call& call) {
  using A = Compute<T>;
  const SoftmaxAttrs& attrs = call.attributes<SoftmaxAttrs>();
  const Along s(call.in[0].meta, attrs.axis);
  const bool pair = call.n_in == 2;
  const T *x = call.in[0].as<T>(), *dy = pair ? call.in[1].as<T>() : nullptr;
  T* y = call.out[0].as<T>();
  const A scale = static_cast<A>(1 / attrs.temperature);
  const int64_t n = s.n;
  if (s.inner == 1) {
    const int64_t elements = std::is_same_v<T, A> ? 0 : 2 * n;
    for_rows<A>(call, s.outer, 4 * n, elements, [&](int64_t begin, int64_t end, A* a) {
      if constexpr (std::is_same_v<T, A>) {
        for (int64_t r = begin; r < end; ++r)
          row<kMode>(x + r * n, pair ? dy + r * n : nullptr, y + r * n, n, scale);
      } else {
        A* const b = a + n;
        for (int64_t r = begin; r < end; ++r) {
          convert_run(x + r * n, a, n);
          if (pair) convert_run(dy + r * n, b, n);
          row<kMode>(a, b, a, n, scale);
          convert_run(a, y + r * n, n);
        }
      }
    });
    return;
  }
  const int64_t across = (s.inner + kColumns - 1) / kColumns;
  const int64_t tiles = s.outer * across, elements = (pair ? 2 : 1) * n * kColumns;
  for_rows<A>(call, tiles, 4 * n * kColumns, elements, [&](int64_t begin, int64_t end, A* a) {
    A* const b = a + n * kColumns;
    for (int64_t t = begin; t < end; ++t) {
      const int64_t j = t % across * kColumns, at = t / across * n * s.inner + j;
      const int64_t w = s.inner - j < kColumns ? s.inner - j : kColumns;
      gather(x + at, n, s.inner, w, a);
      if (pair) gather(dy + at, n, s.inner, w, b);
      for (int64_t r = 0; r < w; ++r)
        row<kMode>(a + r * n, pair ? b + r * n : nullptr, a + r * n, n, scale);
      scatter(a, n, s.inner, w, y + at);
    }
  });
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
  constexpr bool kDirect = std::is_same_v<T, A>;
  const Meta& m = call.in[0].meta;
  const int64_t classes = m.shape[m.rank - 1], elements = kDirect ? 0 : classes;
  T *const loss = call.out[0].as<T>(), *const out = call.out[call.n_out - 1].as<T>();
  const auto each = [&](int64_t r, A* buffer) {
    const int64_t id = label_at(call.in[1], r), at = r * classes;
    if (id < 0 || id >= classes) throw_label_out_of_range(id, call.in[1].meta.dtype, r, classes);
    const A* x = buffer;
    if constexpr (kDirect)
      x = call.in[0].as<T>() + at;
    else
      convert_run(call.in[0].as<T>() + at, buffer, classes);
    A* y = buffer;
    if constexpr (kDirect) y = out + at;
    const A top = reduce_block<Max>(x, classes), picked = x[id];
    if constexpr (kMode == Mode::loss) {
      loss[r] = convert<T>(std::log(exp_sum(x, classes, top, A(1))) - (picked - top));
      return;
    }
    exp_row(x, classes, top, A(1), y);
    if constexpr (kMode == Mode::loss_with_grad)
      loss[r] = convert<T>(std::log(sum_of(y, classes)) - (picked - top));
    const A factor = A(1) / reduce_block<Sum>(y, classes);
    for (int64_t c = 0; c < classes; ++c) y[c] *= factor;
    y[id] -= A(1);
    if constexpr (kMode == Mode::loss_grad) {
      const A head = convert<A>(call.in[2].as<T>()[r]);
      for (int64_t c = 0; c < classes; ++c) y[c] *= head;
    }
    if constexpr (!kDirect) convert_run(y, out + at, classes);
  };
  for_rows<A>(call, call.in[1].meta.size(), 4 * classes, elements,
              [&](int64_t begin, int64_t end, A* buffer) {
                for (; begin < end; ++begin) each(begin, buffer);
              });
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
