// Gradients of elementwise ops over each dtype's range, against slopes in long double. If value and
// gradient fit, no intermediate step may overflow or vanish.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <locus/core/autograd.h>
#include <locus/core/op.h>
#include <locus/ops/activation.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using Real = long double;
constexpr Real kPi = 3.14159265358979323846L, kLn2 = 0.69314718055994530942L;

struct Limits {
  double greatest, least, unit;  // the least normal number; half the distance of 1 to the next
};
Limits limits(DType d) {
  if (d == f16) return {65504, 0x1p-14, 0x1p-11};
  if (d == bf16) return {0x1.fep127, 0x1p-126, 0x1p-8};
  if (d == f32) return {0x1.fffffep127, 0x1p-126, 0x1p-24};
  return {std::numeric_limits<double>::max(), 0x1p-1022, 0x1p-53};
}

// All finite 16-bit numbers; for other dtypes powers of 2 and irregular numbers between them.
std::vector<double> all_of(DType d) {
  std::vector<double> all{0};
  const auto add = [&](double v) {
    all.push_back(v);
    all.push_back(-v);
  };
  if (d == f16 || d == bf16) {
    const int bits = d == f16 ? 10 : 7, lowest = d == f16 ? -24 : -133;
    for (int e = lowest; e < (d == f16 ? 16 : 128); ++e)
      for (int k = 1 << bits; k < 2 << bits; ++k) {
        const double v = std::ldexp(k, e - bits);
        if (std::ldexp(v, -lowest) == std::floor(std::ldexp(v, -lowest))) add(v);
      }
    return all;
  }
  const int lowest = d == f32 ? -149 : -1074, highest = d == f32 ? 128 : 1024;
  for (int e = lowest; e < highest; ++e)
    for (double k : {1., 1.3717, 1.9999}) add(std::ldexp(k, e));
  for (int i = 1; i < 400; ++i) add(i * .25 + .01);
  for (int i = 1; i < 24; ++i) add(1 - std::ldexp(1, -i));
  add(limits(d).greatest);
  return all;
}

// The tolerance of a gradient against dy * slope: `units` roundings of the gradient, and of dy *
// `scale` for slopes that are sums or come from a rounded result.
struct Case {
  const char* name;
  std::function<Tensor(const Tensor&)> op;
  std::function<Real(Real)> value, slope;
  Real scale = 0, units = 8;
};

Real phi(Real x) { return std::exp(-x * x / 2) / std::sqrt(2 * kPi); }
Real cumulative(Real x) { return std::erfc(-x / std::sqrt(Real(2))) / 2; }
Real sig(Real x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
Real soft(Real x) { return std::fmax(x, Real(0)) + std::log1p(std::exp(-std::fabs(x))); }
Real mish_slope(Real x) {
  const Real t = std::tanh(soft(x));
  return t + x * sig(x) * (1 - t * t);
}

std::vector<Case> cases() {
  const auto of = [](Tensor (*op)(const Tensor&, Caller)) {
    return [op](const Tensor& x) { return op(x, Caller::here()); };
  };
  return {
      {"square", of(square), [](Real x) { return x * x; }, [](Real x) { return 2 * x; }},
      {"sqrt", of(sqrt), [](Real x) { return std::sqrt(x); },
       [](Real x) { return 1 / (2 * std::sqrt(x)); }},
      {"rsqrt", of(rsqrt), [](Real x) { return 1 / std::sqrt(x); },
       [](Real x) { return -1 / (2 * x * std::sqrt(x)); }},
      {"cbrt", of(cbrt), [](Real x) { return std::cbrt(x); },
       [](Real x) { return 1 / (3 * std::cbrt(x) * std::cbrt(x)); }},
      {"reciprocal", of(reciprocal), [](Real x) { return 1 / x; },
       [](Real x) { return -1 / (x * x); }},
      {"exp", of(exp), [](Real x) { return std::exp(x); }, [](Real x) { return std::exp(x); }},
      {"expm1", of(expm1), [](Real x) { return std::expm1(x); },
       [](Real x) { return std::exp(x); }},
      {"log", of(log), [](Real x) { return std::log(x); }, [](Real x) { return 1 / x; }},
      {"log2", of(log2), [](Real x) { return std::log2(x); },
       [](Real x) { return 1 / (x * kLn2); }},
      {"log10", of(log10), [](Real x) { return std::log10(x); },
       [](Real x) { return 1 / (x * std::log(Real(10))); }},
      {"log1p", of(log1p), [](Real x) { return std::log1p(x); },
       [](Real x) { return 1 / (1 + x); }},
      {"erf", of(erf), [](Real x) { return std::erf(x); },
       [](Real x) { return 2 / std::sqrt(kPi) * std::exp(-x * x); }, 0, 1500},
      {"softsign", of(softsign), [](Real x) { return x / (1 + std::fabs(x)); },
       [](Real x) { return 1 / ((1 + std::fabs(x)) * (1 + std::fabs(x))); }},
      {"softplus", of(softplus), soft, sig},
      {"gelu", of(gelu), [](Real x) { return x * cumulative(x); },
       [](Real x) { return cumulative(x) + x * phi(x); }, 1},
      {"silu", of(silu), [](Real x) { return x * sig(x); },
       [](Real x) { return sig(x) + x * sig(x) * sig(-x); }, .1L},
      {"mish", of(mish), [](Real x) { return x * std::tanh(soft(x)); }, mish_slope, 4},
      {"sigmoid", of(sigmoid), sig, [](Real x) { return sig(x) * sig(-x); }, 1},
      {"tanh", of(tanh), [](Real x) { return std::tanh(x); },
       [](Real x) { return 1 / (std::cosh(x) * std::cosh(x)); }, 1},
      {"elu", [](const Tensor& x) { return elu(x); },
       [](Real x) { return x > 0 ? x : std::expm1(x); },
       [](Real x) { return x > 0 ? 1 : std::exp(x); }},
      {"selu", of(selu), [](Real x) { return x; },
       [](Real x) {
         return 1.0507009873554805L * (x > 0 ? 1 : 1.6732632423543772L * std::exp(x));
       }},
      {"hard_swish", of(hard_swish), [](Real x) { return x; },
       [](Real x) { return x <= -3  ? 0
                           : x >= 3 ? 1
                                    : x / 3 + .5L; }, 1},
      {"smooth_l1", [](const Tensor& x) { return smooth_l1(x); },
       [](Real x) { return std::fabs(x); }, [](Real x) { return std::fmin(std::fmax(x, -1), 1); }},
      {"softcap", [](const Tensor& x) { return softcap(x, 30); },
       [](Real x) { return 30 * std::tanh(x / 30); },
       [](Real x) { return 1 / (std::cosh(x / 30) * std::cosh(x / 30)); }, 1},
      {"tan", of(tan), [](Real x) { return std::fabs(x) < 1e4L ? std::tan(x) : NAN; },
       [](Real x) { return 1 + std::tan(x) * std::tan(x); }},
      {"arcsin", of(arcsin), [](Real x) { return std::asin(x); },
       [](Real x) { return 1 / std::sqrt((1 - x) * (1 + x)); }},
      {"arccos", of(arccos), [](Real x) { return std::acos(x); },
       [](Real x) { return -1 / std::sqrt((1 - x) * (1 + x)); }},
      {"arctan", of(arctan), [](Real x) { return std::atan(x); },
       [](Real x) { return 1 / (1 + x * x); }},
      {"sinh", of(sinh), [](Real x) { return std::sinh(x); }, [](Real x) { return std::cosh(x); }},
      {"cosh", of(cosh), [](Real x) { return std::cosh(x); }, [](Real x) { return std::sinh(x); }},
      {"arcsinh", of(arcsinh), [](Real x) { return std::asinh(x); },
       [](Real x) { return 1 / std::hypot(x, Real(1)); }},
      {"arccosh", of(arccosh), [](Real x) { return std::acosh(x); },
       [](Real x) { return 1 / (std::sqrt(x - 1) * std::sqrt(x + 1)); }},
      {"arctanh", of(arctanh), [](Real x) { return std::atanh(x); },
       [](Real x) { return 1 / ((1 - x) * (1 + x)); }},
  };
}

// Checks gradients `got` of head gradients `dy` if `value` and dy * `slope` fit. `rounded`: a slope
// below the least normal number may be rounded to its dtype.
void expect_slopes(DType d, const std::vector<double>& got, double dy, const auto& value,
                   const auto& slope, const auto& text, Real scale, Real units, bool rounded) {
  const Limits l = limits(d);
  const Real unit = units * l.unit;
  for (size_t i = 0; i < got.size(); ++i) {
    const Real v = value(i), wanted = dy * slope(i);
    if (!std::isfinite(v) || !std::isfinite(wanted) || std::fabs(v) > l.greatest) continue;
    if (std::fabs(wanted) * (1 + unit) > l.greatest) continue;
    const Real near = unit * (std::fabs(wanted) + dy * scale + l.least) +
                      (rounded ? dy * l.least * l.unit * 16 : 0);
    ASSERT_LE(std::fabs(got[i] - wanted), near)
        << text(i) << ": gradient " << got[i] << ", right " << static_cast<double>(wanted);
  }
}

std::vector<double> heads(DType d) {
  return d == f16 ? std::vector<double>{1, 1024, 32768} : std::vector<double>{1, 1024, 65536};
}

class GradientRange : public testing::TestWithParam<DType> {};

TEST_P(GradientRange, OfUnaryOpsIsThatOfTheirDtype) {
  const DType d = GetParam();
  for (Context c : kernel_contexts()) {
    const Tensor x = from_values(all_of(d), {static_cast<int64_t>(all_of(d).size())}, c, d);
    const std::vector<double> at = values(x);
    x.attach_grad();
    for (const Case& one : cases()) {
      for (double dy : heads(d)) {
        SCOPED_TRACE(to_string(c) + " " + name(d) + " " + one.name + ", head " +
                     std::to_string(dy));
        Tensor y;
        {
          const autograd::Record record;
          y = one.op(x);
        }
        y.backward({.head_gradient = full(y.shape(), dy, {c, d})});
        expect_slopes(
            d, values(x.grad()), dy, [&](size_t i) { return one.value(at[i]); },
            [&](size_t i) { return one.slope(at[i]); }, [&](size_t i) { return at[i]; }, one.scale,
            one.units, true);
        if (HasFatalFailure()) break;
      }
    }
  }
}

struct Pair {
  const char* name;
  Tensor (*op)(const Operand&, const Operand&);
  std::function<Real(Real, Real)> value, dx, dy;
  Real units = 16;
  bool reads_result = false;  // dy is as inaccurate as a result that vanishes
};

TEST_P(GradientRange, OfBinaryOpsIsThatOfTheirDtype) {
  const DType d = GetParam();
  const std::vector<Pair> pairs = {
      {"multiply", multiply, [](Real x, Real y) { return x * y; }, [](Real, Real y) { return y; },
       [](Real x, Real) { return x; }},
      {"divide", divide, [](Real x, Real y) { return x / y; }, [](Real, Real y) { return 1 / y; },
       [](Real x, Real y) { return -x / y / y; }},
      {"hypot", hypot, [](Real x, Real y) { return std::hypot(x, y); },
       [](Real x, Real y) { return x == 0 ? 0 : x / std::hypot(x, y); },
       [](Real x, Real y) { return y == 0 ? 0 : y / std::hypot(x, y); }},
      {"xlogy", xlogy, [](Real x, Real y) { return y > 0 ? x * std::log(y) : NAN; },
       [](Real, Real y) { return std::log(y); }, [](Real x, Real y) { return x / y; }},
      {"power", power, [](Real x, Real y) { return x > 0 ? std::pow(x, y) : NAN; },
       [](Real x, Real y) { return y * std::pow(x, y - 1); },
       [](Real x, Real y) { return std::pow(x, y) * std::log(x); }, 1000, true},
  };
  // Pairs of powers of 2 of both signs: every power for f16, every 40th for f64, else every 4th.
  std::vector<double> line{0, 1, -1, 2, .5, 1.37, -2.5};
  const int step = d == f64 ? 40 : d == f16 ? 1 : 4;
  for (int e = int(std::log2(limits(d).least)); e < int(std::log2(limits(d).greatest)); e += step)
    for (double k : {1.0625, -1.4375}) line.push_back(std::ldexp(k, e));
  std::vector<double> first, second;
  for (double x : line)
    for (double y : line) first.push_back(x), second.push_back(y);
  for (Context c : kernel_contexts()) {
    const Shape shape{static_cast<int64_t>(first.size())};
    const Tensor x = from_values(first, shape, c, d), y = from_values(second, shape, c, d);
    const std::vector<double> a = values(x), b = values(y);
    x.attach_grad();
    y.attach_grad();
    for (const Pair& one : pairs) {
      for (double head : heads(d)) {
        SCOPED_TRACE(to_string(c) + " " + name(d) + " " + one.name + ", head " +
                     std::to_string(head));
        Tensor z;
        {
          const autograd::Record record;
          z = one.op(x, y);
        }
        z.backward({.head_gradient = full(z.shape(), head, {c, d})});
        const auto value = [&](size_t i) { return one.value(a[i], b[i]); };
        const auto read = [&](size_t i) {
          const Real v = value(i);
          return one.reads_result && v != 0 && std::fabs(v) < limits(d).least ? Real(NAN) : v;
        };
        const auto text = [&](size_t i) {
          return std::to_string(a[i]) + ", " + std::to_string(b[i]);
        };
        expect_slopes(
            d, values(x.grad()), head, value, [&](size_t i) { return one.dx(a[i], b[i]); }, text, 0,
            one.units, false);
        expect_slopes(
            d, values(y.grad()), head, read, [&](size_t i) { return one.dy(a[i], b[i]); }, text, 0,
            one.units, false);
        if (HasFatalFailure()) break;
      }
    }
  }
}

TEST_P(GradientRange, OfXlogyByASubnormalNumberIsThatOfItsDtype) {
  const DType d = GetParam();
  const double y = limits(d).least / 8, head = 0x1p-10;
  for (Context c : kernel_contexts()) {
    const Tensor x = from_values({1, 0, -.75}, {3}, c, d), below = from_values({y}, {1}, c, d);
    const Tensor wide = broadcast_to(below, {3}).copyto(c);
    wide.attach_grad();
    Tensor z;
    {
      const autograd::Record record;
      z = xlogy(x, wide);
    }
    z.backward({.head_gradient = full({3}, head, {c, d})});
    EXPECT_EQ(values(wide.grad()), (std::vector<double>{head / y, 0, -.75 * head / y}));
  }
}

// The terms of sums over broadcast axes may be too large for f16, although the sums fit.
TEST_P(GradientRange, OfBroadcastOperandsIsThatOfSumsOfF32) {
  const DType d = GetParam();
  if (d != f16 && d != bf16) GTEST_SKIP() << "terms have the dtype of the gradient";
  const std::vector<Pair> pairs = {
      {"multiply", multiply, {}, {}, [](Real x, Real) { return x; }},
      {"divide", divide, {}, {}, [](Real x, Real y) { return -x / y / y; }},
      {"hypot", hypot, {}, {}, [](Real x, Real y) { return y / std::hypot(x, y); }},
      {"xlogy", xlogy, {}, {}, [](Real x, Real y) { return x / y; }},
      {"mod", mod, {}, {}, [](Real x, Real y) { return -std::floor(x / y); }},
      {"prelu",
       [](const Operand& x, const Operand& y) { return prelu(x.tensor(), y.tensor()); },
       {},
       {},
       [](Real x, Real) { return std::fmin(x, Real(0)); }},
      {"tanh_grad",
       [](const Operand& x, const Operand& y) {
         static const OpRef<BinaryAttrs> op("tanh_grad");
         return invoke(op, {x.tensor(), y.tensor()}, BinaryAttrs());
       },
       {},
       {},
       [](Real x, Real y) { return -2 * x * y; }},
  };
  const Shape shape{2, 3, 37};
  const auto n = static_cast<size_t>(shape.size());
  std::vector<double> first, heads;
  for (size_t i = 0; i < n; ++i) {  // pairs of large terms, some of which do not cancel
    const double size = 30 + .75 * static_cast<double>((i / 2) * (i / 2) % 33);
    first.push_back(-size);
    heads.push_back((i % 12 ? 4096 : 4128) * (i % 2 ? -1 : 1));
  }
  for (Context c : kernel_contexts()) {
    const Tensor x = from_values(first, shape, c, d), head = from_values(heads, shape, c, d);
    const Tensor y = from_values({.75}, {1}, c, d);
    const std::vector<double> a = values(x), h = values(head);
    y.attach_grad();
    for (const Pair& one : pairs) {
      SCOPED_TRACE(to_string(c) + " " + one.name);
      Tensor z;
      {
        const autograd::Record record;
        z = one.op(x, y);
      }
      z.backward({.head_gradient = head});
      Real sum = 0, size = 0;
      for (size_t i = 0; i < n; ++i) {
        const Real term = h[i] * one.dy(a[i], .75);
        sum += term;
        size += std::fabs(term);
      }
      const double got = values(y.grad())[0];
      EXPECT_EQ(y.grad().dtype(), d);
      ASSERT_LT(std::fabs(sum), limits(d).greatest);
      EXPECT_NEAR(got, sum, 1.01L * limits(d).unit * std::fabs(sum) + 0x1p-20L * size);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Floats, GradientRange, testing::Values(f16, bf16, f32, f64),
                         [](const auto& p) { return std::string(name(p.param)); });

}  // namespace
}  // namespace locus::test
