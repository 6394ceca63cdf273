#include <locus/ops/index.h>

#include <sstream>

#include <locus/core/autograd.h>
#include <locus/core/op.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Index, TakesAlongAnyAxis) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor r = arange(10, c);
    EXPECT_THAT(values(r.take(array({0, 3, 5}, c))), ElementsAre(0, 3, 5));
    const Tensor x = arange(12, c).reshape({3, 4});
    EXPECT_THAT(values(take(x, array({2, -3}, c))), ElementsAre(8, 9, 10, 11, 0, 1, 2, 3));
    EXPECT_THAT(values(take(x, array({3, 0}, {c, i32}), {.axis = 1})),
                ElementsAre(3, 0, 7, 4, 11, 8));
    EXPECT_THAT(values(take(x.T(), array({1, 1}, c), {.axis = -1})),
                ElementsAre(4, 4, 5, 5, 6, 6, 7, 7));
    EXPECT_EQ(take(x, array({{0, 1}, {2, 0}}, c), {.axis = 1}).shape(), (Shape{3, 2, 2}));
    EXPECT_EQ(take(x, zeros({0}, {c, i64})).shape(), (Shape{0, 4}));
    EXPECT_THAT(values(take(r, arange(2, c))), ElementsAre(0, 1));  // floating ids, as in MXNet
  }
}

// 1e6 times .1 in one place: plain f32 would be off by 1 %.
TEST(Index, TakesGradientAddsAccurately) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    constexpr int64_t n = 1000000;
    for (int64_t inner : {1, 3}) {
      const Tensor x = zeros({4, inner}, c);
      x.attach_grad();
      Tensor y;
      {
        autograd::Record record;
        y = take(x, full({n}, 2, {c, i64})) * .1f;
      }
      y.backward();
      for (double v : values(x.grad()(2))) EXPECT_NEAR(v, n * static_cast<double>(.1f), .01);
      EXPECT_THAT(values(x.grad()(1)), Each(0));
    }
  }
}

// Every run gives the same bits.
TEST(Index, TakesGradientAddsRepeatedIndices) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    for (DType d : {f32, f64, f16}) {
      const Tensor x = zeros({4, 2}, {c, d});
      x.attach_grad();
      Tensor y;
      {
        autograd::Record record;
        y = take(x, array({3, 1, 3, 3}, c));
      }
      BackwardOptions options;
      options.head_gradient = array({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}, {7.f, 8.f}}, {c, d});
      y.backward(options);
      EXPECT_THAT(values(x.grad()), ElementsAre(0, 0, 3, 4, 0, 0, 13, 16));
    }
    std::vector<int64_t> ids(1000);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * i % 17);
    const Tensor w = zeros({17, 5}, c), head = sample_values(c, f32, {1000, 5});
    const Tensor where = array(ids, c);
    const auto gradient = [&] {
      w.attach_grad();
      Tensor y;
      {
        autograd::Record record;
        y = take(w, where);
      }
      BackwardOptions options;
      options.head_gradient = head;
      y.backward(options);
      return values(w.grad());
    };
    EXPECT_EQ(gradient(), gradient());
    std::vector<double> wanted(17 * 5);
    const std::vector<float> h = head.to_vector<float>();
    for (size_t i = 0; i < 1000; ++i)
      for (size_t k = 0; k < 5; ++k)
        wanted[static_cast<size_t>(ids[i]) * 5 + k] += static_cast<double>(h[i * 5 + k]);
    expect_near(values(w.grad()), wanted, 1e-6, "sums");
  }
}

TEST(Index, PicksOneElementAPlace) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(12, c).reshape({3, 4});
    EXPECT_THAT(values(pick(x, array({0, 3, -1}, c))), ElementsAre(0, 7, 11));
    EXPECT_THAT(values(pick(x, array({2, 1, 0, 2}, {c, i32}), {.axis = 0})),
                ElementsAre(8, 5, 2, 11));
    EXPECT_EQ(pick(x, array({0, 3, 1}, c), {.keepdims = true}).shape(), (Shape{3, 1}));
    EXPECT_THAT(values(pick(x, array({9, -9, 1}, c), {.mode = IndexMode::clip})),
                ElementsAre(3, 4, 9));
  }
  EXPECT_THROW(pick(zeros({2, 3}), array({0, 3})), IndexError);
  EXPECT_THROW(pick(zeros({2, 3}), array({0, 1, 2})), ShapeError);
}

TEST(Index, OneHotRowsAreOffOutsideTheDepth) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    EXPECT_THROW(one_hot(array({1}, c), 3, {.on_value = 300, .dtype = u8}), DTypeError);
    EXPECT_THAT(values(one_hot(array({1, 3, -1}, c), 3)), ElementsAre(0, 1, 0, 0, 0, 0, 0, 0, 0));
    const Tensor y =
        one_hot(array({{0}, {1}}, c), 2, {.on_value = 5, .off_value = 2, .dtype = i32});
    EXPECT_EQ(y.dtype(), i32);
    EXPECT_EQ(y.shape(), (Shape{2, 1, 2}));
    EXPECT_THAT(values(y), ElementsAre(5, 2, 2, 5));
  }
}

TEST(Index, MasksGather) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor r = arange(10, c);
    EXPECT_THAT(values(r[r % 3 == 1]), ElementsAre(1, 4, 7));
    EXPECT_EQ(Tensor(r[r > 100]).shape(), Shape{0});
    const Tensor x = arange(6, c).reshape({2, 3});
    EXPECT_THAT(values(x[x > 2]), ElementsAre(3, 4, 5));
    EXPECT_THAT(values(x.T()[x.T() > 2]), ElementsAre(3, 4, 5));
    EXPECT_THAT(values(x[array({false, true}, c)]), ElementsAre(3, 4, 5));
    EXPECT_THAT(values(x(Slice(), array({true, false, true}, c))), ElementsAre(0, 2, 3, 5));
    std::ostringstream os;
    os << r[r % 3 == 1];
    EXPECT_THAT(os.str(), HasSubstr("[1. 4. 7.]"));
    EXPECT_THAT(values(r[r > 7] + 1), ElementsAre(9, 10));
  }
  EXPECT_THAT(message_of<IndexError>([] {
                const Tensor r = arange(10);
                r[array({true, false})].gather();
              }),
              HasSubstr("size of axis is 10 but size of corresponding boolean axis is 2"));
}

TEST(Index, LargeMasksFindEveryPosition) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    for (int64_t n : {1, 15, 511, 512, 513, 4097, 100003}) {
      std::vector<uint8_t> mask(static_cast<size_t>(n));
      std::vector<int64_t> wanted;
      for (int64_t i = 0; i < n; ++i) {
        mask[static_cast<size_t>(i)] = i * i % 7 == 2;
        if (i * i % 7 == 2) wanted.push_back(i);
      }
      EXPECT_EQ(nonzero(array(mask, c))[0].to_vector<int64_t>(), wanted);
      const Tensor all = arange(n, {c, i32}), m = array(mask, c) > 0;
      for (DType d : {i64, i32, f16, u8}) {
        const Tensor x = (all % 100).astype(d);
        EXPECT_EQ(values(x[m]), values(take(x, array(wanted, c)))) << name(d);
        EXPECT_EQ(values(slice_axis(x, 0, Slice(1, {}))[slice_axis(m, 0, Slice(1, {}))]),
                  values(take(x, array(wanted, c))))
            << "at an odd address";
      }
    }
  }
}

TEST(Index, NonzeroGivesATensorAnAxis) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensors places = nonzero(array({{0.f, 2.f, 0.f}, {-1.f, 0.f, 3.f}}, c));
    ASSERT_EQ(places.size(), 2u);
    EXPECT_THAT(places[0].to_vector<int64_t>(), ElementsAre(0, 1, 1));
    EXPECT_THAT(places[1].to_vector<int64_t>(), ElementsAre(1, 0, 2));
  }
}

TEST(Index, IndexTensorsBroadcastAndKeepTheirPlace) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(24, c).reshape({2, 3, 4});
    EXPECT_THAT(values(x[array({1, 0}, c)].gather()(Slice(), 0, 0)), ElementsAre(12, 0));
    EXPECT_EQ(x(Slice(), array({2, 0}, c)).gather().shape(), (Shape{2, 2, 4}));
    EXPECT_THAT(values(x(1, array({2, 0}, c), Slice(0, 2))), ElementsAre(20, 21, 12, 13));
    const Tensor rows = array({{0}, {1}}, c), columns = array({0, 3, 1}, {c, i32});
    EXPECT_THAT(values(x(0, rows, columns)), ElementsAre(0, 3, 1, 4, 7, 5));
    // Not adjacent: the axes of the indices come first.
    EXPECT_EQ(x(array({0, 1}, c), Slice(), columns(Slice(0, 2))).gather().shape(), (Shape{2, 3}));
    EXPECT_THAT(values(x(array({0, 1}, c), Slice(), array({3, 0}, c))),
                ElementsAre(3, 7, 11, 12, 16, 20));
    EXPECT_EQ(x(ellipsis, array({0, 0, 0}, c)).gather().shape(), (Shape{2, 3, 3}));
  }
}

// Beside index tensors, a position is an index, also if it is not adjacent (NumPy).
TEST(Index, PositionsBesideIndexTensorsAreIndices) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Tensor x = arange(2 * 5 * 3, c).reshape({2, 5, 3});
    const Tensor ids = array({2, 0}, c);
    EXPECT_EQ(x(1, Slice(), ids).gather().shape(), (Shape{2, 5}));
    EXPECT_THAT(values(x(1, Slice(), ids)), ElementsAre(17, 20, 23, 26, 29, 15, 18, 21, 24, 27));
    EXPECT_EQ(x(Slice(), 1, ids).gather().shape(), (Shape{2, 2}));
    EXPECT_THAT(values(x(Slice(), 1, ids)), ElementsAre(5, 3, 20, 18));
    const Tensor first = array({1, 0}, c);
    EXPECT_EQ(x(first, newaxis, 0).gather().shape(), (Shape{2, 1, 3}));
    EXPECT_EQ(x(Slice(), 0, ellipsis, ids).gather().shape(), (Shape{2, 2}));
    EXPECT_THAT(values(x(Slice(), 0, ellipsis, ids)), ElementsAre(2, 17, 0, 15));

    x(0, Slice(), ids) = arange(10, c).reshape({2, 5});
    EXPECT_THAT(values(x(0, Slice(), 2)), ElementsAre(0, 1, 2, 3, 4));
    EXPECT_THAT(values(x(0, Slice(), 0)), ElementsAre(5, 6, 7, 8, 9));
    x(0, Slice(), ids) += arange(10, c).reshape({2, 5});
    EXPECT_THAT(values(x(0, Slice(), 0)), ElementsAre(10, 12, 14, 16, 18));
    EXPECT_THROW((x(0, Slice(), ids) = arange(10, c).reshape({5, 2})), ShapeError);
  }
}

TEST(Index, MasksWithoutAxesTakeAllOrNothing) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Tensor x = arange(6, c).reshape({2, 3});
    const Tensor yes = full({}, 1, c) > 0, no = full({}, 1, c) > 2;
    EXPECT_EQ(yes.ndim(), 0);
    EXPECT_EQ(Tensor(x[yes]).shape(), (Shape{1, 2, 3}));
    EXPECT_EQ(Tensor(x[no]).shape(), (Shape{0, 2, 3}));
    EXPECT_EQ(Tensor(x(Slice(), yes, array({2, 0}, c))).shape(), (Shape{2, 2}));
    EXPECT_THAT(values(full({}, 5, c)[yes]), ElementsAre(5));
    x[no] = 7;
    EXPECT_THAT(values(x), ElementsAre(0, 1, 2, 3, 4, 5));
    x[yes] = 7;
    EXPECT_THAT(values(x), Each(7));
    x[yes] = arange(6, c).reshape({1, 2, 3});
    EXPECT_THAT(values(x), ElementsAre(0, 1, 2, 3, 4, 5));
  }
}

TEST(Index, EntriesThatHoldNoTensorAreRefused) {
  EXPECT_THROW(arange(3)({1}), IndexError);
  EXPECT_THROW(arange(3)(Slice(), Tensor()), Error);
}

TEST(Index, SelectionsAssign) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Tensor r = arange(6, c);
    r[r > 4] = 0;
    EXPECT_THAT(values(r), ElementsAre(0, 1, 2, 3, 4, 0));
    r[array({1, -1}, c)] = array({7.f, 8.f}, c);
    EXPECT_THAT(values(r), ElementsAre(0, 7, 2, 3, 4, 8));
    r[r < 4] = r[r < 4] + 10;
    EXPECT_THAT(values(r), ElementsAre(10, 7, 12, 13, 4, 8));
    r[array({0, 1}, c)] += 1;
    r[array({2, 3}, c)] -= array({2, 3}, c);
    r[r == 4] *= 2;
    r[r == 8] /= 4;
    EXPECT_THAT(values(r), ElementsAre(11, 8 / 4, 10, 10, 2, 2));
    r[array({0, 1}, c)] = r[array({2, 4}, c)];
    EXPECT_THAT(values(r), ElementsAre(10, 2, 10, 10, 2, 2));

    Tensor x = zeros({3, 4}, c);
    x(array({0, 2}, c), Slice(1, 3)) = array({{1, 2}, {3, 4}}, c);
    EXPECT_THAT(values(x), ElementsAre(0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 4, 0));
    x.T()[x.T() > 2] = -1;  // strides that cannot be merged
    x.T()[x.T() < 0] = array({5, 6}, c);
    EXPECT_THAT(values(x), ElementsAre(0, 1, 2, 0, 0, 0, 0, 0, 0, 5, 6, 0));
    x(Slice(), array({false, false, false, true}, c)) = 9;
    EXPECT_THAT(values(x), ElementsAre(0, 1, 2, 9, 0, 0, 0, 9, 0, 5, 6, 9));
    x[array({true, false, false}, c)] = array({4, 3, 2, 1}, c);
    EXPECT_THAT(values(x), ElementsAre(4, 3, 2, 1, 0, 0, 0, 9, 0, 5, 6, 9));
  }
}

TEST(Index, AssignmentsThatDoNotFitChangeNothing) {
  for (Context c : {cpu(0)}) {
    Tensor r = arange(4, c);
    EXPECT_THROW((r[array({0, 1}, c)] = array({1, 2, 3}, c)), ShapeError);
    EXPECT_THROW((r[array({0, 9}, c)] = 5), IndexError);
    EXPECT_THAT(values(r), ElementsAre(0, 1, 2, 3));
  }
}

TEST(Index, RefusesIndicesOfAnotherContext) {
  const std::vector<Context> all = distinct_contexts();
  const Tensor r = arange(3, all[0]);
  EXPECT_THAT(message_of<ContextMismatch>([&] { r[array({0}, all[1])]; }),
              HasSubstr("different contexts"));
  EXPECT_THROW(take(r, array({0}, all[1])), ContextMismatch);
}

TEST(Index, GathersAreRecordedAndAssignmentsRefused) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({1.f, 2.f, 3.f, 4.f}, c);
    x.attach_grad();
    Tensor y;
    {
      autograd::Record record;
      y = x[x > 2] * array({10.f, 20.f}, c);
      EXPECT_THROW((x[x > 2] = 0), Error);
      EXPECT_THROW((x[array({0}, c)] = 0), Error);
    }
    y.backward();
    EXPECT_THAT(values(x.grad()), ElementsAre(0, 0, 10, 20));
    EXPECT_THAT(values(x), ElementsAre(1, 2, 3, 4));
  }
}

TEST(Index, IdsMayBeTheTargetItself) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Tensor i = array({2, 0, 1}, c);
    i[i] = i;
    EXPECT_THAT(values(i), ElementsAre(0, 1, 2));
    i = array({2, 0, 1}, c);
    i[i] += i;
    EXPECT_THAT(values(i), ElementsAre(2, 1, 3));
  }
}

TEST(Index, MasksRefuseNumbersThatDoNotFit) {
  Tensor x = zeros({2}, u8);
  EXPECT_THROW(x[x == 0] = 300, DTypeError);
  EXPECT_THROW(x[x == 0] = -1, DTypeError);
  EXPECT_THAT(values(x), ElementsAre(0, 0));
}

TEST(Selection, AMaskInTheTargetsMemoryIsReadFirst) {
  for (Context c : test::contexts()) {
    const Tensor x = array({true, false, true}, c);
    x(Slice({}, {}, -1))[x] = false;
    EXPECT_EQ(test::values(x), std::vector<double>(3, 0)) << c;
  }
}

}  // namespace
}  // namespace locus::test
