#include <algorithm>

#include <Eigen/Core>

#include <locus/ops/matmul/matmul_cpu.h>
#include <locus/ops/matmul/matmul_pack_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

template <class T, int Order>
using Map = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Order>,
                       Eigen::Unaligned, Eigen::OuterStride<>>;

template <class T, int OrderA, int OrderB>
void eigen(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, int64_t ldc) {
  using Result = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Map<T, OrderA> left(a.data, m, k, Eigen::OuterStride<>(a.ld));
  const Map<T, OrderB> right(b.data, k, n, Eigen::OuterStride<>(b.ld));
  Eigen::Map<Result, Eigen::Unaligned, Eigen::OuterStride<>> result(c, m, n,
                                                                    Eigen::OuterStride<>(ldc));
  result.noalias() = left * right;
}

template <class T>
void eigen(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, int64_t ldc) {
  constexpr int kByRows = Eigen::RowMajor, kByColumns = Eigen::ColMajor;
  if constexpr (!kFloating<T>)  // integers are packed
    eigen<T, kByRows, kByRows>(m, n, k, a, b, c, ldc);
  else if (a.column_major && b.column_major)
    eigen<T, kByColumns, kByColumns>(m, n, k, a, b, c, ldc);
  else if (a.column_major)
    eigen<T, kByColumns, kByRows>(m, n, k, a, b, c, ldc);
  else if (b.column_major)
    eigen<T, kByRows, kByColumns>(m, n, k, a, b, c, ldc);
  else
    eigen<T, kByRows, kByRows>(m, n, k, a, b, c, ldc);
}

template <class T>
Matrix<T> rows_from(Matrix<T> a, int64_t row) {
  a.data += row * (a.column_major ? 1 : a.ld);
  return a;
}
template <class T>
Matrix<T> columns_from(Matrix<T> a, int64_t column) {
  a.data += column * (a.column_major ? a.ld : 1);
  return a;
}
template <class T>
Matrix<T> transposed(const Matrix<T>& a) {
  return {a.data, a.ld, !a.column_major};
}

// Element (i, j) lies at data[i * row + j * column].
template <class T>
struct Target {
  T* data;
  int64_t row, column;
};

// c = a · b for at most kChunkRows rows, in blocks of kBlockDepth steps and one panel of b at a
// time. An element's order of additions depends on k alone.
template <class T>
void multiply_panels(int64_t m, int64_t n, int64_t k, const Matrix<T>& a, const Matrix<T>& b,
                     Target<T> c, T* packed) {
  const int64_t panels = (m + kMaxRows - 1) / kMaxRows, depth = k < kBlockDepth ? k : kBlockDepth;
  T* const packed_b = packed;
  T* const packed_a = packed + kColumns<T> * depth;
  const auto row_of = [&](int64_t panel) { return m * panel / panels; };
  for (int64_t begin = 0; begin < k || begin == 0; begin += kBlockDepth) {
    const int64_t block = k - begin < kBlockDepth ? k - begin : kBlockDepth;
    const Matrix<T> left = columns_from(a, begin), right = rows_from(b, begin);
    for (int64_t panel = 0; panel < panels; ++panel) {
      const int64_t row = row_of(panel), rows = row_of(panel + 1) - row;
      const auto pack = a.column_major ? pack_along<T> : pack_across<T>;
      pack(rows_from(left, row).data, a.ld, rows, block, packed_a + row * block, rows);
    }
    for (int64_t column = 0; column < n; column += kColumns<T>) {
      const int64_t some = n - column < kColumns<T> ? n - column : kColumns<T>;
      const T* from = columns_from(right, column).data;
      int64_t step = b.ld;
      if (panels > 1 || b.column_major || some < kColumns<T>) {  // else read once, in place
        pack_columns(from, b.ld, b.column_major, some, block, packed_b);
        from = packed_b, step = kColumns<T>;
      }
      for (int64_t panel = 0; panel < panels; ++panel) {
        const int64_t row = row_of(panel), rows = row_of(panel + 1) - row;
        const T* const lines = packed_a + row * block;
        T* const to = c.data + row * c.row + column * c.column;
        if (some == kColumns<T> && c.column == 1) {
          multiply_panel(rows, block, lines, from, step, to, c.row, begin > 0);
          continue;
        }
        alignas(kVectorBytes) T sums[kMaxRows * kColumns<T>];
        multiply_panel(rows, block, lines, from, step, sums, kColumns<T>, false);
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < some; ++j) {
            T& at = to[i * c.row + j * c.column];
            at = begin > 0 ? sums[i * kColumns<T> + j] + at : sums[i * kColumns<T> + j];
          }
      }
    }
  }
}

// Results that would fill less than half of a panel of columns are computed as rows of the
// transposed product.
template <class T>
void multiply_rows(int64_t m, int64_t n, int64_t k, const Matrix<T>& a, const Matrix<T>& b, T* c,
                   int64_t ldc, T* packed) {
  const int64_t rest = n % kColumns<T> <= kVectorLanes<T> ? n % kColumns<T> : 0, wide = n - rest;
  if (wide > 0) multiply_panels(m, wide, k, a, b, Target<T>{c, ldc, 1}, packed);
  if (rest > 0)
    multiply_panels(rest, m, k, transposed(columns_from(b, wide)), transposed(a),
                    Target<T>{c + wide, 1, ldc}, packed);
}

// Applies bias and activation while rows are still in the cache. If `packed` is null, Eigen
// multiplies.
template <class T>
void slab(int64_t m, int64_t n, int64_t k, const Matrix<T>& a, const Matrix<T>& b, T* c,
          int64_t ldc, const T* bias, bool relu, T* packed) {
  for (int64_t row = 0; row < m; row += kChunkRows<T>) {
    const int64_t rows = m - row < kChunkRows<T> ? m - row : kChunkRows<T>;
    T* const to = c + row * ldc;
    if constexpr (kFloating<T>) {
      if (packed) multiply_rows(rows, n, k, rows_from(a, row), b, to, ldc, packed);
    }
    if (!packed) eigen(rows, n, k, rows_from(a, row), b, to, ldc);
    if (bias == nullptr && !relu) continue;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const T v = bias == nullptr ? to[i * ldc + j] : to[i * ldc + j] + bias[j];
        to[i * ldc + j] = relu && v < T(0) ? T(0) : v;
      }
  }
}

// Dot product of vectors with any strides, in many lanes. Eigen has one lane for these.
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

// A thread's part of n, a multiple of `unit`.
LOCUS_HD int64_t share(int64_t n, int threads, int64_t unit) {
  const int64_t each = (n + threads - 1) / threads;
  return (each + unit - 1) / unit * unit;
}

// Vectors, small products and integers. Sums of vectors depend on the cut, so pieces have one
// length for any number of threads. Integers are exact. The calling thread computes small products
// alone.
template <class T>
void cut_eigen(int64_t m, int64_t n, int64_t k, const Matrix<T>& a, const Matrix<T>& b, T* c,
               const T* bias, bool relu, int threads) {
  const bool vector = m == 1 || n == 1;
  const bool by_rows = m >= n || m >= 32 * threads;
  const bool dots = by_rows ? !a.column_major : b.column_major;
  const int64_t length = by_rows ? m : n, vector_piece = dots ? 64 : 256;
  const int64_t unit = vector ? vector_piece : by_rows ? 1 : kVectorLanes<T>;
  const bool alone = threads <= 1 || (kFloating<T> && !vector);
  parallel_ranges(
      length, alone ? length : share(length, threads, unit), [&](int64_t begin, int64_t end) {
        const int64_t piece = vector ? vector_piece : end - begin;
        for (int64_t at = begin; at < end; at += piece) {
          const int64_t some = end - at < piece ? end - at : piece;
          if (by_rows)
            slab<T>(some, n, k, rows_from(a, at), b, c + at * n, n, bias, relu, nullptr);
          else
            slab<T>(m, some, k, a, columns_from(b, at), c + at, n,
                    bias == nullptr ? bias : bias + at, relu, nullptr);
        }
      });
}

// The rectangle of results that each thread computes, with the least multiplying and packing.
// Packing an element takes about as long as kPack multiplications.
struct Rectangle {
  int64_t rows, columns;
};
template <class T>
Rectangle rectangle(int64_t m, int64_t n, int threads) {
  constexpr int64_t kPack = 24;
  Rectangle best{m, n};
  int64_t least = m * n + kPack * (m + n);
  for (int down = 1; down <= threads; ++down) {
    const Rectangle r{share(m, down, 1), share(n, threads / down, kColumns<T>)};
    const int64_t cost = r.rows * r.columns + kPack * (r.rows + r.columns);
    if (cost < least) least = cost, best = r;
  }
  return best;
}

// Divides the product among the threads. Sums of our kernels do not depend on the division.
template <class T>
void cut(int64_t m, int64_t n, int64_t k, const Matrix<T>& a, const Matrix<T>& b, T* c,
         const T* bias, bool relu, int threads, T* packed) {
  if (by_eigen<T>(m, n, k)) return cut_eigen(m, n, k, a, b, c, bias, relu, threads);
  const Rectangle r = rectangle<T>(m, n, threads);
  const int64_t down = (m + r.rows - 1) / r.rows, across = (n + r.columns - 1) / r.columns;
  parallel_ranges(down * across, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / across * r.rows, column = i % across * r.columns;
      const int64_t rows = m - row < r.rows ? m - row : r.rows;
      const int64_t columns = n - column < r.columns ? n - column : r.columns;
      slab(rows, columns, k, rows_from(a, row), columns_from(b, column), c + row * n + column, n,
           bias == nullptr ? bias : bias + column, relu, packed + i * packed_elements<T>(m, k));
    }
  });
}

template <class T>
void sum_blocks(int64_t m, int64_t n, int64_t k, const Matrix<T>& a, const Matrix<T>& b, T* c,
                const T* bias, bool relu, int threads, void* scratch) {
  const int64_t results = m * n, length = depth_of_blocks<T>(m, n, k);
  const int64_t blocks = (k + length - 1) / length, most = blocks_at_once<T>(m, n, k);
  const GemmScratch<T> memory(m, n, k, threads);
  double* const totals = static_cast<double*>(scratch);
  T* const parts = reinterpret_cast<T*>(static_cast<char*>(scratch) + memory.parts);
  T* const packed = reinterpret_cast<T*>(static_cast<char*>(scratch) + memory.packed);
  const int64_t a_step = a.column_major ? a.ld : 1, b_step = b.column_major ? 1 : b.ld;
  const bool strided = results == 1 && (a_step != 1 || b_step != 1);
  const auto multiply = [&](int64_t block, T* part, int threads_here, T* packed_here) {
    const int64_t begin = block * length, depth = k - begin < length ? k - begin : length;
    const Matrix<T> left = columns_from(a, begin), right = rows_from(b, begin);
    if (strided)
      *part = dot(depth, left.data, a_step, right.data, b_step);
    else
      cut<T>(m, n, depth, left, right, part, nullptr, false, threads_here, packed_here);
  };
  for (int64_t first = 0; first < blocks; first += most) {
    const int64_t some = blocks - first < most ? blocks - first : most;
    if (most == 1) {
      multiply(first, parts, threads, packed);
    } else {
      const int64_t each = threads > 1 ? (some + threads - 1) / threads : some;
      parallel_ranges(some, each, [&](int64_t begin, int64_t end) {
        T* const own = packed + begin / each * packed_elements<T>(m, k);
        for (int64_t i = begin; i < end; ++i) multiply(first + i, parts + i * results, 1, own);
      });
    }
    parallel_ranges(results, threads > 1 ? 1 << 15 : results, [&](int64_t begin, int64_t end) {
      if (first == 0) std::fill(totals + begin, totals + end, 0.);
      for (int64_t i = 0; i < some; ++i)
        for (int64_t at = begin; at < end; ++at)
          totals[at] += static_cast<double>(parts[i * results + at]);
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
  if constexpr (kFloating<T>) {
    // A vector without gaps runs along k: Eigen adds it up fast.
    if (m == 1 && a.column_major && a.ld == 1) a = {a.data, k > 0 ? k : 1, false};
    if (n == 1 && !b.column_major && b.ld == 1) b = {b.data, k > 0 ? k : 1, true};
    if (in_blocks<T>(m, n, k)) return sum_blocks(m, n, k, a, b, c, bias, relu, threads, scratch);
  }
  cut(m, n, k, a, b, c, bias, relu, threads, static_cast<T*>(scratch));
}

template void gemm(int64_t, int64_t, int64_t, Matrix<float>, Matrix<float>, float*, const float*,
                   bool, int, void*);
template void gemm(int64_t, int64_t, int64_t, Matrix<double>, Matrix<double>, double*,
                   const double*, bool, int, void*);
template void gemm(int64_t, int64_t, int64_t, Matrix<uint32_t>, Matrix<uint32_t>, uint32_t*,
                   const uint32_t*, bool, int, void*);
template void gemm(int64_t, int64_t, int64_t, Matrix<uint64_t>, Matrix<uint64_t>, uint64_t*,
                   const uint64_t*, bool, int, void*);

}  // namespace locus::LOCUS_ISA_NAMESPACE
