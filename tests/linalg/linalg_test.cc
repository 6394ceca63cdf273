// Decompositions and systems of equations: what they reconstruct, and what they refuse.
#include <cmath>
#include <vector>

#include <locus/locus.h>
#include "tests/linalg/matrices.h"
#include "tests/support/contexts.h"
#include "tests/support/expect_line.h"

namespace locus::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Lengths around the limits of blocks, and layouts, on every context and dtype.
void for_each_matrix(const auto& f) {
  for (const Context c : kernel_contexts())
    for (const DType d : {f32, f64})
      for (const int64_t n : {0, 1, 2, 31, 32, 33, 150}) {
        SCOPED_TRACE(text_of(to_string(c), " ", name(d), " ", n));
        f(c, d, Shape{n, n});
        f(c, d, Shape{3, n, n});
      }
}

TEST(Cholesky, ReconstructsTheMatrix) {
  for_each_matrix([](Context c, DType d, const Shape& shape) {
    const Tensor a = positive_definite_numbers(shape, c, d), l = cholesky(a);
    const int64_t n = shape[-1];
    expect_close(matmul(l, transpose_matrices(l)), a, n, max_abs(a));
    EXPECT_EQ(max_abs(triu(l, 1)), 0);
    const Tensor u = cholesky(a + tril(a, -1), {.upper = true});
    expect_close(matmul(transpose_matrices(u), u), a, n, max_abs(a));
    EXPECT_EQ(max_abs(cholesky(a + triu(a, 1)) - l), 0);
  });
}

TEST(Cholesky, HasTheGradientOfASymmetricMatrix) {
  for (const Context c : end_contexts()) {
    const Tensor x = normal_numbers({2, 4, 4}, c);
    check_gradients(
        [&](const Tensors& in) -> Tensors {
          return {cholesky(matmul(in[0], transpose_matrices(in[0])) + identity_like(in[0]))};
        },
        {x});
    check_gradients(
        [&](const Tensors& in) -> Tensors {
          return {cholesky(matmul(in[0], transpose_matrices(in[0])) + identity_like(in[0]),
                           {.upper = true})};
        },
        {x});
  }
}

// Symmetric, with eigenvalues from 1 to 1e-12.
Tensor ill_conditioned(int64_t n, Context c) {
  const Tensor q = qr(normal_numbers({n, n}, c)).q;
  const Tensor eigenvalues = pow(10., arange(n, {c, f64}) * (-12. / static_cast<double>(n - 1)));
  return symmetrize(matmul(q * eigenvalues, transpose_matrices(q)));
}

TEST(Cholesky, TakesIllConditionedMatrices) {
  for (const Context c : kernel_contexts()) {
    const Tensor i = arange(8, {c, f64});
    const Tensor hilbert = 1 / (expand_dims(i, 0) + expand_dims(i, 1) + 1);
    for (const Tensor& one : {hilbert, ill_conditioned(300, c)})
      for (const Tensor& a : {one, stack({one, one})}) {
        const Tensor l = cholesky(a);
        expect_close(matmul(l, transpose_matrices(l)), a, a.shape()[-1], max_abs(a));
      }
  }
}

TEST(Solve, LeavesASmallResidual) {
  for_each_matrix([](Context c, DType d, const Shape& shape) {
    const Tensor a = normal_numbers(shape, c, d) + eye(shape[-1], 0, 0, {c, d}) * 3;
    const Tensor b = normal_numbers({shape[-1], 3}, c, d, 1), x = solve(a, b);
    const Tensor all = broadcast_to(b, x.shape());
    expect_close(matmul(a, x), all, shape[-1], max_abs(a) * max_abs(x));
  });
}

TEST(Inv, TimesTheMatrixIsTheIdentity) {
  for_each_matrix([](Context c, DType d, const Shape& shape) {
    const Tensor one = eye(shape[-1], 0, 0, {c, d});
    const Tensor a = normal_numbers(shape, c, d) + one * 3, i = inv(a);
    expect_close(matmul(a, i), broadcast_to(one, shape), shape[-1], max_abs(a) * max_abs(i));
  });
}

TEST(Solve, TakesAVectorAndBroadcastsBatches) {
  for (const Context c : end_contexts()) {
    const Tensor a = array({{2., 0.}, {1., 4.}}, {c, f64}), b = array({2., 5.}, {c, f64});
    EXPECT_THAT(values(solve(a, b)), testing::Pointwise(testing::DoubleEq(), {1., 1.}));
    const Tensor batch = stack({a, a * 2}).reshape({2, 1, 2, 2});
    const Tensor right = normal_numbers({3, 2, 1}, c);
    const Tensor x = solve(batch, right);
    EXPECT_EQ(x.shape(), (Shape{2, 3, 2, 1}));
    EXPECT_LT(max_abs(matmul(batch, x) - right), 1e-12);
    EXPECT_EQ(solve(a.astype(i32), array({2, 5}, c)).dtype(), f64);
    EXPECT_EQ(solve(a, zeros({2, 0}, {c, f64})).shape(), (Shape{2, 0}));
  }
}

// Twenty thousand copies of a have 256 MB.
TEST(Solve, FactorsOneMatrixOnceForABatchOfRightSides) {
  for (const Context c : kernel_contexts()) {
    const Tensor a = positive_definite_numbers({40, 40}, c), l = cholesky(a);
    const Tensor b = normal_numbers({200, 100, 40, 1}, c);
    const MemoryProfile profile;
    const Tensor x = solve(a, b), y = solve_triangular(l, b);
    for (const MemoryEntry& entry : profile.by_scope()) EXPECT_LT(entry.peak, 128'000'000u);
    expect_close(matmul(a, x), b, 40, max_norm(a) * max_abs(x));
    expect_close(matmul(l, y), b, 40, max_norm(l) * max_abs(y));
    const Tensor one = a.reshape({1, 1, 1, 40, 40});
    const Tensor several = slice_axis(b, 1, Slice(0, 3)), z = solve(one, several);
    ASSERT_EQ(z.shape(), (Shape{1, 200, 3, 40, 1}));
    expect_close(squeeze(z, 0), slice_axis(x, 1, Slice(0, 3)), 40, max_abs(x) * max_norm(a));
    EXPECT_EQ(solve(a * 0, zeros({0, 40, 2}, {c, f64})).shape(), (Shape{0, 40, 2}));
  }
}

// x and the gradients of a and b.
Tensors solve_with_gradients(const auto& solver, const Tensor& a, const Tensor& b) {
  a.attach_grad();
  b.attach_grad();
  Tensor x, y;
  {
    const autograd::Record record;
    x = solver(a, b);
    y = sum(x * normal_numbers(x.shape(), x.context(), f64, 2));
  }
  y.backward();
  return {x, a.grad(), b.grad()};
}

TEST(Solve, OfOneMatrixAndABatchEqualsThatOfCopies) {
  const auto copies = [](const Tensor& a, const Tensor& b) {
    return broadcast_to(a, broadcast_shapes(a.shape(), slice_axis(b, -1, Slice(0, 1)).shape()));
  };
  for (const Context c : kernel_contexts())
    for (const Shape& of_a : {Shape{3, 3}, {1, 3, 3}, {1, 1, 1, 3, 3}})
      for (const Shape& of_b : {Shape{2, 3, 1}, {2, 4, 3, 2}, {4, 1, 3, 5}, {1, 3, 2}, {0, 3, 2}}) {
        SCOPED_TRACE(text_of(c, " ", of_a, " ", of_b));
        const Tensor a = positive_definite_numbers(of_a, c), b = normal_numbers(of_b, c, f64, 1);
        const auto expect_same = [&](const auto& solver) {
          const Tensors one = solve_with_gradients(solver, a, b);
          const Tensors many = solve_with_gradients(
              [&](const Tensor& x, const Tensor& y) { return solver(copies(x, y), y); }, a, b);
          for (size_t i = 0; i < one.size(); ++i) expect_close(one[i], many[i], 3, 10);
        };
        expect_same([](const Tensor& x, const Tensor& y) { return solve(x, y); });
        expect_same([](const Tensor& x, const Tensor& y) {
          return solve_triangular(x, y, {.upper = true, .transpose = true});
        });
      }
}

TEST(Solve, TakesStridedMatrices) {
  for (const Context c : end_contexts()) {
    const Tensor x = normal_numbers({2, 8, 8}, c), wide = x + identity_like(x) * 9;
    const Tensor a = flip(
        transpose_matrices(slice_axis(slice_axis(wide, 1, Slice(0, 8, 2)), 2, Slice(1, 8, 2))), 0);
    const Tensor b = flip(normal_numbers({4, 2}, c, f64, 1), 0);
    EXPECT_LT(max_abs(matmul(a, solve(a, b, {.check = false})) - b), 1e-10);
  }
}

TEST(SolveTriangular, ReadsOneTriangle) {
  for_each_matrix([](Context c, DType d, const Shape& shape) {
    const Tensor x = normal_numbers(shape, c, d) * .1, whole = x + identity_like(x) * 2;
    const Tensor b = normal_numbers({shape[-1], 2}, c, d, 1);
    for (const bool upper : {false, true})
      for (const bool transpose : {false, true})
        for (const bool unit : {false, true}) {
          Tensor a = upper ? triu(whole) : tril(whole);
          if (unit) a = (upper ? triu(whole, 1) : tril(whole, -1)) + identity_like(x);
          const Tensor y = solve_triangular(
              whole, b, {.upper = upper, .transpose = transpose, .unit_diagonal = unit});
          expect_close(matmul(transpose ? transpose_matrices(a) : a, y), broadcast_to(b, y.shape()),
                       shape[-1], max_abs(a) * max_abs(y));
        }
  });
}

TEST(LinearAlgebra, HasTheSameBitsOnEveryRun) {
  for (const Context c : kernel_contexts())
    for (const Shape& shape : {Shape{40, 40}, Shape{3, 20, 20}}) {
      const Tensor a = positive_definite_numbers(shape, c), b = normal_numbers(shape, c, f64, 1);
      const auto results = [&] {
        std::vector<double> all;
        const Lu f = lu(b);
        const Eigh e = eigh(a);
        const Svd s = svd(b);
        for (const Tensor& x : {cholesky(a), solve(b, a), f.l, f.u, e.eigenvalues, e.eigenvectors,
                                s.u, s.s, s.vh, det(b), expm(b)}) {
          const std::vector<double> v = values(x);
          all.insert(all.end(), v.begin(), v.end());
        }
        return all;
      };
      EXPECT_EQ(results(), results());
    }
}

TEST(LinearAlgebra, NamesTheEntryThatHasNoResult) {
  for (const Context c : end_contexts()) {
    const Tensor good = identity_like(zeros({2, 2}, {c, f64})), bad = zeros({2, 2}, {c, f64});
    const Tensor a = stack({good, bad, good}).reshape({3, 1, 2, 2}), b = ones({2}, {c, f64});
    const auto text = [](const auto& f) { return message_of<ValueError>(f); };
    EXPECT_THAT(text([&] { cholesky(a); }),
                AllOf(StartsWith("cholesky: a " + to_string(c) + " (3,1,2,2) f64: entry (1, 0) of"),
                      HasSubstr("is not positive definite")));
    EXPECT_THAT(text([&] { solve(a, b); }), HasSubstr("entry (1, 0) of the batch is singular"));
    EXPECT_THAT(text([&] { solve_triangular(a, b); }), HasSubstr("entry (1, 0) of the batch"));
    EXPECT_THAT(text([&] { inv(bad); }), HasSubstr("f64: the matrix is singular"));
    for (const Tensor& x :
         {cholesky(a, {.check = false}), inv(a, {.check = false}), solve(a, a, {.check = false}),
          solve_triangular(a, a, {.check = false})}) {
      EXPECT_THAT(values(x[1]), testing::Each(testing::IsNan()));
      EXPECT_THAT(values(x[0]), testing::ElementsAre(1, 0, 0, 1));
      EXPECT_THAT(values(x[2]), testing::ElementsAre(1, 0, 0, 1));
    }
  }
}

// The entry is a's own, also if b has the larger batch.
TEST(LinearAlgebra, NamesTheEntryOfABroadcastBatch) {
  for (const Context c : end_contexts()) {
    const Tensor good = identity_like(zeros({2, 2}, {c, f64})), bad = zeros({2, 2}, {c, f64});
    const Tensor a = stack({good, bad, good}).reshape({3, 1, 2, 2});
    const Tensor four = ones({4, 2, 1}, {c, f64}), many = ones({5, 3, 4, 2, 1}, {c, f64});
    const auto text = [](const auto& f) { return message_of<ValueError>(f); };
    EXPECT_THAT(text([&] { solve(bad, four); }), HasSubstr("(2,2) f64: the matrix is singular"));
    for (const Tensor& b : {four, many}) {
      EXPECT_THAT(text([&] { solve(a, b); }), HasSubstr("f64: entry (1, 0) of the batch is"));
      EXPECT_THAT(text([&] { solve_triangular(a, b); }), HasSubstr("f64: entry (1, 0) of the"));
      EXPECT_THAT(text([&] { lstsq(a / a, b); }), HasSubstr("f64: entry (0, 0) of the batch is"));
    }
  }
}

TEST(LinearAlgebra, NanStaysInItsEntry) {
  for (const Context c : end_contexts()) {
    const Tensor good = identity_like(zeros({3, 3}, {c, f32})) * 2,
                 nan = full({3, 3}, NAN, {c, f32});
    const Tensor a = stack({good, nan});
    for (const Tensor& x : {cholesky(a, {.check = false}), inv(a, {.check = false}), lu(a).u}) {
      EXPECT_FALSE(any(isnan(x[0])).item<bool>());
      EXPECT_TRUE(any(isnan(x[1])).item<bool>());
    }
    EXPECT_THAT(values(det(a)), testing::ElementsAre(8, testing::IsNan()));
  }
}

TEST(LinearAlgebra, ChecksRefuseToBeRecorded) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Tensor a = identity_like(zeros({2, 2}, gpu(0)));
  EXPECT_THAT(message_of<CaptureError>([&] {
                Capture capture(gpu(0));
                cholesky(a);
              }),
              StartsWith("cholesky: the host waits for the check of the result; pass {.check"));
}

TEST(LinearAlgebra, RefusesWhatIsNoSystem) {
  const Tensor wide = ones({2, 3}), square = ones({2, 2}), half = ones({2, 2}, f16);
  const auto shape = [](const auto& f) { return message_of<ShapeError>(f); };
  EXPECT_THAT(shape([&] { cholesky(wide); }), HasSubstr("a cpu(0) (2,3) f32: expected square"));
  EXPECT_THAT(shape([&] { det(ones({2})); }), HasSubstr("expected at least 2 axes"));
  EXPECT_THAT(shape([&] { solve(square, ones({3})); }),
              HasSubstr("expected b with 2 rows, as many as a, got 3"));
  EXPECT_THAT(shape([&] {
                solve(ones({5, 2, 2}), ones({5, 2}));
              }),
              HasSubstr("got 5; for a batch of vectors, pass expand_dims(b, -1)"));
  EXPECT_THAT(shape([&] { solve(wide, ones({2})); }), HasSubstr("lstsq() takes other shapes"));
  EXPECT_THAT(shape([&] { inv(wide); }), HasSubstr("pinv() takes other shapes"));
  EXPECT_THAT(shape([&] { solve(square, ones({})); }), HasSubstr("b of at least 1 axis"));
  EXPECT_THAT(shape([&] { solve(ones({2, 2, 2}), ones({3, 2, 1})); }), HasSubstr("batches"));
  EXPECT_THAT(message_of<DTypeError>([&] { inv(half); }), HasSubstr("a.astype(f32)"));
  EXPECT_THAT(message_of<EmptyTensor>([&] { lu(Tensor()); }), StartsWith("lu: a is an empty"));
  EXPECT_THROW(solve(square, ones({2}, cpu(1))), ContextMismatch);
  EXPECT_NAMES_ITS_LINE(cholesky(wide));
  EXPECT_NAMES_ITS_LINE(solve(square, wide));
  EXPECT_NAMES_ITS_LINE(inv(zeros({2, 2})));
}

}  // namespace
}  // namespace locus::test
