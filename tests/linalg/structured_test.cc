// eigh and svd of matrices with many equal values, most of low rank, and of matrices with large and
// small elements. Rounding errors of rounding errors fill the rest of a matrix of low rank, and
// solvers lose the squares of these.
#include <functional>

#include <locus/ops/join.h>
#include <locus/ops/products.h>
#include <locus/ops/random.h>
#include <locus/ops/rearrange.h>
#include "tests/linalg/matrices.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

struct Structure {
  const char* name;
  std::function<double(int64_t i, int64_t j, int64_t n)> element;  // of a symmetric matrix
};

double tridiagonal(int64_t i, int64_t j, int64_t diagonal, double beside) {
  return i == j ? static_cast<double>(diagonal) : std::abs(i - j) == 1 ? beside : 0;
}

const std::vector<Structure>& structures() {
  static const std::vector<Structure> list{
      {"ones", [](auto, auto, auto) { return 1.; }},
      {"ones times n", [](auto, auto, auto n) { return double(n); }},
      {"ones times .1", [](auto, auto, auto) { return .1; }},
      {"path", [](auto i, auto j, auto) { return i == j                 ? 2.
                                                 : std::abs(i - j) == 1 ? -1.
                                                                        : 0.; }},
      {"complete graph", [](auto i, auto j, auto n) { return (i == j ? double(n) : 0.) - 1; }},
      {"blocks of ones", [](auto i, auto j, auto) { return i / 4 == j / 4 ? 1. : 0.; }},
      {"one block", [](auto i, auto j, auto) { return i < 3 && j < 3 ? 1. : 0.; }},
      {"checkerboard", [](auto i, auto j, auto) { return double((i + j) % 2); }},
      {"bipartite", [](auto i, auto j, auto n) { return (i < n / 2) == (j < n / 2) ? 0. : 7.; }},
      {"bipartite times 1e-30",
       [](auto i, auto j, auto n) { return (i < n / 2) == (j < n / 2) ? 0. : 7e-30; }},
      {"rank 1 of three integers", [](auto i, auto j, auto) { return double(i % 3 * (j % 3)); }},
      {"rank 1 of integers", [](auto i, auto j, auto) { return double(i * j); }},
      {"rank 2 of integers", [](auto i, auto j, auto) { return double(i + j); }},
      {"rank 1 of 33 and 66",
       [](auto i, auto j, auto) { return 33. * (1 + i * i % 5 % 2) * (1 + j * j % 5 % 2); }},
      {"rank 1 and blocks",
       [](auto i, auto j, auto) {
         return double((i * 7919 % 5 - 2) * (j * 7919 % 5 - 2)) + (i / 3 == j / 3 ? 1. : 0.);
       }},
      {"multiple of the identity", [](auto i, auto j, auto) { return i == j ? 3. : 0.; }},
      {"Hilbert's", [](auto i, auto j, auto) { return 1. / double(i + j + 1); }},
      {"Wilkinson's",
       [](auto i, auto j, auto n) { return tridiagonal(i, j, std::abs(i - n / 2), 1); }},
      {"Wilkinson's, glued",
       [](auto i, auto j, auto) {
         return tridiagonal(i, j, std::abs(i % 21 - 10), std::max(i, j) % 21 == 0 ? 1e-10 : 1);
       }},
      {"smaller downwards",
       [](auto i, auto j, auto n) {
         return double(1 + i * j % 7) * std::pow(10, -20. * double(std::max(i, j)) / double(n));
       }},
      {"smaller upwards",
       [](auto i, auto j, auto n) {
         return double(1 + i * j % 7) * std::pow(10, 20. * double(std::min(i, j) - n) / double(n));
       }},
      {"powers of 10",
       [](auto i, auto j, auto) {
         return std::pow(10, double((i + 1) * (j + 1) * 7919 % 37 - 18));
       }},
  };
  return list;
}

Tensor matrix(const Structure& s, int64_t n, Context c, DType d) {
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) v.push_back(s.element(i, j, n));
  return from_values(v, {n, n}, c, d);
}

// One matrix, and two: solvers take several matrices in other ways.
void for_each_structure(const auto& expect) {
  for (const Context c : kernel_contexts())
    for (const DType d : {f32, f64})
      for (const int64_t n : {2, 5, 7, 11, 16, 17, 22, 25, 30, 32, 33, 38, 64, 97})
        for (const Structure& s : structures()) {
          SCOPED_TRACE(to_string(c) + " " + name(d) + " " + std::to_string(n) + " " + s.name);
          const Tensor a = matrix(s, n, c, d);
          expect(a);
          expect(stack({a, a}));
          if (testing::Test::HasFailure()) return;
        }
}

TEST(Eigh, OfStructuredMatricesHasOrthonormalVectors) {
  for_each_structure([](const Tensor& a) {
    const auto [w, v] = eigh(a);
    expect_orthonormal_columns(v);
    expect_close(matmul(v * expand_dims(w, -2), transpose_matrices(v)), a, a.shape()[-1],
                 max_norm(a));
    expect_close(eigvalsh(a), w, a.shape()[-1], max_norm(a));
  });
}

TEST(Svd, OfStructuredMatricesHasOrthonormalVectors) {
  for_each_structure([](const Tensor& a) {
    const auto [u, s, vh] = svd(a);
    expect_orthonormal_columns(u);
    expect_orthonormal_columns(transpose_matrices(vh));
    expect_close(matmul(u * expand_dims(s, -2), vh), a, a.shape()[-1], max_norm(a));
    expect_close(svdvals(a), s, a.shape()[-1], max_norm(a));
  });
}

TEST(Svd, OfF32HasSmallErrorsOfSmallValues) {
  for (const Context c : kernel_contexts())
    for (const int64_t n : {2, 5, 33, 97})
      for (const Structure& s : structures()) {
        SCOPED_TRACE(text_of(c, " ", n, " ", s.name));
        const Tensor a = matrix(s, n, c, f32), exact = svdvals(a.astype(f64));
        const double largest = max_abs(exact);
        EXPECT_LE(max_abs(svdvals(a).astype(f64) - exact), 2e-7 * largest);
        EXPECT_LE(max_abs(svd(a).s.astype(f64) - exact), 2e-7 * largest);
        if (HasFailure()) return;
      }
}

// Two blocks of ones, each with rounding errors at some places.
Tensor noisy_blocks(int p, int q, int r, int every, double error, Context c) {
  std::vector<double> v;
  for (int i = 0; i < 32; ++i)
    for (int j = 0; j < 32; ++j) {
      const int low = std::min(i, j), high = std::max(i, j);
      const bool noisy = (p * low * low + q * low * high + r * high) % every == 0;
      v.push_back((i / 16 == j / 16 ? 1 : 0) + (noisy ? error : 0));
    }
  return from_values(v, {32, 32}, c, f64);
}

TEST(Eigh, ConvergesForEqualValuesWithRoundingErrors) {
  for (const Context c : kernel_contexts()) {
    const Tensor a = noisy_blocks(1, 9, 9, 9, 0x1p-52, c), b = noisy_blocks(1, 3, 2, 8, 0x1p-51, c);
    for (const Tensor& x : {a, b}) {
      const auto [w, v] = eigh(x);
      expect_close(matmul(v * expand_dims(w, -2), transpose_matrices(v)), x, 32, 16);
      expect_close(eigvalsh(x), w, 32, 16);
      expect_close(svdvals(x), flip(abs(w), -1), 32, 16);
      EXPECT_NEAR(matrix_norm(x, {.ord = "nuc"}).item<double>(), 32, 1e-12);
    }
  }
}

Tensor symmetric_draws(const Shape& shape, Context c, DType d) {
  return symmetrize(random::normal(0, 1, shape, {c, d}));
}

void expect_eigh(const Tensor& x, double by) {
  const int64_t n = x.shape()[-1];
  const auto [w, v] = eigh(x * by);
  expect_orthonormal_columns(v);
  expect_close(matmul(v * expand_dims(w / by, -2), transpose_matrices(v)), x, n, max_norm(x));
  expect_close(eigvalsh(x * by) / by, w / by, n, max_norm(x));
}
void expect_svd(const Tensor& x, double by) {
  const int64_t n = x.shape()[-2];
  const auto [u, s, vh] = svd(x * by, {.full_matrices = false});
  expect_orthonormal_columns(u);
  expect_close(matmul(u * expand_dims(s / by, -2), vh), x, n, max_norm(x));
  expect_close(svdvals(x * by) / by, s / by, n, max_norm(x));
}

// Squares of these elements overflow or vanish.
TEST(Spectral, DecomposesMatricesOfLargeAndSmallElements) {
  for (const Context c : kernel_contexts())
    for (const auto& [d, by] :
         {std::pair{f32, 1e30}, {f32, 1e-30}, {f64, 1e30}, {f64, 1e300}, {f64, 1e-300}})
      for (const Shape& shape : {Shape{9, 9}, {2, 9, 9}, {2, 40, 40}}) {
        SCOPED_TRACE(text_of(c, " ", name(d), " ", shape, " times ", by));
        const Tensor x = symmetric_numbers(shape, c, d);
        expect_eigh(x, by);
        expect_svd(x, by);
        if (HasFailure()) return;
      }
}

// Half of the singular values are equal. Divide and conquer gives wrong factors for some of these
// matrices.
TEST(Svd, OfProjectorsReconstructsThem) {
  for (const Context c : kernel_contexts())
    for (const Shape& shape : {Shape{200, 33, 33}, {2, 200, 200}}) {
      const Tensor q = qr(normal_numbers(shape, c)).q;
      const Tensor half = slice_axis(q, -1, Slice(0, shape[1] / 2));
      expect_svd(matmul(half, transpose_matrices(half)), 1);
    }
}

TEST(Svd, OfF64OnTheHostHasTheValuesOfSvdvals) {
  const Tensor diagonal = diag(array(std::vector<double>{1, 1e-151, 1e-300}, {cpu(), f64}));
  EXPECT_THAT(values(svdvals(diagonal)), testing::ElementsAre(1, 1e-151, 1e-300));
  for (const Structure& s : structures()) {
    const Tensor a = matrix(s, 40, cpu(), f64);
    EXPECT_EQ(values(svdvals(a)), values(svd(a).s)) << s.name;
  }
}

// The rotations of a sweep become smaller than the smallest number.
TEST(Svd, OfASteeplyGradedBidiagonalMatrixConverges) {
  const std::vector<double> d{1e-140, 1e-130, 1e-118, 1e-104, 1e-90, 1e-75,
                              1e-60,  1e-45,  1e-30,  1e-15,  1};
  const size_t n = d.size();
  std::vector<double> b(n * n);
  for (size_t i = 0; i < n; ++i) {
    b[i * n + i] = d[i];
    if (i + 1 < n) b[i * n + i + 1] = std::sqrt(d[i] * d[i + 1]);
  }
  for (const Context c : kernel_contexts()) {
    const Tensor a = from_values(b, {11, 11}, c, f64);
    for (const Tensor& x : {a, transpose_matrices(a), flip(flip(a, 0), 1)}) expect_svd(x, 1);
  }
}

// A call of cuSOLVER takes 65,535 matrices, or 2^21. Emulated GPUs get a hundredth.
TEST(Spectral, DecomposesMoreMatricesThanACallOfTheSolverTakes) {
  LOCUS_NEEDS_ANY_GPUS(1);
  random::seed(11);
  const Context c = gpu(0);
  const int64_t share = emulated_gpus() ? 100 : 1;
  for (const DType d : {f32, f64}) {
    expect_eigh(symmetric_draws({70000 / share, 33, 33}, c, d), 1);
    const Tensor small = symmetric_draws({3000000 / share, 2, 2}, c, d);
    const Tensor traces = trace(small, 0, 1, 2);
    expect_close(sum(eigvalsh(small), {.axis = -1}), traces, 2, max_norm(small));
    expect_close(sum(svdvals(small) * svdvals(small), {.axis = -1}),
                 sum(small * small, {.axis = {1, 2}}), 2, max_norm(small) * max_norm(small));
  }
  for (const int64_t columns : {2, 33})
    expect_svd(random::normal(0, 1, {70000 / share, 33, columns}, {c}), 1);
}

}  // namespace
}  // namespace locus::test
