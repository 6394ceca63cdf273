// lu and det: what they reconstruct, and which matrices count as singular.
#include <cmath>
#include <random>
#include <vector>

#include <locus/locus.h>
#include "tests/linalg/matrices.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

// Elements of 0 and 1, of which one in each row and column is 1.
void expect_permutation(const Tensor& p) {
  EXPECT_EQ(max_abs(p * p - p), 0);
  for (const int axis : {-1, -2}) EXPECT_EQ(max_abs(sum(p, {.axis = axis}) - 1), 0);
}

// a = p l u, and the form of the factors.
void expect_decomposed(const Tensor& a) {
  const Lu f = lu(a);
  const int64_t m = a.shape()[-2], n = a.shape()[-1], k = std::min(m, n);
  ASSERT_EQ(f.l.shape()[-1], k);
  ASSERT_EQ(f.u.shape()[-2], k);
  expect_permutation(f.p);
  EXPECT_LE(max_abs(f.l), 1);
  EXPECT_EQ(max_abs(triu(f.l, 1)), 0);
  EXPECT_EQ(max_abs(diagonal(f.l, 0, -2, -1) - 1), 0);
  EXPECT_EQ(max_abs(tril(f.u, -1)), 0);
  expect_close(matmul(f.p, matmul(f.l, f.u)), a, std::max(m, n), max_abs(a));
}

TEST(Lu, ReconstructsTheMatrix) {
  for (const Context c : kernel_contexts())
    for (const DType d : {f32, f64})
      for (const auto& [m, n] : {std::pair{0, 0},
                                 {3, 0},
                                 {0, 3},
                                 {1, 1},
                                 {5, 3},
                                 {3, 5},
                                 {33, 33},
                                 {150, 40},
                                 {40, 150}})
        for (const Shape& shape : {Shape{m, n}, Shape{2, m, n}}) {
          SCOPED_TRACE(text_of(to_string(c), " ", name(d), " ", shape));
          expect_decomposed(normal_numbers(shape, c, d));
        }
}

// Rounding errors do not occur in these matrices.
TEST(Lu, ReconstructsSingularMatrices) {
  for (const Context c : kernel_contexts())
    for (const DType d : {f32, f64})
      for (const int64_t n : {3, 33, 100}) {
        const TensorOptions like{c, d};
        const Tensor i = expand_dims(arange(n, like), -1), j = arange(n, like);
        const Tensor multiples_of_a_row = (i % 3) * (j % 3 + 1);
        const Tensor zero_first_column = normal_numbers({n, n}, c, d) * (j > 0).astype(d);
        const Tensor zero_amid_diagonal =
            triu(i + j + 1) * (1 - ((i == n / 2) * (j == n / 2)).astype(d));
        for (const auto& [what, a] : {std::pair{"ones", ones({n, n}, like)},
                                      {"zeros", zeros({n, n}, like)},
                                      {"multiples of a row", multiples_of_a_row},
                                      {"zero first column", zero_first_column},
                                      {"zero amid the diagonal", zero_amid_diagonal}})
          for (const Tensor& x : {a, stack({a, a})}) {
            SCOPED_TRACE(text_of(what, " ", describe(x)));
            expect_decomposed(x);
            EXPECT_EQ(max_abs(det(x)), 0);
          }
      }
}

TEST(Lu, OfNaNOrInfinityPermutesRows) {
  for (const Context c : kernel_contexts())
    for (const DType d : {f32, f64})
      for (const Shape& shape : {Shape{5, 5}, {3, 33, 33}, {7, 20}, {20, 7}})
        for (const double bad : {NAN, INFINITY, -INFINITY}) {
          const std::vector<double> good = values(normal_numbers(shape, c, d));
          for (size_t place = 0; place < good.size(); place += 1 + good.size() / 7) {
            std::vector<double> v = good;
            v[place] = bad;
            const Tensor a = from_values(v, shape, c, d);
            SCOPED_TRACE(text_of(describe(a), ", ", bad, " at ", place));
            expect_permutation(lu(a).p);
          }
        }
}

// Matrices of integers whose last row is a combination of the others. Elimination leaves an exact 0
// in some of them, and a rounding error in others.
Tensor dependent_rows(int64_t count, Context c, DType d) {
  std::mt19937 random(5);
  const auto draw = [&](unsigned most) {
    return static_cast<double>(random() % (2 * most + 1)) - static_cast<double>(most);
  };
  std::vector<double> v;
  for (int64_t k = 0; k < count; ++k) {
    double rows[2][3];
    for (auto& row : rows)
      for (double& x : row) x = draw(9);
    const double first = draw(3), second = draw(3);
    for (const auto& row : rows) v.insert(v.end(), row, row + 3);
    for (int j = 0; j < 3; ++j) v.push_back(first * rows[0][j] + second * rows[1][j]);
  }
  return from_values(v, {count, 3, 3}, c, d);
}

void expect_singular_as_in_lu(const Tensor& a) {
  const std::vector<double> wanted = values(any(diagonal(lu(a).u, 0, -2, -1) == 0, {.axis = -1}));
  EXPECT_EQ(values(det(a) == 0), wanted);
  const Tensor b = normal_numbers({3, 2}, a.context(), a.dtype());
  for (const Tensor& x : {inv(a, {.check = false}), solve(a, b, {.check = false})}) {
    EXPECT_EQ(values(any(isnan(x), {.axis = {-2, -1}})), wanted);
    EXPECT_EQ(values(all(isnan(x), {.axis = {-2, -1}})), wanted);
  }
}

TEST(Lu, DecidesWhichMatricesSolveAndInvCountAsSingular) {
  for (const Context c : kernel_contexts())
    for (const DType d : {f32, f64}) {
      const Tensor a = dependent_rows(1000, c, d);
      const double singular = sum(det(a) == 0).item<double>();
      EXPECT_GT(singular, 0);
      EXPECT_LT(singular, 1000);
      expect_singular_as_in_lu(a);
      for (int64_t k = 0; k < 20; ++k) expect_singular_as_in_lu(a[k]);
    }
}

TEST(Det, OfSingularMatricesIs0) {
  for (const Context c : end_contexts())
    for (const DType d : {f32, f64}) {
      const Tensor a = stack({ones({2, 2}, {c, d}), array({{0., 2.}, {3., 0.}}, {c, d})});
      EXPECT_THAT(values(det(a)), testing::ElementsAre(0, -6));
      const Slogdet s = slogdet(a);
      EXPECT_THAT(values(s.sign), testing::ElementsAre(0, -1));
      EXPECT_THAT(values(s.logabsdet),
                  testing::ElementsAre(-INFINITY, testing::DoubleNear(std::log(6), 1e-6)));
      EXPECT_THAT(values(det(zeros({2, 0, 0}, {c, d}))), testing::ElementsAre(1, 1));
    }
}

TEST(Det, OfASingularMatrixIs0IfOtherPivotsOverflow) {
  for (const Context c : end_contexts()) {
    const auto diagonal_of = [&](double x, double y, double z) {
      return array({{x, 0., 0.}, {0., y, 0.}, {0., 0., z}}, {c, f64});
    };
    EXPECT_EQ(det(diagonal_of(1e200, 1e200, 0)).item<double>(), 0);
    EXPECT_EQ(det(diagonal_of(2, 3, 4)).item<double>(), 24);
  }
}

// NaN or infinity at any place of one matrix, and of one of two.
TEST(Lu, OfAMatrixThatIsNotFiniteIsNaN) {
  for (const Context c : kernel_contexts())
    for (const DType d : {f32, f64})
      for (const int64_t n : {1, 3, 32, 33, 300})
        for (const double bad : {double(NAN), double(INFINITY)})
          for (const int64_t place : {int64_t{0}, n * n / 2, n * n - 1}) {
            SCOPED_TRACE(text_of(c, " ", name(d), " ", n, ": ", bad, " at ", place));
            std::vector<double> numbers =
                values(normal_numbers({n, n}, c) + 3 * eye(n, 0, 0, {c, f64}));
            const Tensor good = from_values(numbers, {n, n}, c, d);
            numbers[static_cast<size_t>(place)] = bad;
            const Tensor a = from_values(numbers, {n, n}, c, d), two = stack({a, good});
            const Tensor b = normal_numbers({n, 2}, c, d);
            const CheckOptions unchecked{.check = false};
            for (const Tensor& x : {solve(a, b, unchecked), solve(two, b, unchecked)[0],
                                    solve(a, b), inv(a, unchecked), det(a), det(two)[0],
                                    slogdet(a).sign, slogdet(two).logabsdet[0]})
              EXPECT_TRUE(all(isnan(x)).item<bool>());
            EXPECT_FALSE(any(isnan(solve(two, b, unchecked)[1])).item<bool>());
            for (const Tensor& x : {a, two}) {
              const Lu f = lu(x);
              expect_permutation(f.p);
              const Tensor u = f.u.reshape({-1, n, n})[0];
              EXPECT_EQ(sum(isnan(u)).item<int64_t>(), n * (n + 1) / 2);
            }
            if (HasFailure()) return;
          }
}

// Elimination multiplies the bad number by 0 only.
TEST(Lu, OfATriangularMatrixThatIsNotFiniteIsNaN) {
  for (const Context c : kernel_contexts())
    for (const DType d : {f32, f64})
      for (const int64_t n : {2, 3, 33, 100, 300})
        for (const double bad : {double(NAN), -double(INFINITY)})
          for (const int64_t place : {n - 1, n / 2, n / 2 * n + n - 1, (n - 1) * n}) {
            const Tensor square = normal_numbers({n, n}, c) + 3 * eye(n, 0, 0, {c, f64});
            for (const Tensor& good : {identity_like(square), tril(square), triu(square)}) {
              SCOPED_TRACE(text_of(c, " ", name(d), " ", n, ": ", bad, " at ", place));
              std::vector<double> numbers = values(good);
              numbers[static_cast<size_t>(place)] = bad;
              const Tensor a = from_values(numbers, {n, n}, c, d);
              for (const Tensor& x : {a, stack({a, a})}) {
                const Lu f = lu(x);
                expect_permutation(f.p);
                EXPECT_EQ(sum(isnan(f.u)).item<int64_t>(), x.size() / n * (n + 1) / 2);
                EXPECT_TRUE(all(isnan(det(x))).item<bool>());
              }
              if (HasFailure()) return;
            }
          }
}

// Differences of rows overflow.
TEST(Lu, OfLargeNumbersPermutesRows) {
  for (const Context c : kernel_contexts())
    for (const DType d : {f32, f64})
      for (const int64_t n : {3, 33, 100}) {
        const Tensor signs = sign(normal_numbers({n, n}, c, d));
        const Tensor a = signs * (d == f64 ? 1.7e308 : 3e38);
        for (const Tensor& x : {a, stack({a, a})}) expect_permutation(lu(x).p);
      }
}

TEST(Det, OfASingularMatrixHasTheGradientNaN) {
  for (const Context c : end_contexts()) {
    const Tensor a = array({{1., 2.}, {2., 4.}}, {c, f64});
    a.attach_grad();
    for (const bool logarithm : {false, true}) {
      Tensor y;
      {
        const autograd::Record record;
        y = logarithm ? slogdet(a).logabsdet : det(a);
      }
      y.backward();
      EXPECT_THAT(values(a.grad()), testing::Each(testing::IsNan())) << logarithm;
    }
  }
}

}  // namespace
}  // namespace locus::test
