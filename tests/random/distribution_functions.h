// Distribution functions, to test random numbers: by series and continued fractions over long
// double (Press et al., "Numerical Recipes", 6.2 and 6.4).
#pragma once

#include <cmath>

namespace locus::test {

using Long = long double;

// P(a, x): the chance that a gamma number of shape a is up to x.
inline Long gamma_cdf(Long a, Long x) {
  if (x <= 0) return 0;
  const Long factor = std::exp(a * std::log(x) - x - std::lgamma(a));
  if (x < a + 1) {
    Long term = 1 / a, sum = term;
    for (Long n = a + 1; term > sum * 1e-18L; ++n) sum += term *= x / n;
    return sum * factor;
  }
  Long b = x + 1 - a, c = 1e300L, d = 1 / b, h = d;
  for (int i = 1; i < 100000; ++i) {
    const Long an = -i * (i - a);
    b += 2;
    d = 1 / (an * d + b);
    c = b + an / c;
    h *= d * c;
    if (std::abs(d * c - 1) < 1e-18L) break;
  }
  return 1 - factor * h;
}

// I_x(a, b): the chance that a beta number is up to x.
inline Long beta_cdf(Long a, Long b, Long x) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - beta_cdf(b, a, 1 - x);
  Long c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m < 100000; ++m) {
    const auto step = [&](Long factor) {
      d = 1 / (1 + factor * d);
      c = 1 + factor / c;
      h *= d * c;
    };
    step(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    step(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)));
    if (std::abs(d * c - 1) < 1e-18L) break;
  }
  return h / a *
         std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) +
                  b * std::log1p(-x));
}

inline Long normal_cdf(Long z) { return std::erfc(-z / std::sqrt(2.L)) / 2; }

}  // namespace locus::test
