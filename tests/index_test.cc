#include <locus/ops/index.h>

#include <sstream>

#include <locus/core/autograd.h>
#include <locus/core/op.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/view.h>
#include "tests/contexts.h"

namespace locus::test {
namespace {

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

TEST(Index, ModesDecideWhatLiesOutside) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor r = arange(3, c), ids = array({-4, 5, 1}, c);
    EXPECT_THAT(values(take(r, ids, {.mode = IndexMode::clip})), ElementsAre(0, 2, 1));
    EXPECT_THAT(values(take(r, ids, {.mode = IndexMode::wrap})), ElementsAre(2, 2, 1));
    const auto wait = [&] {
      const Tensor y = take(r, array({0, 7}, c));
      wait_all();
      y.to_vector<float>();
    };
    EXPECT_THAT(message_of<IndexError>(wait), HasSubstr("7"));
  }
  EXPECT_THAT(message_of<IndexError>([] { arange(3).take(array({-4})); }),
              HasSubstr("index -4 is out of bounds for axis 0 with size 3"));
  EXPECT_THROW(take(zeros({0}), array({0})), IndexError);
  EXPECT_THROW(take(arange(3), array({true, false, true})), DTypeError);
}

// The same bits on every run, whatever repeats.
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
    std::vector<float> wanted(17 * 5);
    const std::vector<float> h = head.to_vector<float>();
    for (size_t i = 0; i < 1000; ++i)
      for (size_t k = 0; k < 5; ++k) wanted[static_cast<size_t>(ids[i]) * 5 + k] += h[i * 5 + k];
    EXPECT_EQ(w.grad().to_vector<float>(), wanted);
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
    for (int64_t n : {1, 15, 4096, 4097, 100003}) {
      std::vector<uint8_t> mask(static_cast<size_t>(n));
      std::vector<int64_t> wanted;
      for (int64_t i = 0; i < n; ++i) {
        mask[static_cast<size_t>(i)] = i * i % 7 == 2;
        if (i * i % 7 == 2) wanted.push_back(i);
      }
      EXPECT_EQ(nonzero(array(mask, c))[0].to_vector<int64_t>(), wanted);
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
    // Apart: the index's axes come first.
    EXPECT_EQ(x(array({0, 1}, c), Slice(), columns(Slice(0, 2))).gather().shape(), (Shape{2, 3}));
    EXPECT_THAT(values(x(array({0, 1}, c), Slice(), array({3, 0}, c))),
                ElementsAre(3, 7, 11, 12, 16, 20));
    EXPECT_EQ(x(ellipsis, array({0, 0, 0}, c)).gather().shape(), (Shape{2, 3, 3}));
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

}  // namespace
}  // namespace locus::test
