#include "tests/support/contexts.h"

#include <cmath>
#include <map>

#include <locus/core/autograd.h>
#include <locus/core/base/text.h>
#include <locus/core/kernel.h>
#include <locus/devices/cpu.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/norm.h>
#include <locus/ops/view.h>
#include "tests/support/launches.h"
#include "tests/tape/gradcheck.h"

namespace locus {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<double>;

// A normalisation as loops over doubles: element i belongs to statistic stat(i) and channel c(i).
struct Naive {
  std::function<int64_t(int64_t)> stat, channel;
  bool centred = true;
  double epsilon = 1e-5;

  struct Stat {
    double n = 0, mean = 0, var = 0, dy = 0, hat = 0;
    double rstd(double epsilon) const { return 1 / std::sqrt(var / n + epsilon); }
  };
  std::map<int64_t, Stat> stats(const Values& x) const {
    std::map<int64_t, Stat> all;
    const auto n = static_cast<int64_t>(x.size());
    for (int64_t i = 0; i < n; ++i) ++all[stat(i)].n;
    if (centred)
      for (int64_t i = 0; i < n; ++i) all[stat(i)].mean += x[size_t(i)] / all[stat(i)].n;
    for (int64_t i = 0; i < n; ++i) {
      Stat& s = all[stat(i)];
      s.var += (x[size_t(i)] - s.mean) * (x[size_t(i)] - s.mean);
    }
    return all;
  }
  Values forward(const Values& x, const Values& gamma, const Values& beta) const {
    auto all = stats(x);
    Values y(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const Stat& s = all[stat(int64_t(i))];
      const auto c = size_t(channel(int64_t(i)));
      y[i] = (x[i] - s.mean) * s.rstd(epsilon) * gamma[c] + (beta.empty() ? 0 : beta[c]);
    }
    return y;
  }
  // The largest factor on a gradient; rounding errors are relative to it.
  double largest_rstd(const Values& x) const {
    double largest = 1;
    for (const auto& [key, s] : stats(x)) largest = std::max(largest, s.rstd(epsilon));
    return largest;
  }
  // dx, dgamma, dbeta
  std::vector<Values> backward(const Values& x, const Values& gamma, const Values& dy) const {
    auto all = stats(x);
    std::vector<Values> d{Values(x.size()), Values(gamma.size()), Values(gamma.size())};
    const auto hat = [&](size_t i) {
      const Stat& s = all[stat(int64_t(i))];
      return (x[i] - s.mean) * s.rstd(epsilon);
    };
    for (size_t i = 0; i < x.size(); ++i) {
      Stat& s = all[stat(int64_t(i))];
      const auto c = size_t(channel(int64_t(i)));
      d[1][c] += dy[i] * hat(i);
      d[2][c] += dy[i];
      s.dy += centred ? dy[i] * gamma[c] : 0;
      s.hat += dy[i] * gamma[c] * hat(i);
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const Stat& s = all[stat(int64_t(i))];
      const double g = dy[i] * gamma[size_t(channel(int64_t(i)))];
      d[0][i] = s.rstd(epsilon) * (g - s.dy / s.n - hat(i) * s.hat / s.n);
    }
    return d;
  }
};

DType parameters_of(DType d) { return d == f64 ? f64 : f32; }
double tolerance(DType d) { return d == f64 ? 1e-12 : d == f32 ? 2e-6 : d == f16 ? 2e-3 : 1.6e-2; }

// f(x, gamma, beta) and its gradients against the loops, on all contexts, in every dtype.
void expect_naive(const Shape& shape, int axis, const Naive& naive,
                  const std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>& f) {
  const int64_t channels = shape[axis];
  for (Context c : test::contexts()) {
    for (DType d : {f32, f64, f16, bf16}) {
      SCOPED_TRACE(text_of(c, " ", name(d), " ", shape, " axis ", axis));
      const Tensor x = sample_values(c, d, shape), dy = sample_values(c, d, shape, -1, 1, 3);
      const Tensor gamma = sample_values(c, parameters_of(d), {channels}, .5, 2, 1);
      const Tensor beta = sample_values(c, parameters_of(d), {channels}, -1, 1, 2);
      for (const Tensor& t : {x, gamma, beta}) t.attach_grad();
      Tensor y;
      {
        const autograd::Record record;
        y = f(x, gamma, beta);
      }
      EXPECT_EQ(y.dtype(), d);
      y.backward({.head_gradient = dy});
      const Values xs = test::values(x), gs = test::values(gamma);
      const Values bs = naive.centred ? test::values(beta) : Values();
      test::expect_near(test::values(y), naive.forward(xs, gs, bs), tolerance(d), "result");
      const auto wanted = naive.backward(xs, gs, test::values(dy));
      test::expect_near(test::values(x.grad()), wanted[0], tolerance(d) * naive.largest_rstd(xs),
                        "gradient of x");
      // Sums of many numbers of both signs.
      const double terms = double(x.size()) / double(channels);
      const double sums = 4 * tolerance(parameters_of(d)) * std::max(1., terms / 5000);
      test::expect_near(test::values(gamma.grad()), wanted[1], sums, "gradient of gamma");
      if (naive.centred)
        test::expect_near(test::values(beta.grad()), wanted[2], sums, "gradient of beta");
      if (testing::Test::HasFailure()) return;
    }
  }
}

int64_t inner_of(const Shape& s, int axis) {
  int64_t n = 1;
  for (int i = axis + 1; i < s.rank(); ++i) n *= s[i];
  return n;
}

TEST(BatchNorm, AgreesWithLoops) {
  const std::pair<Shape, int> cases[] = {
      {{5, 3}, 1},     {{7, 3, 5, 5}, 1}, {{1100, 3}, 1},      {{3, 600, 2}, 1},
      {{2, 3, 70}, 1}, {{9, 33, 4}, 0},   {{4, 3, 5, 17}, -1}, {{1, 2, 4500}, 1},
      {{17}, 0},       {{2, 1, 3, 3}, 1}, {{130, 1, 520}, 1},  {{1, 2, 70001}, 1},
      {{4200, 3}, 1},  {{2000, 5, 2}, 1}};
  for (const auto& [shape, axis] : cases) {
    const int a = axis < 0 ? axis + shape.rank() : axis;
    const int64_t inner = inner_of(shape, a), n = shape[a];
    const auto channel = [=](int64_t i) { return i / inner % n; };
    expect_naive(shape, a, {channel, channel},
                 [&, axis = axis](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
                   const TensorOptions o(x.context(), gamma.dtype());
                   return batch_norm(x, gamma, beta, zeros({n}, o), ones({n}, o), {.axis = axis});
                 });
  }
}

TEST(LayerNorm, AgreesWithLoops) {
  const std::pair<Shape, int> cases[] = {{{4, 5}, -1},   {{3, 700}, -1},  {{2, 5000}, -1},
                                         {{2, 9, 3}, 1}, {{6, 4, 2}, 0},  {{33}, 0},
                                         {{600, 8}, -1}, {{2, 16500}, -1}};
  for (const auto& [shape, axis] : cases) {
    const int a = axis < 0 ? axis + shape.rank() : axis;
    const int64_t inner = inner_of(shape, a), n = shape[a];
    const Naive naive{[=](int64_t i) { return i / (inner * n) * inner + i % inner; },
                      [=](int64_t i) { return i / inner % n; }};
    expect_naive(shape, a, naive,
                 [axis = axis](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
                   return layer_norm(x, gamma, beta, {.axis = axis});
                 });
    Naive squares = naive;
    squares.centred = false;
    expect_naive(shape, a, squares,
                 [axis = axis](const Tensor& x, const Tensor& gamma, const Tensor&) {
                   return rms_norm(x, gamma, {.axis = axis});
                 });
  }
}

TEST(GroupNorm, AgreesWithLoops) {
  const std::pair<Shape, int> cases[] = {
      {{2, 6}, 3}, {{3, 4, 5}, 2}, {{2, 4, 5, 7}, 1}, {{2, 4, 5, 7}, 4}, {{2, 6, 1200}, 3}};
  for (const auto& [shape, groups] : cases) {
    const int64_t inner = inner_of(shape, 1), n = shape[1], each = n / groups;
    expect_naive(
        shape, 1,
        {[=](int64_t i) { return i / (inner * each); }, [=](int64_t i) { return i / inner % n; }},
        [groups = groups](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
          return group_norm(x, gamma, beta, {.num_groups = groups});
        });
  }
}

TEST(InstanceNorm, AgreesWithLoops) {
  for (const auto& [shape, axis] :
       {std::pair<Shape, int>{{2, 3, 4, 5}, 1}, {{3, 2, 50}, 1}, {{2, 5, 4, 3}, -1}}) {
    const int a = axis < 0 ? axis + shape.rank() : axis;
    const int64_t inner = inner_of(shape, a), n = shape[a], all = inner_of(shape, 0);
    const auto channel = [=](int64_t i) { return i / inner % n; };
    expect_naive(shape, a, {[=](int64_t i) { return i / all * n + channel(i); }, channel},
                 [axis = axis](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
                   return instance_norm(x, gamma, beta, {.axis = axis});
                 });
  }
}

TEST(Norm, IsExactWhereTheMeanIsFarFromZero) {
  for (Context c : test::contexts()) {
    // f32 near 1e4 are 2^-10 apart: the deviations are exact, so the statistics are known.
    Values v;
    for (int i = 0; i < 4096; ++i) v.push_back(1e4 + ((i * 37) % 64 - 32) / 1024.);
    for (const auto& [shape, axis] :
         {std::pair<Shape, int>{{64, 64}, 1}, {{2, 4, 512}, 1}, {{1, 4096}, 0}}) {
      const int64_t inner = inner_of(shape, axis), n = shape[axis];
      const Tensor x = test::from_values(v, shape, c, f32);
      const auto channel = [=](int64_t i) { return i / inner % n; };
      const Tensor gamma = ones({n}, c), beta = zeros({n}, c);
      Tensor y;
      {
        const autograd::TrainMode train;
        y = batch_norm(x, gamma, beta, zeros({n}, c), ones({n}, c), {.axis = axis});
      }
      test::expect_near(test::values(y),
                        Naive{channel, channel}.forward(v, Values(size_t(n), 1), {}), 4e-7,
                        "batch_norm");
      const int64_t row = inner_of(shape, 0);
      test::expect_near(
          test::values(group_norm(x, ones({shape[1]}, c), zeros({shape[1]}, c))),
          Naive{[=](int64_t i) { return i / row; }, [](int64_t) { return 0; }}.forward(v, {1}, {}),
          4e-7, "group_norm");
    }
  }
}

// Results and gradients of the normalisations, with few and with many elements per channel.
std::vector<Values> bits(Context c) {
  std::vector<Values> results;
  for (const Shape& shape : {Shape{40, 96, 11, 11}, Shape{1, 96, 300, 7}, Shape{300, 96, 3}}) {
    const Tensor x = sample_values(c, f32, shape), dy = sample_values(c, f32, shape, -1, 1, 1);
    const Tensor gamma = sample_values(c, f32, {96}), beta = zeros({96}, c);
    for (int k = 0; k < 3; ++k) {
      for (const Tensor& t : {x, gamma, beta}) t.attach_grad();
      Tensor y;
      {
        const autograd::Record record;
        y = k == 0   ? batch_norm(x, gamma, beta, zeros({96}, c), ones({96}, c))
            : k == 1 ? group_norm(x, gamma, beta, {.num_groups = 8})
                     : layer_norm(x.reshape({-1, 96}), gamma, beta).reshape(shape);
      }
      y.backward({.head_gradient = dy});
      for (const Tensor& t : {y, x.grad(), gamma.grad(), beta.grad()})
        results.push_back(test::values(t));
    }
  }
  return results;
}

TEST(Norm, HasTheSameBitsForAnyNumberOfThreads) {
  const int threads = num_threads();
  set_num_threads(1);
  const auto alone = bits(cpu());
  set_num_threads(7);
  const auto together = bits(cpu());
  set_num_threads(threads);
  EXPECT_EQ(alone, together);
}

TEST(Norm, HasTheSameBitsTwiceEverywhere) {
  for (Context c : test::contexts()) EXPECT_EQ(bits(c), bits(c)) << c;
}

TEST(BatchNorm, KeepsRunningStatisticsWhileTraining) {
  for (Context c : test::contexts()) {
    const Tensor x = array({{1.f, 2.f}, {3.f, 6.f}}, c), gamma = ones({2}, c), beta = zeros({2}, c);
    const Tensor mean = zeros({2}, c), var = ones({2}, c), was = mean;
    {
      const autograd::TrainMode train;
      batch_norm(x, gamma, beta, mean, var, {.momentum = .5});
    }
    EXPECT_THAT(test::values(was), ElementsAre(1, 2));    // of (2, 4), in place
    EXPECT_THAT(test::values(var), ElementsAre(1, 2.5));  // of (1, 4), biased
    for (bool global : {false, true}) {
      const std::optional<autograd::TrainMode> train =
          global ? std::optional<autograd::TrainMode>(std::in_place) : std::nullopt;
      const Tensor y =
          batch_norm(x, gamma, beta, mean, var, {.epsilon = 0, .use_global_stats = global});
      test::expect_near(test::values(y), {0, 0, 2, 4 / std::sqrt(2.5)}, 1e-6, "inference");
    }
    EXPECT_THAT(test::values(mean), ElementsAre(1, 2));
  }
}

TEST(BatchNorm, IsOneLaunchAlsoWhileTraining) {
  const Tensor x = sample_values(cpu(), f32, {4, 3, 5}), gamma = ones({3}), beta = zeros({3});
  const Tensor mean = zeros({3}), var = ones({3}), other = zeros({3}, f64), wide = ones({3}, f64);
  gamma.attach_grad();
  const autograd::Record record;
  const test::Launches<0> norms("batch_norm");
  const test::Launches<1> copies("copy");
  const Tensor y = batch_norm(x, gamma, beta, mean, var);
  EXPECT_EQ(norms(), 1);
  EXPECT_EQ(copies(), 0);
  batch_norm(x, gamma, beta, other, wide);
  test::expect_near(test::values(other), test::values(mean), 1e-7, "mean in f64");
  test::expect_near(test::values(wide), test::values(var), 1e-6, "variance in f64");
}

TEST(BatchNorm, RefusesToWriteRecordedRunningStatistics) {
  const Tensor x = ones({4, 2}), v = zeros({2}), leaf = ones({2});
  leaf.attach_grad();
  const autograd::Record record;
  for (const Tensor& bad : {leaf, leaf * 2}) {
    const auto is_mean = [&] { batch_norm(x, v, v, bad, v); };
    EXPECT_THAT(test::message_of<Error>(is_mean), HasSubstr("batch_norm: in-place operations"));
    EXPECT_THROW(batch_norm(x, v, v, v, bad), Error);
    batch_norm(x, v, v, bad, bad, {.use_global_stats = true});
  }
  EXPECT_THAT(test::values(v), ElementsAre(0, 0));
}

TEST(BatchNorm, KeepsRunningStatisticsThatAreViews) {
  for (Context c : test::contexts()) {
    const autograd::TrainMode train;
    const Tensor x = sample_values(c, f32, {4, 2}), gamma = ones({2}, c), beta = zeros({2}, c);
    const Tensor mean = zeros({2}, c), var = ones({2}, c);
    const Tensor y = batch_norm(x, gamma, beta, mean, var);
    const Tensor rows = array({{0.f, 0.f}, {1.f, 1.f}}, c), wide = full({2, 3}, 7, c);
    batch_norm(x, gamma, beta, rows(0), rows(1));
    EXPECT_EQ(test::values(rows(0)), test::values(mean)) << c;
    EXPECT_EQ(test::values(rows(1)), test::values(var)) << c;
    wide(Slice(), 0) = 0, wide(Slice(), 2) = 1;
    batch_norm(x, gamma, beta, wide(Slice(), 0), wide(Slice(), 2));
    EXPECT_EQ(test::values(wide(Slice(), 0)), test::values(mean)) << c;
    EXPECT_EQ(test::values(wide(Slice(), 2)), test::values(var)) << c;
    EXPECT_EQ(test::values(wide(Slice(), 1)), (Values{7, 7})) << c;
  }
}

TEST(BatchNorm, OfOneValueAChannelIsBeta) {
  for (Context c : test::contexts()) {
    const autograd::TrainMode train;
    const Tensor mean = zeros({2}, c), var = ones({2}, c), beta = array({5.f, -7.f}, c);
    const Tensor y = batch_norm(array({{3.f, 1e6f}}, c), ones({2}, c), beta, mean, var);
    EXPECT_THAT(test::values(y), ElementsAre(5, -7));
    test::expect_near(test::values(var), {.9, .9}, 1e-7, "running_var");
  }
}

TEST(BatchNorm, OfNothingLeavesTheRunningStatistics) {
  for (Context c : test::contexts()) {
    for (const Shape& shape : {Shape{0, 2}, Shape{3, 2, 0}}) {
      const Tensor mean = ones({2}, c), var = ones({2}, c), gamma = ones({2}, c);
      const Tensor x = zeros(shape, c), beta = zeros({2}, c);
      gamma.attach_grad();
      Tensor y;
      {
        const autograd::Record record;
        y = batch_norm(x, gamma, beta, mean, var);
      }
      y.backward();
      EXPECT_EQ(y.shape(), shape);
      EXPECT_THAT(test::values(mean), ElementsAre(1, 1));
      EXPECT_THAT(test::values(gamma.grad()), ElementsAre(0, 0));
      EXPECT_EQ(layer_norm(zeros({0, 2}, c), gamma, beta).shape(), (Shape{0, 2}));
    }
  }
}

TEST(Norm, TakesStridedAndIntegerInputs) {
  for (Context c : test::contexts()) {
    const Tensor x = sample_values(c, f32, {4, 6, 5}), gamma = ones({6}, c), beta = zeros({6}, c);
    const Tensor seen = transpose(transpose(x, {0, 2, 1}).copyto(c), {0, 2, 1});
    EXPECT_FALSE(seen.contiguous());
    EXPECT_EQ(test::values(group_norm(seen, gamma, beta)),
              test::values(group_norm(x, gamma, beta)));
    const Tensor whole = arange(12).astype(i64).reshape({2, 6}).copyto(c);
    EXPECT_EQ(layer_norm(whole, gamma, beta).dtype(), f64);
  }
}

TEST(Norm, SaysWhatItDoesNotTake) {
  const Tensor x = ones({2, 6, 4}), g = ones({6}), b = zeros({6}), four = ones({4});
  const auto text = [](auto f) { return test::message_of<Error>(f); };
  EXPECT_THAT(text([&] { group_norm(x, g, b, {.num_groups = 4}); }),
              HasSubstr("group_norm: data cpu(0) (2,6,4) f32"));
  EXPECT_THAT(text([&] { group_norm(x, g, b, {.num_groups = 4}); }),
              HasSubstr("expected num_groups that divides the 6 channels, got 4"));
  EXPECT_THAT(text([&] { batch_norm(x, four, four, four, four); }),
              HasSubstr("expected parameters of shape (6,), one per channel of axis 1, got (4,)"));
  EXPECT_THROW(layer_norm(x, g, b), ShapeError);
  EXPECT_THROW(layer_norm(x, four, four, {.axis = 3}), ShapeError);
  EXPECT_THROW(instance_norm(x, g, b, {.axis = 0}), ShapeError);
  EXPECT_THROW(group_norm(g, g, b), ShapeError);
  EXPECT_THROW(rms_norm(x, four, {.epsilon = -1}), ValueError);
  EXPECT_THROW(rms_norm(x, four, {.epsilon = NAN}), ValueError);
  const autograd::TrainMode train;
  EXPECT_THROW(batch_norm(x, g, b, zeros({6}), ones({6}), {.momentum = 2}), ValueError);
  EXPECT_THROW(batch_norm(x, g, b, zeros({5}), ones({5})), ShapeError);
  EXPECT_THROW(batch_norm(x, g, b, zeros({6}, f16), ones({6}, f16)), DTypeError);
  EXPECT_THROW(batch_norm(x, g, b, zeros({6}), ones({6}, f64)), DTypeError);
}

}  // namespace
}  // namespace locus
