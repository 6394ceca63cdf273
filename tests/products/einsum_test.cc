// einsum: identities, labels, layouts, dtypes, gradients.
#include <gtest/gtest.h>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/ops/create.h>
#include <locus/ops/einsum.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/named.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>
#include "tests/products/numbers.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

TEST(Einsum, OfOneOperandSumsPermutesAndTakesDiagonals) {
  for (Context c : contexts()) {
    const Tensor x = numbers({3, 3}, c), y = numbers({2, 3, 4}, c);
    expect_equal(einsum("ij->ji", {x}), x.T());
    expect_equal(einsum("ba", {x}), x.T());
    expect_equal(einsum("ii->i", {x}), diagonal(x));
    expect_equal(einsum("ii", {x}), sum(diagonal(x)));
    expect_equal(einsum("iii->i", {numbers({2, 2, 2}, c)}),
                 diagonal(diagonal(numbers({2, 2, 2}, c), 0, 0, 1), 0, 0, 1));
    expect_equal(einsum("i...->...", {y}), sum(y, 0));
    expect_equal(einsum("...i->i...", {y}), moveaxis(y, -1, 0));
    expect_equal(einsum("abc->", {y}), sum(y));
    expect_equal(einsum("", {sum(y)}), sum(y));
    EXPECT_TRUE(einsum("ij->ji", {x}).shares_memory_with(x));
    EXPECT_TRUE(einsum("ij", {x}).shares_memory_with(x));
    EXPECT_FALSE(einsum("ij", {x}).is(x));
    EXPECT_FALSE(einsum("ij->i", {x}).shares_memory_with(x));
    const Tensor column = numbers({3, 1}, c);
    EXPECT_FALSE(einsum("ij->i", {column}).shares_memory_with(column));
  }
}

TEST(Einsum, OfTwoOperandsIsAProduct) {
  for (Context c : contexts()) {
    const Tensor a = numbers({3, 4}, c), b = numbers({4, 5}, c, f64, 1), v = numbers({4}, c);
    expect_equal(einsum("ij,jk", {a, b}), matmul(a, b));
    expect_equal(einsum("ij,jk->ki", {a, b}), matmul(a, b).T());
    expect_equal(einsum("ij,j", {a, v}), matmul(a, v));
    expect_equal(einsum("i,i", {v, v}), dot(v, v));
    expect_equal(einsum("i,j->ij", {v, v}), reshape(v, {4, 1}) * v);
    expect_equal(einsum("ij,j->ij", {a, v}), a * v);
    expect_equal(einsum(",ij", {sum(v), a}), sum(v) * a);
    expect_equal(einsum("ij,jk->", {a, b}), sum(matmul(a, b)));
    expect_equal(einsum("ij,kl->il", {a, b}), reshape(sum(a, 1), {3, 1}) * sum(b, 0));
  }
}

TEST(Einsum, BatchesMayLieAnywhere) {
  for (Context c : contexts()) {
    const Tensor q = numbers({3, 4, 2, 5}, c), k = numbers({3, 6, 2, 5}, c, f64, 1);
    const Tensor scores = matmul(transpose(q, {0, 2, 1, 3}), transpose(k, {0, 2, 3, 1}));
    expect_equal(einsum("bqhd,bkhd->bhqk", {q, k}), scores);
    expect_equal(einsum("bhqk,bkhd->bqhd", {scores, k}),
                 transpose(matmul(scores, transpose(k, {0, 2, 1, 3})), {0, 2, 1, 3}));
    expect_equal(einsum("bqhd,bkhd->qbkh", {q, k}), transpose(scores, {2, 0, 3, 1}));
    // More entries of a batch than one launch takes.
    const Tensor x = numbers({20, 2, 3, 4}, c), y = numbers({20, 5, 3, 4}, c, f64, 2);
    expect_equal(einsum("bqhd,bkhd->bhqk", {x, y}),
                 matmul(transpose(x, {0, 2, 1, 3}), transpose(y, {0, 2, 3, 1})));
  }
}

TEST(Einsum, SumsOverLabelsThatDoNotLieTogether) {
  for (Context c : contexts()) {
    const Tensor a = numbers({2, 3, 4, 5}, c), b = numbers({5, 6, 3}, c, f64, 1);
    const Tensor flat = reshape(transpose(a, {0, 2, 3, 1}), {8, 15});
    expect_equal(einsum("pqrs,stq->prt", {a, b}),
                 reshape(matmul(flat, reshape(transpose(b, {0, 2, 1}), {15, 6})), {2, 4, 6}));
    // Rows that are no single axis in memory.
    const Tensor w = numbers({4, 7, 40}, c), x = numbers({30, 7}, c, f64, 1);
    expect_equal(einsum("bi,oij->boj", {x, w}), transpose(matmul(x, w), {1, 0, 2}));
  }
}

TEST(Einsum, MultipliesManyOperandsPairByPair) {
  for (Context c : contexts()) {
    const Tensor a = numbers({3, 4}, c), b = numbers({4, 5}, c), d = numbers({5, 2}, c, f64, 1);
    expect_equal(einsum("ij,jk,kl->il", {a, b, d}), matmul(matmul(a, b), d));
    const Tensor x = numbers({2, 3}, c), w = numbers({6, 3, 4}, c, f64, 1), y = numbers({2, 4}, c);
    Tensor wanted = zeros({2, 6}, {c, f64});
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 4; ++j)
        wanted =
            wanted + x(Slice(), Slice(i, i + 1)) * y(Slice(), Slice(j, j + 1)) * w(Slice(), i, j);
    expect_equal(einsum("bi,oij,bj->bo", {x, w, y}), wanted);
    const Tensor v = numbers({2}, c);
    expect_equal(einsum("i,j,k,l", {v, v, v, v}),
                 einsum("ij,kl->ijkl", {einsum("i,j", {v, v}), einsum("i,j", {v, v})}));
  }
}

// Another order makes a matrix of 1e12 elements.
TEST(Einsum, MultipliesThePairThatRemovesMostElementsFirst) {
  constexpr int64_t n = 1'000'000;
  for (Context c : kernel_contexts()) {
    const Tensor v = ones({n}, {c, f64}), tall = ones({n, 2}, {c, f64});
    expect_equal(einsum("i,j,j->i", {v, v, v}), v * n);
    expect_equal(einsum("j,i,j->i", {v, v, v}), v * n);
    expect_equal(einsum("ij,jk,kl->il", {tall, tall.T(), tall}), tall * (2 * n));
  }
}

TEST(Einsum, ALengthOfOneIsRepeated) {
  for (Context c : contexts()) {
    const Tensor a = numbers({2, 1}, c), b = numbers({3, 4}, c, f64, 1), one = numbers({1, 1}, c);
    expect_equal(einsum("ij,jk->ik", {a, b}), matmul(broadcast_to(a, {2, 3}), b));
    expect_equal(einsum("ij,ij->ij", {a, numbers({1, 3}, c)}), a * numbers({1, 3}, c));
    expect_equal(einsum("ii,ij->ij", {one, b}), reshape(one, {1}) * b);
    expect_equal(einsum("...i,...i->...", {numbers({5, 1, 3}, c), numbers({1, 2, 1}, c)}),
                 sum(numbers({5, 1, 3}, c) * numbers({1, 2, 1}, c), -1));
    expect_equal(einsum("i,i->i", {zeros({0}, {c, f64}), ones({1}, {c, f64})}),
                 zeros({0}, {c, f64}));
  }
}

TEST(Einsum, WithoutAnArrowSortsLettersCapitalsFirst) {
  for (Context c : contexts()) {
    EXPECT_EQ(einsum("bA...,a", {numbers({2, 3, 4}, c), numbers({5}, c)}).shape(),
              (Shape{4, 3, 5, 2}));
    EXPECT_EQ(einsum(" j i , i ", {numbers({2, 3}, c), numbers({3}, c)}).shape(), (Shape{2}));
    EXPECT_EQ(einsum("i...,j...", {numbers({2, 3}, c), numbers({4, 1}, c)}).shape(),
              (Shape{3, 2, 4}));
    EXPECT_EQ(einsum("i->...i", {numbers({3}, c)}).shape(), (Shape{3}));
  }
}

TEST(Einsum, KeepsDTypes) {
  for (Context c : contexts()) {
    for (DType d : {f32, f64, f16, bf16, i32, i64, i8}) {
      const Tensor a = numbers({3, 4}, c, d), b = numbers({4, 2}, c, d, 1);
      expect_equal(einsum("ij,jk->ik", {a, b}), matmul(a, b));
      expect_equal(einsum("ij->j", {a}), sum(a, 0).astype(d));
      expect_equal(einsum("ij,kj->ikj", {a, b.T()}), reshape(a, {3, 1, 4}) * b.T());
    }
    EXPECT_EQ(einsum("i->", {full({300}, 1, {c, u8})}).item<uint8_t>(), 44);
    EXPECT_EQ(
        einsum("i,i", {full({2}, 1 << 20, {c, i32}), full({2}, 1 << 20, {c, i32})}).item<int32_t>(),
        0);
    EXPECT_EQ(einsum("i,i", {ones({2}, {c, f32}), ones({2}, {c, i32})}).dtype(), f64);
  }
}

TEST(Einsum, OfBoolIsTrueWhereAPairIs) {
  for (Context c : contexts()) {
    const Tensor a = array({{1, 0, 1}, {0, 0, 0}}, {c, i64}).astype(bool_);
    expect_equal(einsum("ij,kj->ik", {a, a}), array({{1, 0}, {0, 0}}, {c, i64}).astype(bool_));
    expect_equal(einsum("ij->j", {a}), array({1, 0, 1}, {c, i64}).astype(bool_));
    expect_equal(einsum("ij,j->ij", {a, a[0]}), a);
    EXPECT_TRUE(
        einsum("i,i", {full({256}, 1, {c, bool_}), full({256}, 1, {c, bool_})}).item<bool>());
  }
}

TEST(Einsum, OfEmptyOperandsIsZero) {
  for (Context c : contexts()) {
    const Tensor none = zeros({2, 0}, {c, f64});
    expect_equal(einsum("ij,kj->ik", {none, none}), zeros({2, 2}, {c, f64}));
    expect_equal(einsum("ij,k->ik", {none, ones({3}, {c, f64})}), zeros({2, 3}, {c, f64}));
    expect_equal(einsum("ij,jk->", {none, zeros({0, 4}, {c, f64})}), zeros({}, {c, f64}));
    EXPECT_EQ(einsum("ij,ik->jk", {none, none}).shape(), (Shape{0, 0}));
  }
}

TEST(Einsum, ReadsAnyLayout) {
  for (Context c : contexts()) {
    const Tensor a = numbers({4, 3, 6}, c), b = numbers({6, 4, 5}, c, f64, 1);
    const Tensor wanted = einsum("ijk,kil->jl", {a, b});
    expect_equal(einsum("kji,kil->jl", {a.T(), b}),
                 einsum("ijk,lik->jl", {a, transpose(b, {2, 1, 0})}));
    expect_equal(einsum("ijk,kil->jl", {flip(a, 2), flip(b, 0)}), wanted);
    expect_equal(einsum("ijk,kil->jl", {flip(a, 0), flip(b, 1)}), wanted);
    const Tensor row = numbers({1, 3, 1}, c);
    expect_equal(einsum("ijk,kil->jl", {broadcast_to(row, {4, 3, 6}), b}),
                 einsum("ijk,kil->jl", {broadcast_to(row, {4, 3, 6}).clone(), b}));
  }
}

TEST(Einsum, TakesManyAxes) {
  for (Context c : contexts()) {
    const Shape all{2, 1, 2, 1, 2, 1, 2, 3};
    const Tensor a = numbers(all, c), b = numbers(all, c, f64, 1);
    expect_equal(einsum("abcdefgh,abcdefgh->abcdefg", {a, b}), sum(a * b, -1));
    expect_equal(einsum("abcdefgh,gbcdefah->abcdefgh", {a, b}), a * swapaxes(b, 0, 6));
    const Tensor w = numbers({2, 2, 2, 2, 3, 2}, c), x = numbers({2, 2, 2, 2, 3, 4}, c);
    expect_equal(einsum("abcdef,dcbaeg->abcdfg", {w, x}),
                 matmul(swapaxes(w, -1, -2), transpose(x, {3, 2, 1, 0, 4, 5})));
  }
}

TEST(Einsum, GradientsAgreeWithFiniteDifferences) {
  struct Case {
    const char* subscripts;
    std::vector<Shape> shapes;
  };
  for (Context c : end_contexts())
    for (const Case& one :
         std::vector<Case>{{"ii->i", {{3, 3}}},
                           {"bii->b", {{2, 3, 3}}},
                           {"ij->", {{2, 3}}},
                           {"ij,jk->ki", {{2, 3}, {3, 2}}},
                           {"bqhd,bkhd->bhqk", {{2, 2, 2, 2}, {2, 1, 2, 2}}},
                           {"ij,ij->i", {{2, 3}, {1, 3}}},
                           {"...i,...->...i", {{1, 2, 2}, {3, 1}}},
                           {"ii,i->", {{2, 2}, {2}}},
                           {"bi,oij,bj->bo", {{2, 2}, {2, 2, 3}, {2, 3}}},
                           {"i,i,i->i", {{3}, {3}, {3}}},
                           {"ij,jk,kl,lm->im", {{2, 2}, {2, 1}, {1, 2}, {2, 2}}}}) {
      SCOPED_TRACE(to_string(c) + " " + one.subscripts);
      Tensors x;
      for (const Shape& s : one.shapes)
        x.push_back(from_values(weights(s.size(), static_cast<int>(x.size())), s, c, f64));
      check_gradients([&](const Tensors& in) { return Tensors{einsum(one.subscripts, in)}; }, x);
    }
}

// w's columns "oj" are no single axis in memory. 30 x 40 results are enough for a batch along o.
TEST(Einsum, GradientsOfColumnsInABatch) {
  for (Context c : end_contexts()) {
    const Tensor x = numbers({30, 3}, c), w = numbers({2, 3, 40}, c, f64, 1);
    const Tensors by_matmul = gradients(
        [](const Tensors& in) {
          return Tensors{transpose(matmul(in[0], in[1]), {1, 0, 2})};
        },
        {x, w});
    const Tensors got =
        gradients([](const Tensors& in) { return Tensors{einsum("bi,oij->boj", in)}; }, {x, w});
    for (size_t i = 0; i < 2; ++i) expect_near(values(got[i]), values(by_matmul[i]), 1e-12, "");
  }
}

TEST(Einsum, ComputesInTheDTypeOfAScope) {
  for (Context c : contexts()) {
    const amp::Scope mixed(bf16);
    const Tensor a = numbers({2, 3}, c, f32);
    EXPECT_EQ(einsum("ij,kj->ik", {a, a}).dtype(), bf16);
    EXPECT_EQ(einsum("ij,kj,kl->il", {a, a, a}).dtype(), bf16);
    EXPECT_EQ(einsum("ij,j->ij", {a, a[0]}).dtype(), f32);
    EXPECT_EQ(einsum("ij,kj,ik->ik", {a, a, numbers({2, 2}, c, f32)}).dtype(), f32);
    const Tensor half = a.astype(f16);
    EXPECT_EQ(einsum("ij,kj->ik", {half, half}).dtype(), f16);
    EXPECT_EQ(einsum("ij->i", {half}).dtype(), f32);
    // A sum in f32 and an operand in f16.
    expect_equal(einsum("ij,ik->k", {half, half}),
                 einsum("ij,ik->k", {a.astype(f64), a.astype(f64)}).astype(f32));
  }
}

TEST(Einsum, IsCalledByName) {
  for (Context c : contexts()) {
    const Tensor a = numbers({2, 3}, c), b = numbers({3, 2}, c);
    expect_equal(invoke("einsum", {a, b}, {{"subscripts", "ij,jk->ik"}}), matmul(a, b));
  }
}

}  // namespace
}  // namespace locus::test
