// Variances and norms of data whose squares f32 does not hold.
#include <cmath>

#include <locus/core/autograd.h>
#include <locus/core/kernel.h>
#include <locus/ops/create.h>
#include <locus/ops/norm.h>
#include <locus/ops/reduce.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus {
namespace {

using test::from_values, test::kernel_contexts;
using testing::FloatNear, testing::Pointwise;
using Values = std::vector<double>;

// Squares vanish in f32, are ordinary, overflow, and overflow only in sums.
constexpr int kExponents[] = {-110, -70, 0, 40, 62, 65, 110};

Values data(size_t n, int exponent = 0) {
  Values v(n);
  for (size_t i = 0; i < n; ++i)
    v[i] = std::ldexp(std::sin(static_cast<double>(i * i % 1009)) + .25, exponent);
  return v;
}
Values values(const Tensor& t) { return t.astype(f64).to_vector<double>(); }

struct Case {
  const char* what;
  Shape shape;
  std::function<Tensor(const Tensor&)> f;
};

// Rows of a warp and of a block, columns, runs, and data that several threads or blocks share.
TEST(SpreadRange, NormsAreTheSameForEveryScaleOfTheData) {
  const auto ones_of = [](const Tensor& x, int64_t n) {
    return ones({n}, {x.context(), x.dtype() == f64 ? f64 : f32});
  };
  const auto layer = [&](const Tensor& x) {
    const int64_t n = x.shape()[x.ndim() - 1];
    return layer_norm(x, ones_of(x, n), ones_of(x, n), {.epsilon = 0});
  };
  const auto rms = [&](const Tensor& x) {
    return rms_norm(x, ones_of(x, x.shape()[x.ndim() - 1]), {.epsilon = 0});
  };
  const auto batch = [&](const Tensor& x) {
    const autograd::TrainMode training;
    const int64_t n = x.shape()[1];
    const Tensor mean = zeros({n}, {x.context(), f64}), var = ones({n}, {x.context(), f64});
    return batch_norm(x, ones_of(x, n), ones_of(x, n), mean, var, {.epsilon = 0});
  };
  const Case cases[] = {{"layer_norm, short", {5, 7}, layer},
                        {"layer_norm, long", {3, 5000}, layer},
                        {"rms_norm, short", {5, 7}, rms},
                        {"rms_norm, long", {3, 5000}, rms},
                        {"batch_norm, columns", {700, 5}, batch},
                        {"batch_norm, runs", {4, 3, 32, 32}, batch},
                        {"batch_norm, one channel", {8, 1, 128, 128}, batch}};
  for (Context c : kernel_contexts())
    for (DType d : {f32, bf16})
      for (const Case& k : cases) {
        const auto n = static_cast<size_t>(k.shape.size());
        const Values plain = values(k.f(from_values(data(n), k.shape, c, d)));
        for (int e : kExponents)
          EXPECT_THAT(values(k.f(from_values(data(n, e), k.shape, c, d))),
                      Pointwise(testing::DoubleNear(d == f32 ? 2e-5 : 4e-2), plain))
              << k.what << " of " << name(d) << " on " << to_string(c) << " times 2^" << e;
      }
}

TEST(SpreadRange, StandardDeviationsScaleWithTheData) {
  for (Context c : kernel_contexts())
    for (const Shape& shape : {Shape{3, 7}, Shape{3, 5000}, Shape{700, 40}, Shape{1, 300000}})
      for (int axis : {0, 1}) {
        const auto n = static_cast<size_t>(shape.size());
        const Values plain = values(std(from_values(data(n), shape, c, f64), {.axis = axis}));
        for (int e : kExponents) {
          Values got = values(std(from_values(data(n, e), shape, c, f32), {.axis = axis}));
          for (double& v : got) v = std::ldexp(v, -e);
          EXPECT_THAT(got, Pointwise(testing::DoubleNear(1e-5), plain))
              << "axis " << axis << " on " << to_string(c) << " times 2^" << e;
        }
      }
}

// A row is summed again only because of its own elements.
TEST(SpreadRange, ResultsDoNotDependOnTheirNeighbours) {
  for (Context c : kernel_contexts())
    for (int axis : {0, 1}) {
      const Shape shape = axis == 1 ? Shape{64, 33} : Shape{33, 64};
      Values v = data(64 * 33);
      const Tensor plain = std(from_values(v, shape, c, f32), {.axis = axis});
      for (size_t i = 0; i < v.size(); ++i)
        if ((axis == 1 ? i / 33 : i % 64) % 2 == 1) v[i] = std::ldexp(v[i], 70);
      const Tensor mixed = std(from_values(v, shape, c, f32), {.axis = axis});
      for (int64_t i = 0; i < 64; i += 2)
        EXPECT_EQ(plain[i].item<float>(), mixed[i].item<float>()) << i << " on " << to_string(c);
    }
}

// With given statistics, an infinite element affects neither the statistics nor its own gradient.
TEST(SpreadRange, GivenStatisticsTakeInfiniteDataToTheirOwnGradient) {
  for (Context c : kernel_contexts())
    for (bool recorded : {false, true}) {
      Tensor x = from_values({INFINITY, 1, NAN, 2}, {2, 2}, c, f32);
      x.attach_grad();
      Tensor y;
      {
        const autograd::Record record(false);
        y = batch_norm(x, ones({2}, c), zeros({2}, c), zeros({2}, c), full({2}, 3, c),
                       {.epsilon = 1});
      }
      autograd::GradOptions options;
      options.head_gradients = {full({2, 2}, 8, c)};
      options.create_graph = recorded;
      EXPECT_THAT(values(autograd::grad({y}, {x}, options)[0]), testing::Each(4)) << to_string(c);
    }
}

TEST(Norm, IsNaNWhereAnElementIsNotFinite) {
  for (Context c : test::contexts()) {
    const Tensor x = array({{1.f, INFINITY, 3.f}, {1.f, 2.f, 4.f}}, c);
    const Values y = values(layer_norm(x, ones({3}, c), zeros({3}, c)));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(std::isnan(y[i]));
      EXPECT_FALSE(std::isnan(y[3 + i]));
    }
  }
}

}  // namespace
}  // namespace locus
