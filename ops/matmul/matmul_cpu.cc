#include <Eigen/Core>

#include <locus/ops/matmul/matmul_cpu.h>

namespace locus::LOCUS_ISA {
namespace {

template <class T, int Order>
using Map = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Order>,
                       Eigen::Unaligned, Eigen::OuterStride<>>;

// Bias and activation run on rows that are still in the cache.
template <class T, int OrderA, int OrderB>
void slab(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
          int64_t ldc, const T* bias, bool relu) {
  using Result = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Map<T, OrderA> left(a, m, k, Eigen::OuterStride<>(lda));
  const Map<T, OrderB> right(b, k, n, Eigen::OuterStride<>(ldb));
  Eigen::Map<Result, Eigen::Unaligned, Eigen::OuterStride<>> result(c, m, n,
                                                                    Eigen::OuterStride<>(ldc));
  if (bias != nullptr) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) c[i * ldc + j] = bias[j];
    result.noalias() += left * right;
  } else {
    result.noalias() = left * right;
  }
  if (!relu) return;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) c[i * ldc + j] = c[i * ldc + j] < T(0) ? T(0) : c[i * ldc + j];
}

template <class T>
void slab(int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c, int64_t ldc,
          const T* bias, bool relu) {
  constexpr int kRows = Eigen::RowMajor, kColumns = Eigen::ColMajor;
  if constexpr (sizeof(T) == 1 || (!std::is_same_v<T, float> && !std::is_same_v<T, double>)) {
    slab<T, kRows, kRows>(m, n, k, a.data, a.ld, b.data, b.ld, c, ldc, bias, relu);
  } else if (a.column_major) {
    if (b.column_major)
      slab<T, kColumns, kColumns>(m, n, k, a.data, a.ld, b.data, b.ld, c, ldc, bias, relu);
    else
      slab<T, kColumns, kRows>(m, n, k, a.data, a.ld, b.data, b.ld, c, ldc, bias, relu);
  } else {
    if (b.column_major)
      slab<T, kRows, kColumns>(m, n, k, a.data, a.ld, b.data, b.ld, c, ldc, bias, relu);
    else
      slab<T, kRows, kRows>(m, n, k, a.data, a.ld, b.data, b.ld, c, ldc, bias, relu);
  }
}

// A whole number of Eigen's register blocks a thread.
LOCUS_HD int64_t share(int64_t n, int threads) {
  const int64_t each = (n + threads - 1) / threads;
  return (each + 15) / 16 * 16;
}

}  // namespace

template <class T>
void gemm(int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c, const T* bias,
          bool relu, int threads) {
  if (threads <= 1) return slab(m, n, k, a, b, c, n, bias, relu);
  if (m >= n || m >= 32 * threads) {
    parallel_for(m, share(m, threads), [&](int64_t begin, int64_t end) {
      Operand<T> rows = a;
      rows.data += begin * (a.column_major ? 1 : a.ld);
      slab(end - begin, n, k, rows, b, c + begin * n, n, bias, relu);
    });
  } else {
    parallel_for(n, share(n, threads), [&](int64_t begin, int64_t end) {
      Operand<T> columns = b;
      columns.data += begin * (b.column_major ? b.ld : 1);
      slab(m, end - begin, k, a, columns, c + begin, n, bias == nullptr ? bias : bias + begin,
           relu);
    });
  }
}

template void gemm(int64_t, int64_t, int64_t, Operand<float>, Operand<float>, float*, const float*,
                   bool, int);
template void gemm(int64_t, int64_t, int64_t, Operand<double>, Operand<double>, double*,
                   const double*, bool, int);

namespace {

// One entry of the batch. f32 and f64 are multiplied where they lie when BLAS could read them, all
// else through packed copies.
template <class S>
void multiply(const Product& p, int64_t entry, int threads) {
  using T = typename ComputeOf<S>::type;
  constexpr bool kDirect = std::is_same_v<S, float> || std::is_same_v<S, double>;
  int64_t a_offset, b_offset;
  p.offsets(entry, a_offset, b_offset);
  const S* a = static_cast<const S*>(p.a) + a_offset;
  const S* b = static_cast<const S*>(p.b) + b_offset;
  S* c = static_cast<S*>(p.c) + entry * p.m * p.n;

  const Leading la = leading(p.m, p.k, p.a_m, p.a_k), lb = leading(p.k, p.n, p.b_k, p.b_n);
  const bool pack_a = !kDirect || !la.ok, pack_b = !kDirect || !lb.ok;
  const Buffer<T> packed_a(pack_a ? p.m * p.k : 0), packed_b(pack_b ? p.k * p.n : 0);
  if (pack_a) pack(a, p.m, p.k, p.a_m, p.a_k, packed_a.data());
  if (pack_b) pack(b, p.k, p.n, p.b_k, p.b_n, packed_b.data());
  Operand<T> left{packed_a.data(), p.k > 0 ? p.k : 1, false};
  Operand<T> right{packed_b.data(), p.n > 0 ? p.n : 1, false};
  if constexpr (kDirect) {
    if (!pack_a) left = {a, la.ld, la.column_major};
    if (!pack_b) right = {b, lb.ld, lb.column_major};
    gemm<T>(p.m, p.n, p.k, left, right, c, nullptr, false, threads);
  } else if constexpr (sizeof(S) == sizeof(T)) {
    gemm<T>(p.m, p.n, p.k, left, right, reinterpret_cast<T*>(c), nullptr, false, threads);
  } else {
    const Buffer<T> sums(p.m * p.n);
    gemm<T>(p.m, p.n, p.k, left, right, sums.data(), nullptr, false, threads);
    for (int64_t i = 0; i < p.m * p.n; ++i) c[i] = static_cast<S>(sums.data()[i]);
  }
}

template <class S>
void matmul_kernel(const Call& call) {
  const Product p =
      make_product(call.in[0], call.in[1], call.out[0], call.attributes<MatmulAttrs>());
  const int64_t count = p.batch_size();
  const int threads = threads_for(p.m * count, p.n, p.k);
  if (threads > 1 && count >= threads) {
    parallel_for(count, (count + threads - 1) / threads, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) multiply<S>(p, i, 1);
    });
  } else {
    for (int64_t i = 0; i < count; ++i) multiply<S>(p, i, threads);
  }
}

struct Backend {
  template <DType D>
  static void matmul(const Call& call) {
    matmul_kernel<CppTypeOf<D>>(call);
  }
};

}  // namespace

extern constinit const KernelList matmul = matmul_kernels<Backend>();

}  // namespace locus::LOCUS_ISA
