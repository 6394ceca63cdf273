// Functions of random numbers, for host and device code. They use only IEEE + - * / and square
// roots, each rounded separately, so every machine gives the same bits. Files that include this
// header are compiled without fused multiply-add.
#pragma once

#include <locus/ops/random/philox.h>

namespace locus::detail {

LOCUS_HD double square_root(double x) {
#ifdef __CUDA_ARCH__
  return __dsqrt_rn(x);
#else
  return __builtin_sqrt(x);
#endif
}
// The largest whole number up to x.
LOCUS_HD double whole(double x) {
#ifdef __CUDA_ARCH__
  return ::floor(x);
#else
  return __builtin_floor(x);
#endif
}

// ln x for normal x > 0, error below 1 ulp: x = 2^k (1 + f), s = f / (2 + f), a polynomial in s^2
// (coefficients of fdlibm's e_log.c).
LOCUS_HD double log_exact(double x) {
  uint64_t u = double_bits(x);
  int k = static_cast<int>(u >> 52) - 1023;
  u = (u & 0x000fffffffffffffu) | 0x3ff0000000000000u;
  if (u > 0x3ff6a09e667f3bccu) {  // above sqrt(2)
    u -= 0x0010000000000000u;
    ++k;
  }
  const double f = bits_double(u) - 1.0, s = f / (2.0 + f), z = s * s, w = z * z;
  const double even = w * (3.999999999940941908e-01 +
                           w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd = z * (6.666666666666735130e-01 +
                          w * (2.857142874366239149e-01 +
                               w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double half = 0.5 * f * f, r = even + odd, e = static_cast<double>(k);
  return e * 6.93147180369123816490e-01 -
         ((half - (s * (half + r) + e * 1.90821492927058770002e-10)) - f);
}

// sine and cosine of 2 pi u for u in [0, 1): reduction to [-pi/4, pi/4], then fdlibm's k_sin.c and
// k_cos.c.
LOCUS_HD void sincos_turn(double u, double& sine, double& cosine) {
  const int quarter = static_cast<int>(4.0 * u + 0.5);
  const double t = (u - 0.25 * quarter) * 6.283185307179586477, z = t * t;
  const double s =
      t + t * z *
              (-1.66666666666666324348e-01 +
               z * (8.33333333332248946124e-03 +
                    z * (-1.98412698298579493134e-04 +
                         z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 +
                                                                z * 1.58969099521155010221e-10)))));
  const double c =
      1.0 -
      (0.5 * z -
       z * z *
           (4.16666666666666019037e-02 +
            z * (-1.38888888888741095749e-03 +
                 z * (2.48015872894767294178e-05 +
                      z * (-2.75573143513906633035e-07 +
                           z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11))))));
  sine = quarter & 1 ? c : s;
  cosine = quarter & 1 ? s : c;
  if (quarter & 2) sine = -sine;
  if ((quarter + 1) & 2) cosine = -cosine;
}

// e^x for any x, error below 1 ulp: x = k ln 2 + r, a rational function of r (fdlibm's e_exp.c).
LOCUS_HD double exp_exact(double x) {
  if (x != x) return x;
  if (x > 709.782712893384) return bits_double(0x7ff0000000000000u);
  if (x < -745.2) return 0;
  const double k = whole(x * 1.44269504088896338700 + 0.5);
  const double high = x - k * 6.93147180369123816490e-01, low = k * 1.90821492927058770002e-10;
  const double r = high - low, t = r * r;
  const double c =
      r - t * (1.66666666666666019037e-01 +
               t * (-2.77777777770155933842e-03 +
                    t * (6.61375632143793436117e-05 +
                         t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08))));
  const double y = 1.0 - ((low - (r * c) / (2.0 - c)) - high);
  // In two steps: 2^k alone may not be a number.
  const int first = static_cast<int>(k) / 2, second = static_cast<int>(k) - first;
  return y * bits_double(static_cast<uint64_t>(first + 1023) << 52) *
         bits_double(static_cast<uint64_t>(second + 1023) << 52);
}
// ln(1 + x) for x > -1, error of a few ulp (Kahan).
LOCUS_HD double log1p_exact(double x) {
  const double u = 1.0 + x;
  return u == 1.0 ? x : log_exact(u) * (x / (u - 1.0));
}

// x ln(x / m) + m - x for x > 0, m > 0, exact also for x near m (Loader, "Fast and accurate
// computation of binomial probabilities", 2000).
LOCUS_HD double deviance(double x, double m) {
  const double apart = x - m;
  if (!((apart < 0 ? -apart : apart) < 0.1 * (x + m))) return x * log_exact(x / m) + m - x;
  const double v = apart / (x + m), w = v * v;
  double sum = apart * v, term = 2.0 * x * v;
  for (double odd = 3; odd < 100; odd += 2) {
    term *= w;
    const double next = sum + term / odd;
    if (next == sum) break;
    sum = next;
  }
  return sum;
}
// ln(k!) - (k + 1/2) ln k + k - ln(2 pi) / 2 for whole k > 0.
LOCUS_HD double stirling_error(double k) {
  if (k < 16) {
    double factorial = 1;
    for (double i = 2; i <= k; i += 1) factorial *= i;
    return log_exact(factorial) - (k + 0.5) * log_exact(k) + k - 0.918938533204672741780;
  }
  const double z = 1.0 / (k * k);
  return (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z / 1188)))) / k;
}

// Two independent standard normals from u1 in (0, 1] and u2 in [0, 1).
LOCUS_HD void box_muller(double u1, double u2, double* z) {
  double sine, cosine;
  sincos_turn(u2, sine, cosine);
  const double r = square_root(-2.0 * log_exact(u1));
  z[0] = r * cosine;
  z[1] = r * sine;
}

}  // namespace locus::detail
