// ReductionKernel: CuPy's tests, axes, layouts, identities, several outputs, struct types.
#include <cmath>
#include <limits>

#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduction_kernels.h>
#include <locus/ops/view.h>

#include "tests/support/contexts.h"

namespace locus {
namespace {

using test::contexts;
using test::kernel_contexts;
using test::values;
using testing::ElementsAre;

const ReductionKernel& my_sum() {
  static const ReductionKernel k("T x", "T y", "x", "a + b", "y = a", "0", "my_sum");
  return k;
}
Tensor numbers(const Shape& shape, TensorOptions o) {
  std::vector<float> data(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i * 7 % 13) - 4;
  return array(data, shape).astype(o.dtype.value_or(f32)).as_in_context(*o.context);
}

// CuPy: TestReductionKernel.test_shape1.
TEST(ReductionKernel, SumsOfInt8ForLengthsAroundPowersOfTwo) {
  for (Context c : kernel_contexts())
    for (int i = 1; i < 17; ++i)
      for (int64_t n : {(1 << i) - 1, 1 << i, (1 << i) + 1}) {
        const Tensor x = (arange(n, {c, i64}) * 7 % 256 - 128).astype(i8);
        const Tensor y = my_sum()(x);
        EXPECT_EQ(y.dtype(), i8);
        EXPECT_EQ(y.shape(), Shape());
        EXPECT_EQ(y.item<int8_t>(), static_cast<int8_t>(sum(x).item<int64_t>())) << n;
      }
}

// CuPy: test_shape2 to test_shape4.
TEST(ReductionKernel, SumsAlongEachAxis) {
  for (Context c : kernel_contexts())
    for (const auto& [rows, columns] : {std::pair(513, 6553), {6553, 513}, {33, 3}, {3, 33}}) {
      const Tensor x = numbers({rows, columns}, {c, i64});
      for (int axis : {0, 1, -1}) {
        const Tensor y = my_sum()(x, {.axis = axis});
        EXPECT_EQ(y.shape(), Shape({axis == 0 ? columns : rows}));
        EXPECT_EQ(values(y), values(sum(x, axis))) << rows << ' ' << axis;
      }
      EXPECT_EQ(values(my_sum()(x)), values(sum(x)));
    }
}

// CuPy: TestLargeMultiDimReductionKernel.
TEST(ReductionKernel, ManyAxes) {
  for (Context c : kernel_contexts()) {
    const Tensor x = numbers({3, 4, 2, 5, 3, 2, 7}, {c, i64});
    for (bool keepdims : {true, false}) {
      const ReduceOptions o{.axis = {1, 4, 3, 6}, .keepdims = keepdims};
      const Tensor y = my_sum()(x, o);
      EXPECT_EQ(y.shape(), keepdims ? Shape({3, 1, 2, 1, 1, 2, 1}) : Shape({3, 2, 2}));
      EXPECT_EQ(values(y), values(sum(x, o)));
    }
    EXPECT_EQ(values(my_sum()(x, {.axis = {-1, 0}})), values(sum(x, {.axis = {6, 0}})));
  }
}

TEST(ReductionKernel, NormOfRows) {
  const ReductionKernel l2("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm");
  for (Context c : contexts()) {
    const Tensor x = array({{3.0f, 4.0f}, {6.0f, 8.0f}}, c);
    EXPECT_THAT(values(l2(x, {.axis = 1})), ElementsAre(5, 10));
    EXPECT_EQ(l2(x, {.axis = 1, .keepdims = true}).shape(), Shape({2, 1}));
    EXPECT_FLOAT_EQ(l2(x).item<float>(), std::sqrt(125.0f));
  }
}

TEST(ReductionKernel, LayoutsOfInputsAndOutputs) {
  for (Context c : kernel_contexts())
    for (DType d : {f32, f16, i32}) {
      const Tensor x = numbers({21, 34}, {c, d});
      for (const Tensor& view :
           {x.T(), x(Slice(0, 21, 2)), x(ellipsis, Slice(std::nullopt, std::nullopt, -1)),
            x(ellipsis, Slice(1, 30, 3)).T(), broadcast_to(x(3), {5, 34})})
        for (const Axes& axis : {Axes(), Axes(0), Axes(1)}) {
          const std::vector<double> expected = values(sum(view, {.axis = axis}).astype(d));
          EXPECT_EQ(values(my_sum()(view, {.axis = axis})), expected);
          const int64_t n = static_cast<int64_t>(expected.size());
          const Tensor gaps = zeros({n, 2}, {c, d});
          const Tensor out = axis.all() ? gaps(0, 1) : gaps(ellipsis, 1);
          my_sum().into({view}, {out}, {.axis = axis});
          EXPECT_EQ(values(out), expected);
          EXPECT_EQ(values(gaps(ellipsis, 0)), std::vector<double>(expected.size()));
        }
    }
}

TEST(ReductionKernel, InputsBroadcastAndMayBeNumbersOrRaw) {
  const ReductionKernel dot("T x, T y", "T z", "x * y", "a + b", "z = a", "0", "my_dot");
  const ReductionKernel weighted("T x, raw T w, T scale", "T z", "x * w[i]", "a + b",
                                 "z = a * scale + w[0] + n", "0", "weighted");
  for (Context c : kernel_contexts()) {
    const Tensor x = numbers({6, 1, 9}, c), y = numbers({5, 1}, c), w = numbers({9}, c);
    EXPECT_EQ(values(dot(x, y, {.axis = 2})), values(sum(x * y, 2)));
    EXPECT_EQ(values(dot(x, y, {.axis = {0, 1}})), values(sum(x * y, {.axis = {0, 1}})));
    EXPECT_EQ(values(dot(y, x)), values(sum(x * y)));
    EXPECT_EQ(values(dot(x, 3)), values(sum(x * 3)));
    EXPECT_EQ(values(weighted(x, w, 2, {.axis = -1})), values(sum(x * w, -1) * 2 + w(0) + 9));
  }
}

TEST(ReductionKernel, SeveralOutputs) {
  const ReductionKernel moments("T x", "T mean, int64 count, T last", "x", "a + b",
                                "mean = a / n; count = n; if (n > 3) last = a;", "0", "moments");
  for (Context c : contexts()) {
    const Tensor x = array({{1.0f, 2.0f, 3.0f}, {5.0f, 5.0f, 5.0f}}, c);
    const Tensors out = moments.run({x}, {.axis = 1, .keepdims = true});
    ASSERT_EQ(out.size(), 3u);
    EXPECT_EQ(out[1].shape(), Shape({2, 1}));
    EXPECT_THAT(values(out[0]), ElementsAre(2, 5));
    EXPECT_THAT(values(out[1]), ElementsAre(3, 3));
    // What the post-map does not set for an element keeps its value.
    const Tensor mean = zeros({2}, c), count = zeros({2}, {c, i64}), last = full({2}, 7, c);
    moments.into({x}, {mean, count, last}, {.axis = 1});
    EXPECT_THAT(values(mean), ElementsAre(2, 5));
    EXPECT_THAT(values(last), ElementsAre(7, 7));
  }
}

TEST(ReductionKernel, OutputsMayOverlapInputs) {
  for (Context c : contexts()) {
    const Tensor x = ones({4, 4}, c), y = zeros({4}, c);
    EXPECT_TRUE(my_sum()(x, y, {.axis = 1}).is(y));
    EXPECT_THAT(values(y), ElementsAre(4, 4, 4, 4));
    EXPECT_TRUE(my_sum()(x, {.axis = 0, .out = y}).is(y));
    my_sum()(x, x(0), {.axis = 1});
    EXPECT_THAT(values(x(0)), ElementsAre(4, 4, 4, 4));
    my_sum()(x, {.axis = 1, .out = x(ellipsis, 1)});
    EXPECT_THAT(values(x(ellipsis, 1)), ElementsAre(16, 4, 4, 4));
  }
}

// CuPy starts such a maximum with 0.
TEST(ReductionKernel, WithoutAnIdentityStartsWithTheFirstElement) {
  const ReductionKernel largest("T x", "T y", "x", "max(a, b)", "y = a", "", "largest");
  const ReductionKernel at_least_0("T x", "T y", "x", "max(a, b)", "y = a", "0", "at_least_0");
  for (Context c : kernel_contexts())
    for (int64_t n : {1, 2, 3, 31, 33, 300, 5000, 100000}) {
      const Tensor x = -1 - numbers({n, 9}, c).astype(f32) - 20;
      for (const Axes& axis : {Axes(0), Axes(1), Axes()}) {
        EXPECT_EQ(values(largest(x, {.axis = axis})), values(max(x, {.axis = axis}))) << n;
        EXPECT_EQ(values(at_least_0(x, {.axis = axis})),
                  values(zeros_like(max(x, {.axis = axis}))));
      }
    }
}

TEST(ReductionKernel, NoElements) {
  const ReductionKernel k("T x", "T y", "x", "a + b", "y = a + n + 1", "5", "none");
  for (Context c : contexts()) {
    EXPECT_THAT(values(k(zeros({0, 3}, c), {.axis = 0})), ElementsAre(6, 6, 6));
    EXPECT_EQ(k(zeros({0, 3}, c), {.axis = 1}).shape(), Shape({0}));
    EXPECT_EQ(k(zeros({2, 0}, c)).item<float>(), 6);
    // The identity is joined once.
    EXPECT_EQ(k(ones({100000}, c)).item<float>(), 200006);
    EXPECT_EQ(k(full({}, 2, c)).item<float>(), 9);
  }
}

// CuPy's example of a struct: the extremes and where they are.
TEST(ReductionKernel, StructsHoldSeveralValues) {
  const ReductionKernel extremes("T x", "T low, T high, int64 at", "MinMax(x, i)", "joined(a, b)",
                                 "low = a.low; high = a.high; at = a.at", "", "extremes",
                                 {.preamble = R"(
struct MinMax {
  T low, high;
  int64_t at;
  __device__ MinMax() {}
  __device__ MinMax(T v, int64_t i) : low(v), high(v), at(i) {}
};
__device__ MinMax joined(const MinMax& a, const MinMax& b) {
  MinMax m = a;
  m.low = min(a.low, b.low);
  if (b.high > a.high || (b.high == a.high && b.at < a.at)) m.high = b.high, m.at = b.at;
  return m;
})",
                                  .reduce_type = "MinMax"});
  for (Context c : kernel_contexts())
    for (DType d : {f32, f64, i8})
      for (const Shape& shape : {Shape({40, 70}), Shape({3, 9000}), Shape({9000, 3})}) {
        const Tensor x = numbers(shape, {c, d});
        for (const Tensor& view : {x, x.T()})
          for (const Axes& axis : {Axes(0), Axes(1), Axes()}) {
            const Tensors out = extremes.run({view}, {.axis = axis});
            EXPECT_EQ(values(out[0]), values(min(view, {.axis = axis})));
            EXPECT_EQ(values(out[1]), values(max(view, {.axis = axis})));
            EXPECT_EQ(values(out[2]), values(argmax(view, {.axis = axis})));
          }
      }
}

TEST(ReductionKernel, ReduceTypes) {
  const auto kernel = [](const char* type) {
    return ReductionKernel("T x", "T y", "x", "a + b", "y = a / n", "0", "wide_mean",
                           {.reduce_type = type});
  };
  for (Context c : kernel_contexts()) {
    const Tensor x = full({1000}, 100, {c, i8});
    EXPECT_EQ(values(kernel("int64")(x)), std::vector<double>{100});
    EXPECT_EQ(values(kernel("")(x)), std::vector<double>{0});  // wraps: -96 / 1000
    const Tensor y = full({4096}, 1, {c, f16});                // f16 keeps its joins in f32
    EXPECT_EQ(my_sum()(y * 3).item<float>(), 12288);
    EXPECT_EQ(kernel("double")(full({1 << 20}, 0.1, c)).item<float>(), 0.1f);
  }
}

TEST(ReductionKernel, NaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (Context c : kernel_contexts()) {
    const Tensor x = ones({3, 1000}, c);
    x(1, 999) = nan;
    const std::vector<double> y = values(my_sum()(x, {.axis = 1}));
    EXPECT_EQ(y[0], 1000);
    EXPECT_TRUE(std::isnan(y[1]));
    EXPECT_EQ(y[2], 1000);
  }
}

TEST(ReductionKernel, SumsOfManyElementsAreAccurate) {
  for (Context c : kernel_contexts()) {
    const Tensor x = full({5'000'000}, 0.1, c);
    EXPECT_NEAR(my_sum()(x).item<float>(), 500000, 1);
    EXPECT_NEAR(my_sum()(x.reshape({-1, 2}), {.axis = 0})(0).item<float>(), 250000, 1);
  }
}

}  // namespace
}  // namespace locus
