#include <locus/ops/order.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <locus/core/autograd.h>
#include <locus/core/memory_tools.h>
#include <locus/devices/cpu.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/named.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/support/launches.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<DType> kEvery = {f32, f64, f16, bf16, i32, i64, u8, i8, bool_};

// The indices that sort v, NaN last.
std::vector<double> sorted_ids(const std::vector<double>& v, bool descending) {
  std::vector<double> ids(v.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, [&](double i, double j) {
    const double a = v[static_cast<size_t>(i)], b = v[static_cast<size_t>(j)];
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
    return descending ? a > b : a < b;
  });
  return ids;
}
std::vector<double> at(const std::vector<double>& v, const std::vector<double>& ids) {
  std::vector<double> all;
  for (double i : ids) all.push_back(v[static_cast<size_t>(i)]);
  return all;
}
std::vector<double> first(std::vector<double> v, size_t k) {
  v.resize(k);
  return v;
}
void expect_same(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(got[i] == wanted[i] || (std::isnan(got[i]) && std::isnan(wanted[i])))
        << "element " << i << ": " << got[i] << ", right: " << wanted[i];
}

TEST(Order, SortsAlongAnyAxis) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({{3, 1, 2}, {0, 5, 4}}, c);
    EXPECT_THAT(values(sort(x)), ElementsAre(1, 2, 3, 0, 4, 5));
    EXPECT_THAT(values(sort(x, 0)), ElementsAre(0, 1, 2, 3, 5, 4));
    EXPECT_THAT(values(sort(x.T(), {.axis = 0, .descending = true})),
                ElementsAre(3, 5, 2, 4, 1, 0));
    EXPECT_THAT(values(argsort(x, 0)), ElementsAre(1, 0, 0, 0, 1, 1));
    const Tensor all = sort(x, {.axis = std::nullopt});
    EXPECT_EQ(all.shape(), Shape{6});
    EXPECT_THAT(values(all), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_EQ(argsort(x, {.axis = std::nullopt}).dtype(), i64);
    EXPECT_THAT(values(sort(full({}, 7, c), {.axis = std::nullopt})), ElementsAre(7));
    EXPECT_EQ(sort(zeros({0, 3}, c), 0).shape(), (Shape{0, 3}));
    EXPECT_EQ(sort(zeros({3, 0}, c)).shape(), (Shape{3, 0}));
  }
}

TEST(Order, TakesAnAxisAlone) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({{3, 1, 2}, {0, 5, 4}}, c);
    EXPECT_THAT(values(topk(x, 1, 0).values), ElementsAre(3, 5, 4));
    EXPECT_THAT(values(topk(x, 2, 1).indices), ElementsAre(0, 2, 1, 2));
    EXPECT_THAT(values(partition(x, 0, 0)), ElementsAre(0, 1, 2, 3, 5, 4));
    EXPECT_THAT(values(argpartition(x, {0, 1}, -1)), ElementsAre(1, 2, 0, 0, 2, 1));
    EXPECT_THAT(values(lexsort({x, x}, 0)), ElementsAre(1, 0, 0, 0, 1, 1));
  }
}

TEST(Order, IsStableWithNaNLast) {
  for (Context c : contexts())
    for (DType d : {f32, f64, f16, bf16}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const std::vector<double> v{0., NAN, -0., 1, -INFINITY, NAN, -1, 0., INFINITY, -0., 1};
      const Tensor plain = array(v, {c, d});
      // NaNs of both signs
      const Tensor x = where(array({0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}, c) == 1, -plain, plain);
      for (bool descending : {false, true}) {
        const std::vector<double> ids = sorted_ids(v, descending),
                                  got = values(sort(x, {.descending = descending}));
        expect_same(values(argsort(x, {.descending = descending})), ids);
        expect_same(got, at(v, ids));
        for (size_t i = 0; i < 9; ++i) EXPECT_EQ(std::signbit(got[i]), std::signbit(at(v, ids)[i]));
      }
      EXPECT_THAT(values(topk(x, 3).indices), ElementsAre(8, 3, 10));
      EXPECT_THAT(values(topk(x, 4, {.largest = false}).indices), ElementsAre(4, 6, 0, 2));
    }
}

// Rows that several threads or many blocks sort, with ties, NaN and few varying bits.
TEST(Order, SortsLongRowsOfEveryDType) {
  for (Context c : end_contexts())
    for (DType d : kEvery)
      for (int64_t n : {300, 5000, 150000}) {
        SCOPED_TRACE(to_string(c) + " " + name(d) + " " + std::to_string(n));
        std::vector<double> v(static_cast<size_t>(n));
        for (size_t i = 0; i < v.size(); ++i) {
          const auto mixed = static_cast<int64_t>(i * 2654435761u % 1000003);
          v[i] = d == bool_ ? static_cast<double>(mixed % 2)
                 : d == u8  ? static_cast<double>(mixed % 200)
                            : static_cast<double>(mixed % 201 - 100) * (d == i64 ? 1e12 : 1);
          if (is_floating(d) && mixed % 50 == 0) v[i] = NAN;
        }
        const Tensor x = array(v, {c, d});
        for (bool descending : {false, true}) {
          const std::vector<double> ids = sorted_ids(v, descending), right = at(v, ids);
          expect_same(values(sort(x, {.descending = descending})), right);
          expect_same(values(argsort(x, {.descending = descending})), ids);
          const Topk few = topk(x, 17, {.largest = descending}),
                     many = topk(x, n / 2, {.largest = descending});
          expect_same(values(few.indices), first(ids, 17));
          expect_same(values(few.values), first(right, 17));
          expect_same(values(many.indices), first(ids, static_cast<size_t>(n / 2)));
        }
      }
}

TEST(Order, SortsManyRows) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    for (int64_t n : {3, 40, 700, 9000}) {
      const int64_t rows = 20000 / n + 3;
      const Tensor x = random::randint(-50, 50, {rows, n}, {c, i32});
      const std::vector<double> v = values(x);
      std::vector<double> right;
      for (int64_t r = 0; r < rows; ++r) {
        const std::vector<double> row(v.begin() + r * n, v.begin() + (r + 1) * n);
        const std::vector<double> ids = sorted_ids(row, false);
        right.insert(right.end(), ids.begin(), ids.end());
      }
      expect_same(values(argsort(x)), right);
      expect_same(values(argsort(copy(x.T()), 0).T()), right);
      expect_same(values(argsort(x.astype(f64))), right);
    }
  }
}

TEST(Order, TakesTheFirstOfEqualElements) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor same = ones({100000}, c);
    EXPECT_THAT(values(topk(same, 3).indices), ElementsAre(0, 1, 2));
    const Tensor x = array({{1, 3, 3}, {2, 2, 1}}, {c, u8});
    const auto [best, places] = topk(x, 2);
    EXPECT_THAT(values(best), ElementsAre(3, 3, 2, 2));
    EXPECT_THAT(values(places), ElementsAre(1, 2, 0, 1));
    EXPECT_EQ(best.dtype(), u8);
    EXPECT_THAT(values(topk(x, 1, {.axis = 0, .largest = false}).indices), ElementsAre(0, 1, 1));
    EXPECT_EQ(topk(x, 0).values.shape(), (Shape{2, 0}));
    EXPECT_THAT(values(topk(x, 4, {.axis = std::nullopt}).indices), ElementsAre(1, 2, 3, 4));
  }
}

// The sides keep x's order.
TEST(Order, PartitionsKeepOrder) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({5, 1, 4, 2, 4, 3, 9, 0}, c);
    EXPECT_THAT(values(partition(x, 4)), ElementsAre(1, 2, 3, 0, 4, 4, 5, 9));
    EXPECT_THAT(values(argpartition(x, -4)), ElementsAre(1, 3, 5, 7, 2, 4, 0, 6));
    EXPECT_THAT(values(partition(x, {1, 6})), ElementsAre(0, 1, 4, 2, 4, 3, 5, 9));
    EXPECT_THAT(values(partition(x.reshape({4, 2}), 1, {.axis = 0})),
                ElementsAre(4, 0, 4, 1, 5, 2, 9, 3));
    const Tensor nan = array(std::vector<double>{NAN, 2, NAN, 1}, c);
    expect_same(values(partition(nan, 2)), {2, 1, NAN, NAN});
    Kth all({0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0});
    EXPECT_THAT(values(partition(x, all)), ElementsAre(0, 1, 2, 3, 4, 4, 5, 9));
  }
}

TEST(Order, PartitionsLongRows) {
  for (Context c : end_contexts())
    for (DType d : kEvery) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const int64_t n = 100000;
      const Tensor x = random::randint(0, 90, {n}, {c, i8}).astype(d);
      const std::vector<double> v = values(x);
      const double pivot = at(v, sorted_ids(v, false))[30000];
      std::vector<double> right;
      for (int side : {-1, 0, 1})
        for (size_t i = 0; i < v.size(); ++i)
          if ((v[i] > pivot) - (v[i] < pivot) == side) right.push_back(static_cast<double>(i));
      expect_same(values(argpartition(x, 30000)), right);
      expect_same(values(partition(x, 30000)), at(v, right));
    }
}

TEST(Order, SortsBySeveralKeys) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor a = array({9, 4, 0, 4, 0, 2, 1}, c), b = array({1, 5, 1, 4, 3, 4, 4}, c);
    EXPECT_THAT(values(lexsort({a, b})), ElementsAre(2, 0, 4, 6, 5, 3, 1));
    EXPECT_THAT(values(lexsort({a.astype(f32), b.astype(i32)})), ElementsAre(2, 0, 4, 6, 5, 3, 1));
    const Tensor x = array({{9, 4, 0}, {1, 5, 1}}, c);
    EXPECT_THAT(values(lexsort({x})), ElementsAre(2, 1, 0, 0, 2, 1));  // one key
    EXPECT_THAT(values(lexsort(x)), ElementsAre(2, 0, 1));             // two
    EXPECT_THAT(values(invoke("lexsort", {x})), ElementsAre(2, 0, 1));
    EXPECT_THAT(values(lexsort({a.reshape({7, 1}), b.reshape({7, 1})}, {.axis = 0})),
                ElementsAre(2, 0, 4, 6, 5, 3, 1));
  }
}

TEST(Order, GradientsGoToTheirPlaces) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto gradient = [&](const auto& f) {
      const Tensor x = array({{3.f, 1.f, 2.f}, {0.f, 5.f, 5.f}}, c);
      x.attach_grad();
      Tensor y;
      {
        autograd::Record record;
        const Tensor z = f(x);
        y = z * arange(z.size(), {c, f32}).reshape(z.shape());
      }
      y.backward();
      return values(x.grad());
    };
    EXPECT_THAT(gradient([](auto& x) { return sort(x); }), ElementsAre(2, 0, 1, 3, 4, 5));
    EXPECT_THAT(
        gradient([](auto& x) { return sort(x, {.axis = std::nullopt, .descending = true}); }),
        ElementsAre(2, 4, 3, 5, 0, 1));
    EXPECT_THAT(gradient([](auto& x) { return topk(x, 1).values; }), ElementsAre(0, 0, 0, 0, 1, 0));
    EXPECT_THAT(gradient([](auto& x) { return partition(x, 1); }), ElementsAre(2, 0, 1, 3, 4, 5));
  }
}

TEST(Order, OnlyGradientsNeedIndices) {
  const Tensor x = array({3.f, 1.f, 2.f}), w = x + 0;
  w.attach_grad();
  const Launches<0> sorts("sort");
  const Launches<1> pairs("topk");
  const autograd::Record record;
  EXPECT_THAT(values(sort(x)), ElementsAre(1, 2, 3));
  EXPECT_EQ(sorts(), 1);
  EXPECT_EQ(pairs(), 0);
  EXPECT_THAT(values(sort(w)), ElementsAre(1, 2, 3));
  EXPECT_EQ(sorts(), 1);
  EXPECT_EQ(pairs(), 1);
}

TEST(Order, RowsOfAThreadShareScratchMemory) {
  const int64_t n = 1 << 14, inner = 64, width = 16, row = n * 4;
  const Tensor x = sample_values(cpu(), f32, {n, inner});
  wait_all();
  MemoryProfile profile;
  const Tensor y = sort(x, {.axis = 0});
  const int64_t threads = std::min<int64_t>(num_threads(), inner / width);
  int64_t peak = 0;
  for (const MemoryEntry& e : profile.by_scope())
    if (e.name.empty()) peak = static_cast<int64_t>(e.peak);
  // The result, then copies of `width` rows and their results.
  EXPECT_GE(peak, inner * row + threads * 2 * width * row);
  EXPECT_LT(peak, inner * row + threads * 3 * width * row);
}

TEST(Order, RefusesWhatItCannotSort) {
  const Tensor x = zeros({2, 3});
  EXPECT_THAT(
      message_of<ValueError>([&] { topk(x, 4); }),
      HasSubstr("topk: data cpu(0) (2,3) f32: expected k from 0 to the length of axis 1, 3, "
                "got 4"));
  EXPECT_THROW(topk(x, -1), ValueError);
  EXPECT_THAT(
      message_of<ValueError>([&] { partition(x, 3); }),
      HasSubstr("partition: kth 3 is out of bounds for axis 1 of cpu(0) (2,3) f32; expected "
                "-3 to 2"));
  EXPECT_THROW(argpartition(x, -4), ValueError);
  EXPECT_THROW(partition(zeros({0}), 0), ValueError);
  EXPECT_THROW(partition(x, Kth(std::initializer_list<int64_t>{})), ValueError);
  EXPECT_THAT(message_of<ShapeError>([&] { sort(x, 2); }),
              HasSubstr("sort: axis 2 is out of bounds for a tensor of 2 axes"));
  EXPECT_THROW(argsort(zeros({})), ShapeError);
  EXPECT_THROW(lexsort(Tensors{}), ValueError);
  EXPECT_THAT(message_of<ShapeError>([&] {
                lexsort({x, zeros({3, 2})});
              }),
              HasSubstr("expected keys of one shape"));
  EXPECT_THROW(sort(Tensor()), Error);
}

}  // namespace
}  // namespace locus::test
