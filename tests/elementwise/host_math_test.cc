// The functions that the host computes itself, against libm in the next larger type.
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>
#include "tests/support/contexts.h"

namespace locus {
namespace {

// The error in units of T's last place at the exact value; 0 for two NaN, zeros or infinities.
template <class T, class Exact>
double error_in_ulps(T got, Exact exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : HUGE_VAL;
  const T rounded = static_cast<T>(exact), size = std::abs(rounded);
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : HUGE_VAL;
  if (exact == 0) return got == 0 && std::signbit(got) == std::signbit(exact) ? 0 : HUGE_VAL;
  const T place = std::nextafter(size, std::numeric_limits<T>::infinity()) - size;
  return static_cast<double>(std::abs(static_cast<Exact>(got) - exact) / place);
}

// Of all sizes and signs, denormal, infinite and NaN: every `step`-th pattern of bits.
template <class T, class Bits>
std::vector<T> patterns(Bits step) {
  std::vector<T> x{T(0), -T(0), T(1), T(-1), T(8), T(27), T(1000)};
  for (Bits bits = 0; bits <= std::numeric_limits<Bits>::max() - step; bits += step) {
    T v;
    std::memcpy(&v, &bits, sizeof bits);
    x.push_back(std::isnan(v) ? std::numeric_limits<T>::quiet_NaN() : v);
  }
  return x;
}

template <class T, class Exact>
struct Function {
  const char* name;
  Tensor (*op)(const Tensor&, Caller);
  Exact (*exact)(Exact);
  double ulps;
};

template <class T, class Exact>
void expect_close(const Function<T, Exact>& f, const std::vector<T>& x) {
  SCOPED_TRACE(f.name);
  const Tensor from = array(std::span<const T>(x), {static_cast<int64_t>(x.size())}, {cpu(0)});
  const std::vector<T> got = f.op(from, Caller::here()).template to_vector<T>();
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_LE(error_in_ulps(got[i], f.exact(static_cast<Exact>(x[i]))), f.ulps)
        << got[i] << " at " << x[i];
}

// Angles above 2^28 are libm's.
TEST(HostMath, FunctionsOfF32AreRoundedOnce) {
  const Function<float, double> functions[] = {
      {"sin", sin, std::sin, .6},
      {"cos", cos, std::cos, .6},
      {"tan", tan, std::tan, .8},
      {"arcsin", arcsin, std::asin, .51},
      {"arccos", arccos, std::acos, .51},
      {"arctan", arctan, std::atan, .51},
      {"sinh", sinh, std::sinh, .51},
      {"cosh", cosh, std::cosh, .51},
      {"arcsinh", arcsinh, std::asinh, .51},
      {"arccosh", arccosh, std::acosh, .51},
      {"arctanh", arctanh, std::atanh, .51},
      {"cbrt", cbrt, std::cbrt, .51},
      {"log2", log2, std::log2, .51},
      {"log10", log10, std::log10, .51},
      {"exp", exp, std::exp, 2},
      {"log", log, std::log, 2},
      {"log1p", log1p, std::log1p, 2},
      {"expm1", expm1, std::expm1, 2},
      {"tanh", tanh, std::tanh, 2},
  };
  const std::vector<float> x = patterns<float, uint32_t>(40009);
  for (const auto& f : functions) expect_close(f, x);
}

TEST(HostMath, FunctionsOfF64AreWithinThreePlaces) {
  using Long = long double;
  const Function<double, Long> functions[] = {
      {"exp", exp, std::exp, 3},       {"log", log, std::log, 3},
      {"log1p", log1p, std::log1p, 3}, {"expm1", expm1, std::expm1, 3},
      {"sinh", sinh, std::sinh, 3.5},  {"cosh", cosh, std::cosh, 3.5},
      {"tanh", tanh, std::tanh, 3},    {"arcsinh", arcsinh, std::asinh, 3},
      {"cbrt", cbrt, std::cbrt, 1},
  };
  std::vector<double> x = patterns<double, uint64_t>(200000000000011);
  for (int i = -4000; i <= 4000; ++i) x.push_back(i * .0123);
  for (const auto& f : functions) expect_close(f, x);
}

TEST(HostMath, PowersOfF32AreRoundedOnce) {
  std::vector<float> x, y;
  for (float a : patterns<float, uint32_t>(20000003))
    for (float b : {0.f, -0.f, 1.f, 2.f, -2.f, .5f, 1.f / 3, -7.25f, 1e-20f, 60.f, 1e30f,
                    -HUGE_VALF, HUGE_VALF, std::nanf("")}) {
      x.push_back(a);
      y.push_back(b);
    }
  const Shape shape{static_cast<int64_t>(x.size())};
  const std::vector<float> got = power(array(std::span<const float>(x), shape, {cpu(0)}),
                                       array(std::span<const float>(y), shape, {cpu(0)}))
                                     .to_vector<float>();
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_LE(error_in_ulps(got[i], std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]))),
              .51)
        << got[i] << " is " << x[i] << " to the power " << y[i];
}

// A block whose elements all take the short way, and one of which one does not.
TEST(HostMath, AnElementsBitsDoNotDependOnItsNeighbours) {
  const Tensor x = linspace(-50, 50, 1001, {cpu(0)}), far = full({1}, 3e9, {cpu(0)});
  const Tensor both = concat({x, far}, {.axis = 0});
  for (const auto& op : {sin, cos, tan})
    EXPECT_EQ(op(both, Caller::here())(Slice(0, 1001)).to_vector<float>(),
              op(x, Caller::here()).to_vector<float>());
  const Tensor base = linspace(.1, 9, 1001, {cpu(0)}), last = full({1}, -1, {cpu(0)});
  EXPECT_EQ(power(concat({base, last}, {.axis = 0}), 1.7)(Slice(0, 1001)).to_vector<float>(),
            power(base, 1.7).to_vector<float>());
}

}  // namespace
}  // namespace locus
