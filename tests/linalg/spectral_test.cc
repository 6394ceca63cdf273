// eigh, eigvalsh, svd, svdvals: LAPACK's tests of reconstruction, signs, one triangle, NaN, errors.
#include <limits>

#include <locus/core/error.h>
#include <locus/ops/compare.h>
#include <locus/ops/join.h>
#include <locus/ops/named.h>
#include <locus/ops/rearrange.h>
#include "tests/linalg/matrices.h"

namespace locus::test {
namespace {

using testing::HasSubstr, testing::StartsWith;

constexpr int64_t kSizes[] = {0, 1, 2, 31, 32, 33, 200};
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class F>
void for_each_dtype(F f) {
  for (Context c : contexts())
    for (DType d : {f32, f64}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      f(c, d);
      if (testing::Test::HasFailure()) return;
    }
}

void expect_descending(const Tensor& s) {
  const std::vector<double> v = values(s);
  const auto n = static_cast<size_t>(s.shape()[-1]);
  for (size_t i = 0; i < v.size(); ++i) {
    EXPECT_GE(v[i], 0);
    if (i % n > 0) {
      EXPECT_LE(v[i], v[i - 1]);
    }
  }
}
// Vectors are columns: the first of the components near the largest is positive.
void expect_signs(const Tensor& vectors) {
  const int64_t m = vectors.shape()[-2], n = vectors.shape()[-1];
  const std::vector<double> v = values(vectors);
  const auto at = [&](int64_t k, int64_t i, int64_t j) {
    return v[static_cast<size_t>((k * m + i) * n + j)];
  };
  for (int64_t k = 0; m * n > 0 && k < vectors.size() / (m * n); ++k)
    for (int64_t j = 0; j < n; ++j) {
      double largest = 0;
      for (int64_t i = 0; i < m; ++i) largest = std::max(largest, std::fabs(at(k, i, j)));
      int64_t i = 0;
      while (std::fabs(at(k, i, j)) < largest * (1 - 1. / 256)) ++i;
      EXPECT_GT(at(k, i, j), 0) << "vector " << j << " of matrix " << k;
    }
}

void expect_eigen(const Tensor& a) {
  const auto [w, v] = eigh(a);
  const int64_t n = a.shape()[-1];
  const double size = max_norm(a);
  expect_close(matmul(v * expand_dims(w, -2), transpose_matrices(v)), a, n, size);
  expect_orthonormal_columns(v);
  expect_close(eigvalsh(a), w, n, size);
  if (n > 1) {
    const Tensor rest = slice_axis(w, -1, Slice(1, {})), before = slice_axis(w, -1, Slice(0, -1));
    EXPECT_TRUE(all(rest >= before).item<bool>());
  }
  expect_signs(v);
}

void expect_singular(const Tensor& a) {
  const int64_t m = a.shape()[-2], n = a.shape()[-1], k = std::min(m, n);
  const int64_t longest = std::max(m, n);
  const double size = max_norm(a);
  for (const bool full : {false, true}) {
    const auto [u, s, vh] = svd(a, {.full_matrices = full});
    ASSERT_EQ(u.shape()[-1], full ? m : k);
    ASSERT_EQ(vh.shape()[-2], full ? n : k);
    const Tensor left = slice_axis(u, -1, Slice(0, k)), right = slice_axis(vh, -2, Slice(0, k));
    expect_close(matmul(left * expand_dims(s, -2), right), a, longest, size);
    const Tensor uu = matmul(transpose_matrices(u), u), vv = matmul(vh, transpose_matrices(vh));
    expect_close(uu, broadcast_to(identity_like(uu), uu.shape()), longest, 1);
    expect_close(vv, broadcast_to(identity_like(vv), vv.shape()), longest, 1);
    expect_descending(s);
    expect_signs(u);
    expect_signs(transpose_matrices(slice_axis(vh, -2, Slice(k, {}))));
    expect_close(svdvals(a), s, longest, size);
  }
}

TEST(Eigh, ReconstructsItsMatrix) {
  for_each_dtype([](Context c, DType d) {
    for (const int64_t n : kSizes) {
      expect_eigen(symmetric_numbers({n, n}, c, d));
      if (n <= 33) expect_eigen(symmetric_numbers({3, 2, n, n}, c, d, 1));
    }
    expect_eigen(symmetric_numbers({0, 3, 3}, c, d));
  });
}

TEST(Eigh, ReconstructsSingularEqualAndIllConditionedMatrices) {
  for_each_dtype([](Context c, DType d) {
    for (const int64_t n : {1, 2, 5, 33}) {
      const TensorOptions like{c, d};
      expect_eigen(zeros({n, n}, like));
      expect_eigen(eye(n, 0, 0, like));
      expect_eigen(ones({n, n}, like));
      const Tensor x = normal_numbers({n, 1}, c, d);
      expect_eigen(matmul(x, transpose_matrices(x)));
      // Elements from 1 to 1e-8 of the diagonal.
      const Tensor scale = exp(arange(n, like) * (-18. / static_cast<double>(n)));
      expect_eigen(symmetric_numbers({n, n}, c, d) * scale * expand_dims(scale, -1));
      for (const double by : {1e-30, 1e30}) expect_eigen(symmetric_numbers({n, n}, c, d) * by);
    }
  });
}

TEST(Eigh, ReadsOneTriangle) {
  for_each_dtype([](Context c, DType d) {
    for (const int64_t n : {2, 5, 33}) {
      const Tensor a = symmetric_numbers({2, n, n}, c, d), nan = full({2, n, n}, kNaN, {c, d});
      const Tensor below = eye(n, 0, 0, {c, d}) + tril(ones({n, n}, {c, d}), -1);
      const Tensor lower = where(below != 0, a, nan), upper = transpose_matrices(lower);
      const auto [w, v] = eigh(a);
      EXPECT_EQ(values(eigh(lower).eigenvectors), values(v));
      EXPECT_EQ(values(eigh(upper, {.upper = true}).eigenvectors), values(v));
      EXPECT_EQ(values(eigvalsh(upper, {.upper = true})), values(eigvalsh(a)));
      EXPECT_EQ(values(invoke("eigh", {upper}, {{"UPLO", "U"}})[0]), values(w));
    }
  });
}

TEST(Svd, ReconstructsItsMatrix) {
  for_each_dtype([](Context c, DType d) {
    for (const int64_t n : kSizes)
      for (const auto& [rows, columns] : {std::pair{n, n}, {n, n + 3}, {n + 3, n}}) {
        expect_singular(normal_numbers({rows, columns}, c, d));
        if (n <= 33) expect_singular(normal_numbers({2, rows, columns}, c, d, 1));
      }
    for (const int64_t n : {1, 16, 33}) expect_singular(normal_numbers({2 * n, n}, c, d));
    expect_singular(normal_numbers({0, 3, 4}, c, d));
    EXPECT_EQ(svd(zeros({2, 0, 3}, {c, d})).vh.shape(), (Shape{2, 3, 3}));
  });
}

TEST(Svd, ReconstructsSingularEqualAndIllConditionedMatrices) {
  for_each_dtype([](Context c, DType d) {
    const TensorOptions like{c, d};
    for (const auto& [m, n] :
         {std::pair<int64_t, int64_t>{1, 1}, {2, 2}, {5, 3}, {20, 33}, {33, 33}}) {
      expect_singular(zeros({m, n}, like));
      expect_singular(eye(m, n, 0, like));
      expect_singular(ones({m, n}, like));
      expect_singular(matmul(normal_numbers({m, 1}, c, d), normal_numbers({1, n}, c, d, 1)));
      const Tensor scale = exp(arange(n, like) * (-18. / static_cast<double>(n)));
      expect_singular(normal_numbers({m, n}, c, d) * scale);
      for (const double by : {1e-30, 1e30}) expect_singular(normal_numbers({m, n}, c, d) * by);
    }
  });
}

TEST(Spectral, OfStridedMatricesIsThatOfCopies) {
  for (Context c : contexts()) {
    const Tensor x = symmetric_numbers({3, 6, 6}, c);
    const Tensor a = slice_axis(slice_axis(x, -1, Slice({}, {}, 2)), -2, Slice({}, {}, 2));
    EXPECT_EQ(values(eigh(a).eigenvectors), values(eigh(a.copyto(c)).eigenvectors));
    const Tensor wide = slice_axis(x, -1, Slice(5, 1, -1));
    EXPECT_EQ(values(svd(wide).u), values(svd(wide.copyto(c)).u));
    EXPECT_EQ(values(svdvals(transpose_matrices(wide))),
              values(svdvals(transpose_matrices(wide).copyto(c))));
  }
}

TEST(Spectral, ComputesIntegersInF64AndRefuses16Bits) {
  for (Context c : contexts()) {
    const Tensor a = array({{2, 1}, {1, 2}}, c);
    EXPECT_EQ(eigvalsh(a).dtype(), f64);
    expect_near(values(eigvalsh(a)), {1, 3}, 1e-14, "eigenvalues");
    expect_near(values(svdvals(a)), {3, 1}, 1e-14, "singular values");
    EXPECT_THAT(message_of<DTypeError>([&] { eigh(a.astype(f16)); }),
                StartsWith(text_of("eigh: a ", describe(a.astype(f16)),
                                   ": expected f32 or f64, got f16; cast it: a.astype(f32)")));
    message_of<DTypeError>([&] { svd(a.astype(bf16)); });
  }
}

// One entry that is not finite is an error that names it, or NaN there and nowhere else.
TEST(Spectral, OfAnEntryThatIsNotFiniteFailsAlone) {
  for_each_dtype([](Context c, DType d) {
    for (const int64_t n : {3, 40})
      for (const double bad : {kNaN, std::numeric_limits<double>::infinity()}) {
        const Tensor good = symmetric_numbers({2, 2, n, n}, c, d), a = good.copyto(c);
        a[1][0][2][1] = bad;
        const std::string entry =
            text_of(": a ", describe(a), ": entry (1, 0) of the batch is not finite");
        EXPECT_THAT(message_of<ValueError>([&] { eigh(a); }), StartsWith("eigh" + entry));
        EXPECT_THAT(message_of<ValueError>([&] { eigvalsh(a); }), StartsWith("eigvalsh" + entry));
        EXPECT_THAT(message_of<ValueError>([&] { svd(a); }), StartsWith("svd" + entry));
        EXPECT_THAT(message_of<ValueError>([&] { svdvals(a); }), StartsWith("svdvals" + entry));
        EXPECT_THAT(message_of<ValueError>([&] { eigh(a[1][0]); }), HasSubstr("the matrix is not"));
        const auto expect_only_entry_is_nan = [&](const Tensor& got, const Tensor& right) {
          for (const int64_t i : {0, 1})
            for (const int64_t j : {0, 1}) {
              if (i == 1 && j == 0)
                EXPECT_TRUE(all(isnan(got[i][j])).item<bool>());
              else
                EXPECT_EQ(values(got[i][j]), values(right[i][j]));
            }
        };
        expect_only_entry_is_nan(eigh(a, {.check = false}).eigenvalues, eigh(good).eigenvalues);
        expect_only_entry_is_nan(eigh(a, {.check = false}).eigenvectors, eigh(good).eigenvectors);
        expect_only_entry_is_nan(eigvalsh(a, {.check = false}), eigvalsh(good));
        expect_only_entry_is_nan(svd(a, {.check = false}).u, svd(good).u);
        expect_only_entry_is_nan(svd(a, {.check = false}).vh, svd(good).vh);
        expect_only_entry_is_nan(svdvals(a, {.check = false}), svdvals(good));
      }
  });
}

TEST(Spectral, RefusesWhatIsNoMatrix) {
  for (Context c : contexts()) {
    const Tensor wide = ones({2, 3}, {c}), vector = ones({3}, {c});
    EXPECT_THAT(message_of<ShapeError>([&] { eigh(wide); }),
                StartsWith(text_of("eigh: a ", describe(wide), ": expected square matrices")));
    EXPECT_THAT(message_of<ShapeError>([&] { svd(vector); }),
                StartsWith(text_of("svd: a ", describe(vector), ": expected at least 2 axes")));
    message_of<ShapeError>([&] { eigvalsh(vector); });
    message_of<ShapeError>([&] { svdvals(vector); });
    EXPECT_EQ(Tensors(invoke("svd", {wide}, {{"compute_uv", false}})).size(), 1u);
  }
}

TEST(Spectral, TakesLargeElements) {
  for (const Context c : end_contexts()) {
    const Svd f = svd(full({2, 2}, 1e307, {c, f64}));
    EXPECT_NEAR(f.s[0].item<double>() / 1e307, 2, 1e-12);
  }
}

}  // namespace
}  // namespace locus::test
