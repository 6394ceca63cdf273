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
void slab(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, int64_t ldc,
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

// Of two vectors, any strides: in many lanes, where Eigen has one.
template <class T>
T dot(int64_t k, const T* a, int64_t a_step, const T* b, int64_t b_step) {
  constexpr int64_t kLanes = 16;
  T lanes[kLanes] = {};
  for (int64_t i = 0; i < k; i += kLanes)
    for (int64_t j = 0; j < (k - i < kLanes ? k - i : kLanes); ++j)
      lanes[j] += a[(i + j) * a_step] * b[(i + j) * b_step];
  for (int64_t half = kLanes / 2; half > 0; half /= 2)
    for (int64_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  return lanes[0];
}

// A whole number of Eigen's register blocks a thread.
LOCUS_HD int64_t share(int64_t n, int threads) {
  const int64_t each = (n + threads - 1) / threads;
  return (each + 15) / 16 * 16;
}

template <class T>
void cut(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, const T* bias, bool relu,
         int threads) {
  if (threads <= 1) return slab(m, n, k, a, b, c, n, bias, relu);
  if (m >= n || m >= 32 * threads) {
    parallel_for(m, share(m, threads), [&](int64_t begin, int64_t end) {
      Matrix<T> rows = a;
      rows.data += begin * (a.column_major ? 1 : a.ld);
      slab(end - begin, n, k, rows, b, c + begin * n, n, bias, relu);
    });
  } else {
    parallel_for(n, share(n, threads), [&](int64_t begin, int64_t end) {
      Matrix<T> columns = b;
      columns.data += begin * (b.column_major ? b.ld : 1);
      slab(m, end - begin, k, a, columns, c + begin, n, bias == nullptr ? bias : bias + begin,
           relu);
    });
  }
}

template <class T>
void sum_blocks(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, const T* bias,
                bool relu, int threads, void* scratch) {
  const int64_t results = m * n, blocks = (k + kDepth - 1) / kDepth;
  const int64_t most = blocks_at_once(results, k);
  double* const totals = static_cast<double*>(scratch);
  T* const parts = reinterpret_cast<T*>(static_cast<char*>(scratch) +
                                        padded(static_cast<size_t>(results) * sizeof(double)));
  const int64_t a_step = a.column_major ? a.ld : 1, b_step = b.column_major ? 1 : b.ld;
  const bool strided = results == 1 && (a_step != 1 || b_step != 1);
  const auto multiply = [&](int64_t block, T* part, int threads_here) {
    const int64_t begin = block * kDepth, depth = k - begin < kDepth ? k - begin : kDepth;
    Matrix<T> left = a, right = b;
    left.data += begin * a_step;
    right.data += begin * b_step;
    if (strided)
      *part = dot(depth, left.data, a_step, right.data, b_step);
    else
      cut<T>(m, n, depth, left, right, part, nullptr, false, threads_here);
  };
  for (int64_t first = 0; first < blocks; first += most) {
    const int64_t some = blocks - first < most ? blocks - first : most;
    if (most == 1) {
      multiply(first, parts, threads);
    } else {
      const int64_t each = threads > 1 ? (some + threads - 1) / threads : some;
      parallel_for(some, each, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) multiply(first + i, parts + i * results, 1);
      });
    }
    parallel_for(results, threads > 1 ? 1 << 15 : results, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        double sum = first == 0 ? 0 : totals[at];
        for (int64_t i = 0; i < some; ++i) sum += static_cast<double>(parts[i * results + at]);
        totals[at] = sum;
      }
    });
  }
  for (int64_t at = 0; at < results; ++at) {
    const T sum =
        static_cast<T>(totals[at] + (bias == nullptr ? 0 : static_cast<double>(bias[at % n])));
    c[at] = relu && sum < T(0) ? T(0) : sum;
  }
}

}  // namespace

template <class T>
void gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, const T* bias, bool relu,
          int threads, void* scratch) {
  if constexpr (std::is_floating_point_v<T>) {
    // A vector without gaps runs along k, which is how Eigen adds it up fast.
    if (m == 1 && a.column_major && a.ld == 1) a = {a.data, k > 0 ? k : 1, false};
    if (n == 1 && !b.column_major && b.ld == 1) b = {b.data, k > 0 ? k : 1, true};
    if (in_blocks<T>(m, n, k)) return sum_blocks(m, n, k, a, b, c, bias, relu, threads, scratch);
  }
  cut(m, n, k, a, b, c, bias, relu, threads);
}

template void gemm(int64_t, int64_t, int64_t, Matrix<float>, Matrix<float>, float*, const float*,
                   bool, int, void*);
template void gemm(int64_t, int64_t, int64_t, Matrix<double>, Matrix<double>, double*,
                   const double*, bool, int, void*);

namespace {

// One entry of the batch. f32 and f64 are multiplied where they lie when BLAS could read them, all
// else through packed copies.
template <class S>
struct Entry {
  using T = Factor<S>;
  static constexpr bool kDirect = std::is_same_v<S, float> || std::is_same_v<S, double>;

  explicit Entry(const Product& product)
      : p(product),
        la(leading(p.m, p.k, p.a_m, p.a_k)),
        lb(leading(p.k, p.n, p.b_k, p.b_n)),
        bytes_a(kDirect && la.ok ? 0 : bytes(p.m * p.k)),
        bytes_b(kDirect && lb.ok ? 0 : bytes(p.k * p.n)),
        bytes_c(sizeof(S) == sizeof(T) ? 0 : bytes(p.m * p.n)) {}

  static size_t bytes(int64_t n) { return padded(static_cast<size_t>(n) * sizeof(T)); }
  size_t scratch() const { return bytes_a + bytes_b + bytes_c + gemm_scratch<T>(p.m, p.n, p.k); }

  void multiply(int64_t entry, int threads, char* memory) const {
    int64_t at[2] = {};
    p.batch.locate(entry, at, p.batch.rank);
    const S* a = static_cast<const S*>(p.a) + at[0];
    const S* b = static_cast<const S*>(p.b) + at[1];
    S* c = static_cast<S*>(p.c) + entry * p.m * p.n;
    T* const packed_a = reinterpret_cast<T*>(memory);
    T* const packed_b = reinterpret_cast<T*>(memory + bytes_a);
    T* const sums =
        bytes_c > 0 ? reinterpret_cast<T*>(memory + bytes_a + bytes_b) : reinterpret_cast<T*>(c);
    if (bytes_a > 0) pack(a, p.m, p.k, p.a_m, p.a_k, packed_a);
    if (bytes_b > 0) pack(b, p.k, p.n, p.b_k, p.b_n, packed_b);
    Matrix<T> left{packed_a, p.k > 0 ? p.k : 1, false};
    Matrix<T> right{packed_b, p.n > 0 ? p.n : 1, false};
    if constexpr (kDirect) {
      if (la.ok) left = {a, la.ld, la.column_major};
      if (lb.ok) right = {b, lb.ld, lb.column_major};
    }
    gemm<T>(p.m, p.n, p.k, left, right, sums, nullptr, false, threads,
            memory + bytes_a + bytes_b + bytes_c);
    if (bytes_c > 0)
      for (int64_t i = 0; i < p.m * p.n; ++i) c[i] = static_cast<S>(sums[i]);
  }

  const Product& p;
  Leading la, lb;
  size_t bytes_a, bytes_b, bytes_c;
};

struct Backend {
  template <DType D>
  static void matmul(const Call& call) {
    using S = CppTypeOf<D>;
    const Product p =
        make_product(call.in[0], call.in[1], call.out[0], call.attributes<MatmulAttrs>());
    const Entry<S> product(p);
    const size_t bytes = product.scratch();
    const int64_t count = p.batch.size;
    const int threads = threads_for(p.m * count, p.n, p.k);
    const bool apart = threads > 1 && count >= threads;  // an entry a thread
    const int64_t each = apart ? (count + threads - 1) / threads : count;
    const Scratch scratch(call, apart ? static_cast<size_t>(threads) * bytes : bytes);
    parallel_for(count, each, [&](int64_t begin, int64_t end) {
      char* memory = scratch.as<char>() + static_cast<size_t>(begin / each) * bytes;
      for (int64_t i = begin; i < end; ++i) product.multiply(i, apart ? 1 : threads, memory);
    });
  }
};

}  // namespace

extern constinit const KernelList matmul = matmul_kernels<Backend>();

}  // namespace locus::LOCUS_ISA
