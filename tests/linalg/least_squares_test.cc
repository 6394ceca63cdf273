// pinv, lstsq, matrix_rank, cond, matrix_norm.
#include <limits>

#include <locus/core/amp.h>
#include <locus/core/error.h>
#include <locus/ops/compare.h>
#include <locus/ops/named.h>
#include "tests/linalg/matrices.h"

namespace locus::test {
namespace {

using testing::HasSubstr, testing::StartsWith;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Penrose's conditions. Elements of a p are sums of n products. A relative error e in p's elements
// changes each by up to n e max|a| max|p|.
void expect_inverse(const Tensor& a, const Tensor& p) {
  const int64_t n = std::max(a.shape()[-1], a.shape()[-2]);
  const double a_size = max_abs(a), p_size = max_abs(p), size = a_size * p_size;
  const Tensor ap = matmul(a, p), pa = matmul(p, a);
  expect_close(matmul(ap, a), a, n, size * a_size);
  expect_close(matmul(pa, p), p, n, size * p_size);
  expect_close(ap, transpose_matrices(ap), n, size);
  expect_close(pa, transpose_matrices(pa), n, size);
}

TEST(Pinv, HoldsPenrosesConditions) {
  for (Context c : contexts())
    for (DType d : {f32, f64}) {
      for (const Shape& shape :
           {Shape{1, 1}, Shape{2, 5, 3}, Shape{3, 5}, Shape{40, 33}, Shape{2, 0, 3}})
        expect_inverse(normal_numbers(shape, c, d), pinv(normal_numbers(shape, c, d)));
      const Tensor low = matmul(normal_numbers({6, 2}, c, d), normal_numbers({2, 5}, c, d, 1));
      expect_inverse(low, pinv(low));
      const Tensor zero = zeros({3, 4}, {c, d});
      EXPECT_EQ(values(pinv(zero)), values(transpose_matrices(zero)));
      const Tensor one = eye(3, 0, 0, {c, d});
      expect_inverse(one, pinv(one));
      EXPECT_EQ(matrix_rank(low).item<int64_t>(), 2);
    }
}

// The normal equations a' (a x - b) = 0.
void expect_least_squares(const Tensor& a, const Tensor& x, const Tensor& b) {
  const int64_t n = std::max(a.shape()[-1], a.shape()[-2]);
  const Tensor slope = matmul(transpose_matrices(a), matmul(a, x) - b);
  const double size = max_abs(a) * (max_abs(a) * max_abs(x) + max_abs(b));
  expect_close(slope, zeros_like(slope), n, size);
}
// x is a combination of a's m rows, of which q is an orthonormal basis.
void expect_in_row_space(const Tensor& a, const Tensor& x) {
  const Tensor q = qr(transpose_matrices(a)).q;
  expect_close(matmul(q, matmul(transpose_matrices(q), x)), x, a.shape()[-1], max_abs(x));
}

TEST(Lstsq, SolvesWithTheSmallestNorm) {
  for (Context c : contexts())
    for (DType d : {f32, f64})
      for (const Shape& shape :
           {Shape{3, 3}, Shape{2, 6, 3}, Shape{3, 6}, Shape{40, 33}, Shape{2, 33, 40}}) {
        SCOPED_TRACE(text_of(c, " ", name(d), " ", shape));
        const Tensor a = normal_numbers(shape, c, d);
        const int64_t m = shape[-2], n = shape[-1];
        const Tensor b = normal_numbers({m, 2}, c, d, 1);
        const auto [x, residuals, rank, s] = lstsq(a, b);
        expect_least_squares(a, x, b);
        if (m < n) expect_in_row_space(a, x);
        EXPECT_EQ(values(rank), std::vector<double>(values(rank).size(), double(std::min(m, n))));
        EXPECT_EQ(rank.dtype(), i64);
        EXPECT_EQ(values(s), values(svd(a, {.full_matrices = false}).s));
        if (m > n)
          expect_near(values(residuals), values(sum(square(matmul(a, x) - b), {.axis = -2})),
                      d == f64 ? 1e-12 : 1e-5, "residuals");
        else
          EXPECT_EQ(residuals.shape(), (Shape{0}));
        const Tensor v = lstsq(a, slice_axis(b, -1, Slice(0, 1)).reshape({m})).x;
        expect_close(v, slice_axis(x, -1, Slice(0, 1)).reshape(v.shape()), std::max(m, n),
                     max_abs(x));
      }
}

TEST(Lstsq, DropsSingularValuesUpToRcond) {
  for (Context c : contexts()) {
    const Tensor a = array({{4.0, 0.0}, {0.0, 1.0}, {0.0, 0.0}}, {c, f64});
    const Tensor b = array({8.0, 3.0, 2.0}, {c, f64});
    const Lstsq all = lstsq(a, b), some = lstsq(a, b, {.rcond = .25});
    expect_near(values(all.x), {2, 3}, 1e-14, "x");
    expect_near(values(all.residuals), {4}, 1e-14, "residuals");
    EXPECT_EQ(all.residuals.shape(), (Shape{1}));
    expect_near(values(some.x), {2, 0}, 1e-14, "x");
    EXPECT_EQ(some.rank.item<int64_t>(), 1);
    EXPECT_EQ(some.residuals.shape(), (Shape{0}));
    const Lstsq unchecked = lstsq(a, b, {.rcond = .25, .check = false});
    EXPECT_TRUE(std::isnan(values(unchecked.residuals)[0]));
    expect_near(values(pinv(a, {.rcond = .25})), {.25, 0, 0, 0, 0, 0}, 1e-14, "pinv");
  }
}

TEST(Lstsq, ComputesInItsDTypeInAnAmpScope) {
  for (const Context c : end_contexts()) {
    const Tensor a = normal_numbers({5, 3}, c, f32), b = normal_numbers({5, 2}, c, f32, 1);
    const Tensor outside = lstsq(a, b).residuals;
    const amp::Scope mixed(bf16);
    EXPECT_EQ(values(lstsq(a, b).residuals), values(outside));
  }
}

TEST(Lstsq, NamesWhatIsWrong) {
  for (Context c : contexts()) {
    const Tensor a = ones({2, 3, 2}, {c}), b = ones({2}, {c});
    EXPECT_THAT(message_of<ShapeError>([&] { lstsq(a, b); }),
                StartsWith(text_of("lstsq: a ", describe(a), ", b ", describe(b), ": expected b")));
    message_of<ValueError>([&] { lstsq(a, ones({3}, {c}), {.rcond = -1}); });
    message_of<ValueError>([&] { pinv(a, {.rcond = kNaN}); });
    message_of<DTypeError>([&] { lstsq(a, ones({3}, {c, f16})); });
    const Tensor bad = a.copyto(c);
    bad[1][0][0] = kNaN;
    EXPECT_THAT(message_of<ValueError>([&] { lstsq(bad, ones({3}, {c})); }),
                HasSubstr("entry (1) of the batch is not finite"));
    EXPECT_THAT(message_of<ValueError>([&] { pinv(bad); }), StartsWith("pinv: a "));
    const Tensor p = pinv(bad, {.check = false});
    EXPECT_TRUE(all(isnan(p[1])).item<bool>());
    EXPECT_EQ(values(p[0]), values(pinv(a)[0]));
  }
}

TEST(MatrixRank, CountsSingularValues) {
  for (Context c : contexts()) {
    const Tensor a = array({{4.0, 0.0}, {0.0, 1.0}}, {c, f64});
    EXPECT_EQ(matrix_rank(a).item<int64_t>(), 2);
    EXPECT_EQ(matrix_rank(a, {.tol = 1}).item<int64_t>(), 1);
    EXPECT_EQ(matrix_rank(a, {.rtol = .25}).item<int64_t>(), 1);
    EXPECT_EQ(matrix_rank(zeros({3, 3}, {c})).item<int64_t>(), 0);
    EXPECT_EQ(values(matrix_rank(zeros({2, 0, 3}, {c}))), (std::vector<double>{0, 0}));
    message_of<ShapeError>([&] { matrix_rank(ones({3}, {c})); });
    message_of<ValueError>([&] { matrix_rank(a, {.tol = 1, .rtol = 1}); });
    const Tensor bad = a * kNaN;
    EXPECT_THAT(message_of<ValueError>([&] { matrix_rank(bad); }),
                HasSubstr("{.check = false} gives 0 there instead"));
    EXPECT_EQ(matrix_rank(bad, {.check = false}).item<int64_t>(), 0);
  }
}

TEST(MatrixNorm, HasNumPysOrders) {
  for (Context c : contexts()) {
    const Tensor x =
        array({{3.0, 0.0}, {-4.0, 5.0}}, {c, f64});  // singular values 3 sqrt(5), sqrt(5)
    const double root = std::sqrt(5.);
    const auto of = [&](const MatrixOrd& ord) {
      return matrix_norm(x, {.ord = ord}).item<double>();
    };
    EXPECT_NEAR(matrix_norm(x).item<double>(), std::sqrt(50.), 1e-14);
    EXPECT_NEAR(of("nuc"), 4 * root, 1e-14);
    EXPECT_NEAR(of(2), 3 * root, 1e-14);
    EXPECT_NEAR(of(-2), root, 1e-14);
    EXPECT_EQ(of(1), 7);
    EXPECT_EQ(of(-1), 5);
    EXPECT_EQ(of(kInf), 9);
    EXPECT_EQ(of(-kInf), 3);
    EXPECT_EQ(matrix_norm(ones({2, 3, 4}, {c}), {.ord = 2, .keepdims = true}).shape(),
              (Shape{2, 1, 1}));
    EXPECT_NEAR(Tensor(invoke("matrix_norm", {x}, {{"ord", 2}})).item<double>(), 3 * root, 1e-14);
    EXPECT_NEAR(Tensor(invoke("matrix_norm", {x}, {{"ord", "nuc"}})).item<double>(), 4 * root,
                1e-14);
    EXPECT_THAT(message_of<ValueError>([&] { of("max"); }),
                StartsWith("matrix_norm: ord is \"max\"; expected \"fro\", \"nuc\", 1, -1, 2, -2"));
    EXPECT_THAT(message_of<ValueError>([&] { of(3); }), StartsWith("matrix_norm: ord is 3; "));
    EXPECT_THAT(message_of<ValueError>([&] { of(""); }), StartsWith("matrix_norm: ord is \"\"; "));
    EXPECT_THAT(message_of<ShapeError>([&] { matrix_norm(ones({3}, {c})); }),
                StartsWith(text_of("matrix_norm: x ", c, " (3,) f32: expected at least 2 axes")));
    message_of<ShapeError>([&] { matrix_norm(ones({0, 3}, {c}), {.ord = 2}); });
    EXPECT_EQ(matrix_norm(ones({0, 3}, {c})).item<double>(), 0);
    EXPECT_TRUE(std::isnan(matrix_norm(x * kNaN, {.ord = 2}).item<double>()));
  }
}

TEST(Cond, IsInfiniteIfTheInverseOverflows) {
  for (const Context c : end_contexts()) {
    const Tensor a = array({{1e-310, 1e-310}, {0., 1e-310}}, {c, f64});
    for (const MatrixOrd& p : std::vector<MatrixOrd>{"fro", "nuc", 1, -1, INFINITY, -INFINITY})
      EXPECT_EQ(cond(a, p).item<double>(), INFINITY) << p.text() << p.number();
  }
}

TEST(Cond, OfASingularMatrixIsInfinite) {
  for (Context c : contexts()) {
    const Tensor low = array({{1.0, 0.0}, {0.0, 0.0}}, {c, f64}), zero = zeros({2, 2}, {c, f64});
    const Tensor dependent = array({{1.0, 2.0}, {2.0, 4.0}}, {c, f64});
    for (const MatrixOrd& p : std::vector<MatrixOrd>{1, -1, kInf, -kInf, "fro", "nuc"})
      for (const Tensor& a : {low, zero, dependent})
        EXPECT_EQ(cond(a, p).item<double>(), kInf) << p.text() << p.number();
    EXPECT_EQ(cond(low, 2).item<double>(), kInf);
    EXPECT_EQ(cond(zero, 2).item<double>(), kInf);
    EXPECT_GT(cond(dependent, 2).item<double>(), 1e15);  // the smallest value is rarely exactly 0
    EXPECT_EQ(cond(low, -2).item<double>(), 0);
    EXPECT_EQ(cond(zero, -2).item<double>(), kInf);
  }
}

TEST(Cond, HasNumPysOrders) {
  for (Context c : contexts()) {
    const Tensor a = array({{4.0, 0.0}, {0.0, 2.0}}, {c, f64});
    for (const MatrixOrd& p : std::vector<MatrixOrd>{2, 1, kInf}) {
      EXPECT_NEAR(cond(a, p).item<double>(), 2, 1e-14);
      EXPECT_TRUE(std::isnan(cond(a * kNaN, p).item<double>()));
    }
    EXPECT_NEAR(cond(a, -2).item<double>(), .5, 1e-14);
    EXPECT_NEAR(cond(a, "fro").item<double>(), std::sqrt(20. * (1 / 16. + 1 / 4.)), 1e-14);
    EXPECT_NEAR(cond(ones({2, 3}, {c}) + eye(2, 3, 0, {c})).item<double>(), 3.31662, 1e-3);
    EXPECT_NEAR(Tensor(invoke("cond", {a})).item<double>(), 2, 1e-14);
  }
}

TEST(Cond, RefusesOtherOrdersAndShapes) {
  for (Context c : contexts()) {
    const Tensor wide = ones({2, 3}, {c});
    EXPECT_THAT(message_of<ShapeError>([&] { cond(wide, 1); }),
                HasSubstr("p = 2 takes other shapes"));
    EXPECT_THAT(message_of<ValueError>([&] { cond(wide, 5); }), StartsWith("cond: p is 5; "));
    message_of<ShapeError>([&] { cond(ones({0, 0}, {c})); });
    message_of<ValueError>([&] { cond(ones({2, 2}, {c}), "max"); });
  }
}

}  // namespace
}  // namespace locus::test
