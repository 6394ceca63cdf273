// References of special functions, by series of long doubles.
#include <locus/ops/elementwise/kernels.h>
#include <locus/ops/elementwise/special_kernel.h>
#include "tests/references/unary.h"

namespace locus::test {
namespace {

// By Newton's method.
Real erfinv(Real x) {
  const Real a = std::fabs(x);
  if (a == 1) return std::copysign(kInf, x);
  if (!(a < 1) || x == 0) return a > 1 ? kNaN : x;
  Real y = 0;
  for (int i = 0; i < 200; ++i) {
    const Real off = a < .5L ? std::erf(y) - a : (1 - a) - std::erfc(y);
    const Real slope = 2 / std::sqrt(kPi) * std::exp(-y * y);
    const Real step = std::fmax(std::fmin(off / slope, .25L), -.25L);
    y -= step;
    if (std::fabs(step) < 1e-20L * y) break;
  }
  return std::copysign(y, x);
}

// (-1)^(n + 1) n! times the sum of (x + k)^-(n + 1) for n > 0; its limit for n = 0. Terms up to 40,
// then the formula of Euler and Maclaurin.
Real polygamma(int n, Real x) {
  if (x == 0) return n % 2 == 1 ? kInf : std::copysign(kInf, -x);
  if (std::isnan(x) || x < -1e6L) return kNaN;
  if (x < 0 && x == std::floor(x)) return n % 2 == 1 ? kInf : kNaN;
  const Real sign = n % 2 == 1 ? 1 : -1;
  Real sum = 0;
  for (; x < 40; ++x) sum += sign * std::tgamma(n + 1.L) / std::pow(x, n + 1.L);
  if (n == 0) {
    sum += std::log(x) - .5L / x;
  } else {
    const Real first = std::tgamma(Real(n)) / std::pow(x, Real(n));
    sum += sign * (first + first * n / (2 * x));
  }
  const Real bernoulli[] = {1 / 6.L,  -1 / 30.L,     1 / 42.L, -1 / 30.L,
                            5 / 66.L, -691 / 2730.L, 7 / 6.L,  -3617 / 510.L};
  for (int k = 1; k <= 8; ++k)
    sum += sign * bernoulli[k - 1] * std::tgamma(2.L * k + n) / std::tgamma(2.L * k + 1) *
           std::pow(x, -2.L * k - n);
  return sum;
}

// sin(pi x); x is reduced exactly.
Real sinpi(Real x) {
  const Real r = std::remainder(x, 2.L);
  return std::sin(kPi * (std::fabs(r) > .5L ? std::copysign(1, r) - r : r));
}
Real cospi(Real x) { return sinpi(std::fabs(std::remainder(x, 2.L)) + .5L); }
Real sinc(Real x) { return x == 0 ? 1 : sinpi(x) / (kPi * x); }
Real sinc_slope(Real x, int order) {
  if (std::isinf(x)) return 0;
  if (std::fabs(x) < 1) {  // the series of sinc, term by term
    Real sum = 0;
    for (int k = (order + 1) / 2; k < 30; ++k)
      sum += std::pow(-kPi * kPi, Real(k)) / (2 * k + 1) / std::tgamma(2.L * k - order + 1) *
             std::pow(x, 2.L * k - order);
    return sum;
  }
  const Real first = (cospi(x) - sinc(x)) / x;
  return order == 1 ? first : (-kPi * sinpi(x) - 2 * first) / x;
}

const References kSpecial{{
    unary("erfc", [](Real x) { return std::erfc(x); }),
    slope_of_result(unary("erfinv", erfinv)),
    slope_of_result(unary("gamma", [](Real x) { return std::tgamma(x); })),
    cancels(unary("lgamma", [](Real x) { return std::lgamma(x); })),
    slope_of_result(cancels(unary("digamma", [](Real x) { return polygamma(0, x); }))),
    slope_of_result(unary<formula::Polygamma>(
        "polygamma", [](Real x, const auto& a) { return polygamma(static_cast<int>(a.n), x); })),
    within_exponents(40, unary("sinc", sinc)),  // beyond, only the envelope has slopes
    each_exact(reference<formula::WithNumber<formula::SincGrad>>(
        "sinc_grad",
        [](const Arrays& in, const auto& a) -> Arrays {
          const auto f = [&](Real dy, Real x) {
            return dy * sinc_slope(x, static_cast<int>(a.formula.order));
          };
          if (in.size() == 2) return {combined(in[0], in[1], f)};
          const Array number({}, in[0].dtype, held(real(a.scalar), in[0].dtype));
          return {a.scalar_first ? combined(number, in[0], f) : combined(in[0], number, f)};
        })),
}};

}  // namespace
}  // namespace locus::test
