#include <locus/ops/activation.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>

#include <cmath>
#include <functional>
#include <limits>

#include <locus/core/autograd.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <tests/support/contexts.h>

namespace locus {
namespace {

using test::contexts;
using test::values;
using testing::ElementsAre;

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();

struct Reference {
  const char* name;
  Tensor (*op)(const Tensor&);
  double (*exact)(double);
  double low, high;
  double ulps;  // of f32, against f64 libm
};

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

const Reference kReferences[] = {
    {"exp", [](const Tensor& x) { return exp(x); }, std::exp, -87, 88, 3},
    {"log", [](const Tensor& x) { return log(x); }, std::log, 1e-5, 1e5, 3},
    {"tanh", [](const Tensor& x) { return tanh(x); }, std::tanh, -10, 10, 3},
    {"sigmoid", [](const Tensor& x) { return sigmoid(x); }, sigmoid_of, -80, 80, 5},
    {"erf", [](const Tensor& x) { return erf(x); }, std::erf, -5, 5, 8},
    {"log1p", [](const Tensor& x) { return log1p(x); }, std::log1p, -0.9, 5, 3},
    {"expm1", [](const Tensor& x) { return expm1(x); }, std::expm1, -5, 5, 3},
    {"sin", [](const Tensor& x) { return sin(x); }, std::sin, -20, 20, 3},
    {"cbrt", [](const Tensor& x) { return cbrt(x); }, std::cbrt, -20, 20, 3},
    {"arctan", [](const Tensor& x) { return arctan(x); }, std::atan, -20, 20, 3},
};

TEST(Unary, AgreesWithLibmInDouble) {
  for (Context c : contexts()) {
    for (const Reference& r : kReferences) {
      SCOPED_TRACE(to_string(c) + " " + r.name);
      const int64_t n = 20011;
      const Tensor x = linspace(r.low, r.high, n, c);
      const std::vector<double> from = values(x), got = values(r.op(x));
      const std::vector<double> exact = values(r.op(x.astype(f64)));
      for (size_t i = 0; i < from.size(); ++i) {
        const float y = static_cast<float>(std::abs(r.exact(from[i])));
        const double ulp = std::nextafter(y, HUGE_VALF) - y;
        ASSERT_NEAR(got[i], r.exact(from[i]), r.ulps * ulp) << "at " << from[i];
        ASSERT_NEAR(exact[i], r.exact(from[i]), 1e-14 * (1 + std::abs(exact[i])));
      }
    }
  }
}

TEST(Unary, NothingOverflowsIntoNan) {
  for (Context c : contexts()) {
    for (DType d : {f32, f64, f16, bf16}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const Tensor x = array({-1000.0, 1000.0, -kInf, kInf}, {c, d});
      EXPECT_THAT(values(sigmoid(x)), ElementsAre(0, 1, 0, 1));
      EXPECT_THAT(values(tanh(x)), ElementsAre(-1, 1, -1, 1));
      EXPECT_THAT(values(softplus(x)), ElementsAre(0, 1000, 0, kInf));
      EXPECT_THAT(values(exp(x)), ElementsAre(0, kInf, 0, kInf));
      EXPECT_THAT(values(gelu(x)), ElementsAre(0, 1000, 0, kInf));
      EXPECT_THAT(values(silu(x)), ElementsAre(0, 1000, 0, kInf));
      EXPECT_THAT(values(relu(x)), ElementsAre(0, 1000, 0, kInf));
      EXPECT_EQ(values(softsign(x))[3], 1);
      EXPECT_EQ(values(log(zeros({1}, {c, d})))[0], -kInf);
      const Tensor nan = full({1}, kNan, {c, d});
      for (const Tensor& y : {sigmoid(nan), tanh(nan), softplus(nan), exp(nan), log(nan), relu(nan),
                              gelu(nan), abs(nan), sign(nan), erf(nan), sqrt(x)(Slice(0, 1))})
        EXPECT_TRUE(std::isnan(values(y)[0]));
    }
  }
}

TEST(Unary, SignOfZeroIsPositiveZero) {
  for (Context c : contexts())
    EXPECT_FALSE(std::signbit(values(sign(array({-0., 1.}, {c, f32})))[0]));
}

TEST(Unary, RoundsBothWays) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({-2.5f, -1.5f, -0.2f, 0.5f, 1.5f, 2.7f}, c);
    EXPECT_THAT(values(floor(x)), ElementsAre(-3, -2, -1, 0, 1, 2));
    EXPECT_THAT(values(ceil(x)), ElementsAre(-2, -1, 0, 1, 2, 3));
    EXPECT_THAT(values(trunc(x)), ElementsAre(-2, -1, 0, 0, 1, 2));
    EXPECT_THAT(values(round(x)), ElementsAre(-3, -2, 0, 1, 2, 3));
    EXPECT_THAT(values(rint(x)), ElementsAre(-2, -2, 0, 0, 2, 3));
  }
}

TEST(Unary, IntegersStayWhereTheyCanAndBecomeF64Elsewhere) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({-3, 0, 4}, c);
    EXPECT_THAT((-x).to_vector<int64_t>(), ElementsAre(3, 0, -4));
    EXPECT_THAT(abs(x).to_vector<int64_t>(), ElementsAre(3, 0, 4));
    EXPECT_THAT(sign(x).to_vector<int64_t>(), ElementsAre(-1, 0, 1));
    EXPECT_THAT(square(x).to_vector<int64_t>(), ElementsAre(9, 0, 16));
    EXPECT_THAT(relu(x).to_vector<int64_t>(), ElementsAre(0, 0, 4));
    EXPECT_EQ(floor(x).dtype(), i64);
    EXPECT_EQ(exp(x).dtype(), f64);
    EXPECT_EQ(sqrt(x.astype(u8)).dtype(), f64);
    EXPECT_EQ(sqrt(x.astype(f16)).dtype(), f16);
    EXPECT_EQ(values(sqrt(x))[2], 2);
    EXPECT_EQ(values(exp(zeros({1}, {c, bool_})))[0], 1);
  }
}

TEST(Unary, BoolCountsWhereItCan) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({true, false}, c);
    for (const Tensor& y : {abs(x), relu(x), floor(x), rint(x)}) {
      EXPECT_EQ(y.dtype(), bool_);
      EXPECT_THAT(values(y), ElementsAre(1, 0));
    }
    EXPECT_EQ(square(x).dtype(), i8);
    EXPECT_THAT(values(square(x)), ElementsAre(1, 0));
    EXPECT_THROW(-x, DTypeError);
    EXPECT_THROW(sign(x), DTypeError);
    EXPECT_EQ(clip(x, 0, 300).dtype(), i8);
    EXPECT_THAT(values(clip(x, .5, 300)), ElementsAre(1, 0));
    EXPECT_THAT(values(clip(x, -300, 0)), ElementsAre(0, 0));
  }
}

TEST(Unary, ErfIsAtMostOne) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor y = erf(linspace(-5, 5, 100001, c));
    EXPECT_THAT(values(sqrt(1 - y * y)), testing::Each(testing::Ge(0)));
  }
}

TEST(Unary, AttributesAreChecked) {
  const Tensor x = ones({2});
  EXPECT_THAT(test::message_of<ValueError>([&] { softcap(x, -1); }),
              testing::StartsWith("softcap: data cpu(0) (2,) f32: expected a number above 0 that "
                                  "the dtype holds for c, got -1 (at "));
  for (double c : {kNan, kInf, 1e40, 1e-50}) EXPECT_THROW(softcap(x, c), ValueError) << c;
  EXPECT_THROW(softcap(x.astype(f16), 1e5), ValueError);
  EXPECT_THROW(elu(x.astype(f16), 1e5), ValueError);
  EXPECT_NO_THROW(elu(x, 1e5));
  EXPECT_THROW(smooth_l1(x, 0), ValueError);
  EXPECT_THROW(clip(x, 1, 0), ValueError);
  EXPECT_THROW(clip(x, kNan, 0), ValueError);
}

TEST(Unary, ActivationsWithAttributes) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({-kInf, -4., -1., 0., .5, 4., kInf}, {c, f64});
    const double e1 = std::expm1(-1.), e4 = std::expm1(-4.), a = 1.6732632423543772,
                 s = 1.0507009873554805;
    const auto near = [](std::vector<double> v) {
      return testing::Pointwise(testing::DoubleNear(1e-12), v);
    };
    EXPECT_THAT(values(leaky_relu(x)), ElementsAre(-kInf, -1, -.25, 0, .5, 4, kInf));
    EXPECT_THAT(values(leaky_relu(x, .5)), ElementsAre(-kInf, -2, -.5, 0, .5, 4, kInf));
    EXPECT_THAT(values(elu(x, 2)(Slice(0, 6))), near({-2, 2 * e4, 2 * e1, 0, .5, 4}));
    EXPECT_THAT(values(selu(x)(Slice(0, 6))),
                near({-s * a, s * a * e4, s * a * e1, 0, s * .5, s * 4}));
    EXPECT_THAT(values(hard_sigmoid(x)), near({0, 0, .3, .5, .6, 1, 1}));
    EXPECT_THAT(values(hard_swish(x)(Slice(0, 6))), near({0, 0, -1 / 3., 0, .5 * 3.5 / 6, 4}));
    EXPECT_THAT(values(smooth_l1(x, 2)(Slice(1, 6))), near({3.875, .875, 0, .375, 3.875}));
    EXPECT_THAT(values(softcap(x, 2)), near({-2, 2 * std::tanh(-2.), 2 * std::tanh(-.5), 0,
                                             2 * std::tanh(.25), 2 * std::tanh(2.), 2}));
    EXPECT_THAT(values(clip(x, -1, .25)), ElementsAre(-1, -1, -1, 0, .25, .25, .25));
    EXPECT_THAT(clip(array({-3, 0, 9}, c), -1.5, 4.5).to_vector<int64_t>(), ElementsAre(-1, 0, 4));
    EXPECT_THAT(clip(array({3, 200}, {c, u8}), -5, 100).to_vector<uint8_t>(), ElementsAre(3, 100));
    EXPECT_THAT(clip(array({3, 200}, {c, u8}), 300, 400).to_vector<uint8_t>(),
                ElementsAre(255, 255));
    const Tensor nan = full({1}, kNan, {c, f64});
    for (const Tensor& y : {leaky_relu(nan), elu(nan), selu(nan), hard_sigmoid(nan),
                            hard_swish(nan), smooth_l1(nan), softcap(nan, 1), clip(nan, 0, 1)})
      EXPECT_TRUE(std::isnan(values(y)[0]));
  }
}

TEST(UnaryGradient, AtKinks) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto slope = [&](Tensor (*f)(const Tensor&), double at) {
      const Tensor x = full({1}, at, {c, f64});
      x.attach_grad();
      {
        autograd::Record record;
        f(x).backward();
      }
      return values(x.grad())[0];
    };
    const auto leaky = [](const Tensor& x) { return leaky_relu(x, .1); };
    EXPECT_EQ(slope(leaky, 0), .1);
    EXPECT_EQ(slope(leaky, kInf), 1);
    EXPECT_EQ(slope([](const Tensor& x) { return elu(x, 3); }, 0), 3);
    EXPECT_EQ(slope([](const Tensor& x) { return elu(x); }, -kInf), 0);
    EXPECT_EQ(slope([](const Tensor& x) { return elu(x); }, kInf), 1);
    EXPECT_EQ(slope([](const Tensor& x) { return hard_sigmoid(x); }, 2.5), 0);
    EXPECT_EQ(slope([](const Tensor& x) { return hard_swish(x); }, -3), 0);
    EXPECT_EQ(slope([](const Tensor& x) { return hard_swish(x); }, 3), 1);
    EXPECT_EQ(slope([](const Tensor& x) { return smooth_l1(x); }, 1), 1);
    EXPECT_EQ(slope([](const Tensor& x) { return smooth_l1(x); }, -kInf), -1);
    EXPECT_EQ(slope([](const Tensor& x) { return smooth_l1(x, 1e200); }, 0), 0);
    EXPECT_EQ(slope([](const Tensor& x) { return clip(x, 0, 1); }, 0), 1);
    EXPECT_EQ(slope([](const Tensor& x) { return clip(x, 0, 1); }, 1), 1);
    EXPECT_EQ(slope([](const Tensor& x) { return clip(x, 0, 1); }, 1.5), 0);
    EXPECT_EQ(slope([](const Tensor& x) { return softcap(x, 5); }, 0), 1);
  }
}

TEST(Unary, TakesAnyLayout) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(-6, 6, c).reshape({3, 4});
    EXPECT_THAT(values(relu(x.T())), ElementsAre(0, 0, 2, 0, 0, 3, 0, 0, 4, 0, 1, 5));
    EXPECT_THAT(values(-x(Slice({}, {}, -2), Slice(1, 3))), ElementsAre(-3, -4, 5, 4));
    EXPECT_THAT(relu(x.T()).strides(), ElementsAre(1, 4));
    EXPECT_EQ(exp(zeros({0, 2}, c)).shape(), Shape({0, 2}));
  }
}

TEST(Unary, SixteenBitsRoundOnce) {
  for (Context c : contexts()) {
    for (DType d : {f16, bf16}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const Tensor x = linspace(0.1, 4, 1003, c).astype(d);
      EXPECT_EQ(values(sqrt(x)), values(sqrt(x.astype(f32)).astype(d)));
    }
  }
}

TEST(UnaryGradient, ReluIsOneMaskOfItsResult) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({-1.f, 0.f, 2.f}, c);
    x.attach_grad();
    Tensor y;
    {
      autograd::Record record;
      y = relu(x) * 3;
    }
    y.backward();
    EXPECT_THAT(values(x.grad()), ElementsAre(0, 0, 3));
  }
}

TEST(UnaryGradient, SecondOrder) {
  struct Case {
    Tensor (*op)(const Tensor&);
    std::function<double(double)> second;
  };
  const auto s = sigmoid_of;
  const Case cases[] = {
      {[](const Tensor& x) { return sigmoid(x); },
       [&](double x) { return s(x) * (1 - s(x)) * (1 - 2 * s(x)); }},
      {[](const Tensor& x) { return tanh(x); },
       [](double x) { return -2 * std::tanh(x) * (1 - std::tanh(x) * std::tanh(x)); }},
      {[](const Tensor& x) { return exp(x); }, [](double x) { return std::exp(x); }},
      {[](const Tensor& x) { return square(relu(x)); }, [](double x) { return x > 0 ? 2.0 : 0; }},
  };
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    for (const Case& one : cases) {
      const Tensor x = array({-0.7, 0.3, 1.2}, {c, f64});
      x.attach_grad();
      Tensor second;
      {
        autograd::Record record;
        const Tensor first = autograd::grad(one.op(x), {x}, {.create_graph = true})[0];
        second = autograd::grad(first, {x})[0];
      }
      const std::vector<double> got = values(second), from = values(x);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], one.second(from[i]), 1e-12);
    }
  }
}

}  // namespace
}  // namespace locus
