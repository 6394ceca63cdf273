// tensordot, inner, vdot, outer, kron, cross, trace, matrix_power, multi_dot.
#include <gtest/gtest.h>

#include <limits>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/ops/create.h>
#include <locus/ops/einsum.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/named.h>
#include <locus/ops/products.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>
#include "tests/products/numbers.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using Numbers = std::vector<double>;
using testing::AllOf, testing::HasSubstr, testing::Not, testing::StartsWith;

TEST(Tensordot, SumsOverPairsOfAxes) {
  for (Context c : contexts()) {
    const Tensor a = numbers({2, 3, 4}, c), b = numbers({3, 4, 5}, c, f64, 1);
    expect_equal(tensordot(a, b), einsum("ijk,jkl->il", {a, b}));
    expect_equal(tensordot(a, numbers({4, 2}, c), 1), einsum("ijk,kl", {a, numbers({4, 2}, c)}));
    expect_equal(tensordot(a, b, {2, 1}, {1, 0}), einsum("ijk,jkl->il", {a, b}));
    expect_equal(tensordot(a, b, {-1}, {1}), einsum("ijk,lkm->ijlm", {a, b}));
    expect_equal(tensordot(a, numbers({2}, c), 0), einsum("ijk,l->ijkl", {a, numbers({2}, c)}));
    expect_equal(invoke("tensordot", {a, b}, {{"axes_a", 1}, {"axes_b", 0}}),
                 einsum("ijk,jlm->iklm", {a, b}));
  }
}

TEST(Tensordot, RefusesAxesThatDoNotFit) {
  for (Context c : contexts()) {
    const Tensor a = ones({2, 3}, {c}), b = ones({3, 2}, {c}), one = ones({1, 3}, {c});
    EXPECT_THAT(message_of<ShapeError>([&] { tensordot(a, a, 1); }),
                StartsWith(text_of("tensordot: a ", describe(a), ", b ", describe(a),
                                   ": axis 1 of a has length 3, and axis 0 of b has length 2")));
    message_of<ShapeError>([&] { tensordot(b, one, 1); });  // 1 is not repeated
    message_of<ShapeError>([&] { tensordot(a, b, 3); });
    message_of<ValueError>([&] { tensordot(a, b, -1); });
    EXPECT_THAT(message_of<ShapeError>([&] {
                  tensordot(a, a, {0, -2}, {0, 1});
                }),
                HasSubstr("axes_a has axis -2"));
    message_of<ShapeError>([&] { tensordot(a, b, {0, 1}, {1}); });
    message_of<ShapeError>([&] { tensordot(a, b, {2}, {0}); });
    const Tensor many = ones({1, 1, 1, 1, 1}, {c});
    EXPECT_THAT(message_of<ShapeError>([&] { tensordot(many, many, 0); }),
                HasSubstr("expected at most 8"));
    EXPECT_THAT(message_of<ValueError>([&] {
                  invoke("tensordot", {a, b}, {{"axes_a", {1}}});
                }),
                HasSubstr("axes_b is none"));
  }
}

TEST(Products, OfVectorsAreThoseOfNumPy) {
  for (Context c : contexts()) {
    const Tensor a = numbers({2, 3}, c), b = numbers({4, 3}, c, f64, 1), v = numbers({6}, c);
    expect_equal(inner(a, b), matmul(a, b.T()));
    expect_equal(inner(a, full({}, 2, {c, f64})), a * 2);
    expect_equal(vdot(a, v), dot(reshape(a, {6}), v));
    expect_equal(vdot(a.T(), a.T()), sum(a * a));
    expect_equal(vdot(full({}, 2, {c, f64}), full({}, 3, {c, f64})), full({}, 6, {c, f64}));
    expect_equal(outer(a, b), reshape(a, {6, 1}) * reshape(b, {12}));
    EXPECT_EQ(outer(a, zeros({0}, {c})).shape(), (Shape{6, 0}));
    EXPECT_EQ(inner(full({3}, 1, {c, u8}), full({3}, 100, {c, u8})).item<uint8_t>(), 44);
    message_of<ShapeError>([&] { inner(a, numbers({4, 2}, c)); });
    EXPECT_THAT(message_of<ShapeError>([&] { vdot(a, numbers({5}, c)); }),
                HasSubstr("expected operands of one size"));
  }
}

TEST(Products, KronPlacesBInTheElementsOfA) {
  for (Context c : contexts()) {
    const Tensor a = array({{1.0, 2.0}, {3.0, 4.0}}, c), b = array({{0.0, 5.0}}, c);
    expect_equal(kron(a, b), array({{0.0, 5.0, 0.0, 10.0}, {0.0, 15.0, 0.0, 20.0}}, c));
    expect_equal(kron(array({1.0, 2.0}, c), a),
                 array({{1.0, 2.0, 2.0, 4.0}, {3.0, 4.0, 6.0, 8.0}}, c));
    EXPECT_EQ(kron(a, zeros({0}, {c})).shape(), (Shape{2, 0}));
    // Six axes, of which none has length 1.
    const Tensor x = numbers({2, 2, 2, 2, 2, 2}, c), y = numbers({2, 3, 2, 2, 2, 2}, c, f64, 1);
    const Tensor z = kron(x, y);
    EXPECT_EQ(z.shape(), (Shape{4, 6, 4, 4, 4, 4}));
    EXPECT_EQ(z(3, 4, 1, 2, 3, 0).item<double>(),
              x(1, 1, 0, 1, 1, 0).item<double>() * y(1, 1, 1, 0, 1, 0).item<double>());
  }
}

TEST(Products, CrossIsOfVectorsOfThree) {
  for (Context c : contexts()) {
    const Tensor x = array({1.0, 0.0, 0.0}, c), y = array({0.0, 1.0, 0.0}, c);
    EXPECT_EQ(values(cross(x, y)), (Numbers{0, 0, 1}));
    EXPECT_EQ(values(cross(y, x)), (Numbers{0, 0, -1}));
    const Tensor a = numbers({4, 3}, c), b = numbers({2, 1, 3}, c, f64, 1);
    const Tensor wanted = cross(a, b);
    EXPECT_EQ(wanted.shape(), (Shape{2, 4, 3}));
    EXPECT_EQ(values(sum(wanted * a, -1)), Numbers(8, 0));
    expect_equal(cross(a.T(), b, {.axisa = 0}), wanted);
    expect_equal(cross(a, moveaxis(b, -1, 0), {.axisb = 0, .axisc = 0}), moveaxis(wanted, -1, 0));
    expect_equal(cross(a.T(), numbers({3, 4}, c), {.axis = 0}),
                 cross(a, numbers({3, 4}, c).T()).T());
    EXPECT_EQ(values(cross(array({0, 100, 0}, {c, i64}).astype(i8),
                           array({0, 0, 2}, {c, i64}).astype(i8))),
              (Numbers{-56, 0, 0}));
    EXPECT_THAT(message_of<ShapeError>([&] { cross(x, numbers({2}, c)); }),
                AllOf(StartsWith("cross: b "), HasSubstr("expected vectors of 3")));
    message_of<ShapeError>([&] { cross(numbers({2, 3}, c), numbers({4, 3}, c)); });
    message_of<ShapeError>([&] { cross(x, y, {.axisc = 1}); });
    message_of<ShapeError>([&] { cross(x, y, {.axis = 1}); });
    message_of<DTypeError>([&] { cross(x.astype(bool_), y.astype(bool_)); });
  }
}

TEST(Products, TraceSumsADiagonal) {
  for (Context c : contexts()) {
    const Tensor x = numbers({2, 3, 4}, c);
    expect_equal(trace(x), einsum("iij->j", {x(Slice(), Slice(0, 2))}));
    expect_equal(trace(x, 1, 1, 2), sum(diagonal(x, 1, 1, 2), -1));
    expect_equal(trace(x, -9, 0, -1), zeros({3}, {c, f64}));
    EXPECT_EQ(trace(full({4, 4}, 100, {c, u8})).dtype(), i64);
    EXPECT_EQ(trace(full({4, 4}, 100, {c, u8})).item<int64_t>(), 400);
    EXPECT_EQ(trace(full({4, 5}, 1, {c, bool_})).item<int64_t>(), 4);
    EXPECT_THAT(message_of<ShapeError>([&] { trace(x, 0, 1, 1); }), StartsWith("trace: "));
    EXPECT_THAT(message_of<ShapeError>([&] { trace(ones({3}, {c})); }), StartsWith("trace: "));
  }
}

TEST(Products, PowersOfMatricesAreRepeatedProducts) {
  for (Context c : contexts()) {
    const Tensor x = numbers({2, 3, 3}, c);
    Tensor wanted = x;
    for (int n = 1; n < 9; ++n) {
      expect_equal(matrix_power(x, n), wanted);
      wanted = matmul(wanted, x);
    }
    EXPECT_FALSE(matrix_power(x, 1).shares_memory_with(x));
    const Tensor identity = matrix_power(x.astype(i32), 0);
    expect_equal(identity, broadcast_to(eye(3, 0, 0, {c, i32}), {2, 3, 3}));
    identity[0] = zeros({3, 3}, {c, i32});  // memory of its own
    EXPECT_EQ(matrix_power(zeros({3, 0, 0}, {c}), 2).shape(), (Shape{3, 0, 0}));
    const Tensor step = array({{0, 1}, {0, 0}}, {c, i64}).astype(bool_);
    EXPECT_FALSE(any(matrix_power(step, 2)).item<bool>());
    EXPECT_THAT(message_of<ShapeError>([&] {
                  matrix_power(ones({2, 3}, {c}), 2);
                }),
                StartsWith("matrix_power: x "));
    message_of<ShapeError>([&] { matrix_power(ones({2}, {c}), 2); });
  }
}

TEST(Products, NegativePowersOfMatricesAreThoseOfTheInverses) {
  for (Context c : contexts()) {
    const Tensor x = array({{{2.0, 0.0}, {0.0, 4.0}}, {{0.0, 1.0}, {-.5, 0.0}}}, {c, f64});
    const Tensor inverse = array({{{.5, 0.0}, {0.0, .25}}, {{0.0, -2.0}, {1.0, 0.0}}}, {c, f64});
    expect_equal(matrix_power(x, -1), inverse);
    expect_equal(matrix_power(x, -3), matmul(matmul(inverse, inverse), inverse));
    const Tensor one = broadcast_to(eye(2, 0, 0, {c, i64}), {2, 2, 2});
    EXPECT_EQ(values(matrix_power(one, std::numeric_limits<int64_t>::min())), values(one));
    EXPECT_EQ(matrix_power(one, -2).dtype(), f64);
    EXPECT_THAT(message_of<ValueError>([&] {
                  matrix_power(ones({2, 2}, {c}), -2);
                }),
                AllOf(StartsWith("matrix_power: inv: a "), HasSubstr("the matrix is singular; "),
                      HasSubstr("matrix_power(inv(x, {.check = false}), 2) does not check"),
                      Not(HasSubstr("instead"))));
    EXPECT_THAT(message_of<DTypeError>([&] { matrix_power(x.astype(f16), -2); }),
                AllOf(StartsWith("matrix_power: inv: a "), HasSubstr("astype(f32)")));
    if (c == cpu(0))
      check_gradients([](const Tensors& in) { return Tensors{matrix_power(in[0], -2)}; }, {x});
  }
}

TEST(Products, MultiDotIsTheProductInAnyOrder) {
  for (Context c : contexts()) {
    const Tensor a = numbers({10, 2}, c), b = numbers({2, 9}, c, f64, 1), d = numbers({9, 1}, c);
    const Tensor v = numbers({10}, c);
    expect_equal(multi_dot({a, b, d}), matmul(a, matmul(b, d)));
    expect_equal(multi_dot({v, a, b, d, numbers({1}, c, f64, 1)}),
                 dot(dot(dot(dot(v, a), b), d), numbers({1}, c, f64, 1)));
    expect_equal(multi_dot({v, a}), dot(v, a));
    expect_equal(multi_dot({v, v}), dot(v, v));
    expect_equal(multi_dot({a.astype(i32), b}), matmul(a, b));
    EXPECT_THAT(
        message_of<ShapeError>([&] {
          multi_dot({a, d, b});
        }),
        StartsWith(text_of("multi_dot: matrix 0 ", describe(a), ", matrix 1 ", describe(d))));
    message_of<ShapeError>([&] { multi_dot({a, numbers({2}, c), b}); });
    message_of<ShapeError>([&] { multi_dot({numbers({1, 1, 1}, c), a}); });
    message_of<ValueError>([&] { multi_dot({a}); });
  }
}

// Another order makes a matrix of 1e12 elements.
TEST(Products, MultiDotTakesTheOrderOfFewestMultiplications) {
  constexpr int64_t n = 1'000'000;
  for (Context c : kernel_contexts()) {
    const Tensor column = ones({n, 1}, {c, f64}), row = ones({1, n}, {c, f64});
    expect_equal(multi_dot({column, row, column}), column * n);
    expect_equal(multi_dot({row, column, row}), row * n);
  }
}

TEST(Products, RefuseOperandsOfDifferentContexts) {
  const std::vector<Context> all = distinct_contexts();
  const Tensor a = ones({3, 3}, {all[0]}), b = ones({3, 3}, {all[1]});
  const auto refused = [](const char* name, const auto& f) {
    EXPECT_THAT(message_of<ContextMismatch>(f),
                AllOf(StartsWith(name + std::string(": operands live on different contexts")),
                      HasSubstr("as_in_context")));
  };
  refused("tensordot", [&] { tensordot(a, b); });
  refused("inner", [&] { inner(a, b); });
  refused("vdot", [&] { vdot(a, b); });
  refused("outer", [&] { outer(a, b); });
  refused("kron", [&] { kron(a, b); });
  refused("cross", [&] { cross(a, b); });
  refused("multi_dot", [&] { multi_dot({a, b}); });
}

TEST(Products, BeginErrorsWithTheCalledFunction) {
  const Tensor large = broadcast_to(ones({1}), {int64_t{1} << 33});
  EXPECT_THAT(message_of<ShapeError>([&] { outer(large, large); }), StartsWith("outer: "));
  EXPECT_THAT(message_of<ShapeError>([&] { kron(large, large); }), StartsWith("kron: "));
}

}  // namespace
}  // namespace locus::test
