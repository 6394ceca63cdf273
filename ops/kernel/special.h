// Special functions, written once for the host and for device code. Free of the standard library.
//
// On the host, arctan2, sinc and f32 erfinv are branch-free, and compilers vectorize them. Errors
// in units of the last place: arctan2, sinc and erfc 3; erfinv 5; gamma 6; digamma and polygamma 7
// at positive x, up to n = 5. f32 gamma, digamma and polygamma are computed in f64 and rounded.
// lgamma, erfc and, on a GPU, arctan2 are libm's and CUDA's. Beside zeros at negative x, errors of
// digamma and polygamma (and of CUDA's lgamma) are those of their terms.
#pragma once

#include <locus/ops/kernel/math.h>

namespace locus::m {

// Coefficients of the highest power first.
template <class V, class... D>
LOCUS_HD V polynomial(V x, double first, D... rest) {
  V sum = c(x, first);
  ((sum = fma(sum, x, c(x, rest))), ...);
  return sum;
}

#ifdef __CUDA_ARCH__
LOCUS_HD float erfc(float x) { return ::erfcf(x); }
LOCUS_HD double erfc(double x) { return ::erfc(x); }
LOCUS_HD float lgamma(float x) { return ::lgammaf(x); }
LOCUS_HD double lgamma(double x) { return ::lgamma(x); }
LOCUS_HD float arctan2(float y, float x) { return ::atan2f(y, x); }
LOCUS_HD double arctan2(double y, double x) { return ::atan2(y, x); }
#else
LOCUS_HD float erfc(float x) { return __builtin_erfcf(x); }
LOCUS_HD double erfc(double x) { return __builtin_erfc(x); }
LOCUS_HD float lgamma(float x) { return __builtin_lgammaf(x); }
LOCUS_HD double lgamma(double x) { return __builtin_lgamma(x); }

// The angle is a multiple of pi / 4, the turn, and arctan(t) for |t| up to tan(pi / 8).
template <class V>
LOCUS_HD V arctan2(V y, V x) {
  const V one = c(x, 1), a = abs(x), b = abs(y), end = infinity(x);
  V most = a > b ? a : b, least = a > b ? b : a;
  const bool both = least == end, steep = b > a, back = copysign(one, x) < 0;
  const V scale = most > c(x, 1e30) ? c(x, 0x1p-3) : one;  // the sum must not overflow
  most = both ? one : most * scale;
  least = both ? one : least * scale;
  const bool eighth = least > c(x, .41421356237309503) * most;
  const V over = eighth ? least - most : least, under = eighth ? least + most : most;
  const V t = least == 0 ? least : over / under, z = t * t;
  V p;
  if constexpr (kSame<V, float>)
    p = polynomial(z, -0.064519160067180294, 0.10743727809308831, -0.14263955257374638,
                   0.19999540473818131, -0.33333331761125749);
  else
    p = polynomial(z, -0.01391815432953895, 0.030635630040898239, -0.041044330691284942,
                   0.047193942390590454, -0.052580414304424972, 0.05881925240412634,
                   -0.066666420191776911, 0.076923067359606272, -0.090909090670088638,
                   0.11111111110754711, -0.14285714285711518, 0.19999999999999992,
                   -0.33333333333333333);
  // The turn is pi / 4 turns times 0 to 4, and arctan(t) is added or subtracted.
  const V part = eighth ? one : c(x, 0), side = steep ? c(x, 2) - part : part;
  const V turns = back ? c(x, 4) - side : side;
  const V angle = steep != back ? -t : t;
  const V high = c(x, kSame<V, float> ? 0.785398185253143310546875 : 0.78539816339744828);
  const V low = c(x, kSame<V, float> ? -2.18556941e-8 : 3.0616169978683830e-17);
  const V sum = turns * high + (turns * low + fma(angle * z, p, angle));
  const bool none = (x != x) | (y != y);
  return none ? x + y : copysign(sum, y);
}
#endif

// sin(pi r) / (pi r) from r^2, for |r| up to 1/2.
template <class V>
LOCUS_HD V sinc_near_0(V z) {
  V p;
  if constexpr (kSame<V, float>)
    p = polynomial(z, -0.0022550628168998607, 0.026128058858638821, -0.19075006208997916,
                   0.81174237028815292, -1.6449340665733155);
  else
    p = polynomial(z, 1.675177856666065e-10, -7.3025231137070624e-9, 2.5312109791088428e-7,
                   -6.9758735475891081e-6, 0.00014842879301853251, -0.0023460810354549844,
                   0.026147847817654768, -0.19075182412208421, 0.81174242528335364,
                   -1.6449340668482264);
  return fma(p, z, c(z, 1));
}
// v, or -v if n is odd.
template <class V>
LOCUS_HD V alternating(V v, V n) {
  const V half = n * c(n, .5);
  return half == rint(half) ? v : -v;
}
// sin(pi x) and cos(pi x).
template <class V>
LOCUS_HD V sinpi(V x) {
  const V n = rint(x), r = x - n;
  return alternating(r * c(x, 3.1415926535897932) * sinc_near_0(r * r), n);
}
template <class V>
LOCUS_HD V cospi(V x) {
  const V n = rint(x), r = c(x, .5) - abs(x - n);
  return alternating(r * c(x, 3.1415926535897932) * sinc_near_0(r * r), n);
}
// sin(pi x) / (pi x). 0 at integers other than 0, NaN at infinities.
template <class V>
LOCUS_HD V sinc(V x) {
  const V n = rint(x), r = x - n;
  return alternating(sinc_near_0(r * r) * (x == 0 ? c(x, 1) : r / x), n);
}
// The derivative of sinc of order `order`; 0 at infinities. Near 0 it is a series, elsewhere it
// follows from lower orders.
template <class V>
LOCUS_HD V sinc_derivative(V x, int order) {
  const V pi = c(x, 3.1415926535897932), t = x * pi;
  if (abs(x) == infinity(x)) return c(x, 0);
  if (abs(t) < static_cast<V>(order + 1)) {
    const int odd = order & 1;
    V term = odd ? t : c(x, 1), sum = c(x, 0);
    if ((order + odd) & 2) term = -term;
    for (int m = odd; m <= 12 || abs(term) > c(x, 1e-20); m += 2) {
      sum += term / static_cast<V>(m + order + 1);
      term *= -t * t / static_cast<V>((m + 1) * (m + 2));
    }
    for (int i = 0; i < order; ++i) sum *= pi;
    return sum;
  }
  const V sine = sinpi(x), cosine = cospi(x), waves[] = {sine, cosine, -sine, -cosine};
  V slope = sinc(x), power = c(x, 1);
  for (int i = 1; i <= order; ++i, power *= pi)
    slope = (power * waves[i & 3] - static_cast<V>(i) * slope) / x;
  return slope;
}

// In terms of w = -log(1 - x^2), after Giles, "Approximating the erfinv function", 2012.
LOCUS_HD float erfinv(float x) {
  const float a = abs(x), w = -log((1.0f - a) * (1.0f + a)), s = sqrt(w) - 3.0f;
  const float middle = polynomial(
      w - 2.5f, -8.9319259702442215e-9, 2.3335967195708106e-8, 4.6813134805534122e-7,
      -3.4639852676333716e-6, -4.9724196894547512e-6, 0.00021834938623976643,
      -0.0012527263917732291, -0.0041773928752031487, 0.24664027905463663, 1.5014093604503288);
  const float end =
      polynomial(s, -0.00012933680443335688, 4.4285985721436482e-5, 0.0012602803866985318,
                 -0.0036138097206789874, 0.005776520538893599, -0.0076400520449146029,
                 0.0094335998791791757, 1.0016753470320993, 2.832977044501243);
  const float y = (w < 5.0f ? middle : end) * x;
  return a == 1.0f ? copysign(infinity(x), x) : y;
}
LOCUS_HD double erfinv(double x) {
  const double a = abs(x), w = -log((1.0 - a) * (1.0 + a));
  if (a == 1.0) return copysign(infinity(x), x);
  if (w < 6.25)
    return x * polynomial(w - 3.125, -2.3623696985661074e-22, -1.6787330615256772e-19,
                          1.1027771591500033e-18, 1.1125794759379465e-17, -1.290702354613073e-16,
                          2.166994626283574e-17, 6.5819553059292389e-15, -4.0554139746886005e-14,
                          -8.1065944564384951e-14, 2.6335724924608484e-12, -1.2977505202014967e-11,
                          -5.4154417754696635e-11, 1.0512202440121784e-9, -4.1126331042976139e-9,
                          -2.9070386660191429e-8, 4.2347877672780653e-7, -1.3654691796592068e-6,
                          -1.3882523361276876e-5, 0.00018673420802124272, -0.00074070253416694011,
                          -0.0060336708714270113, 0.24015818242558971, 1.6536545626831027);
  const double s = sqrt(w);
  if (s < 4.0)
    return x * polynomial(s - 3.25, -3.8310399460724114e-10, 9.0719505710299225e-8,
                          -2.6860975725571461e-7, 1.8323999881328578e-8, 1.4958263152984917e-6,
                          -4.0139463981902919e-6, 2.9273722115986926e-6, 1.2475343474376931e-5,
                          -4.731952918337189e-5, 6.8284840522929234e-5, 2.4031363245440548e-5,
                          -0.0003550375186306976, 0.00095328935211181778, -0.0016882755561681803,
                          0.0024914420976198812, -0.0037512085075638538, 0.0053709145535581983,
                          1.0052589676941592, 3.0838856104922207);
  return x * polynomial(s - 5.0, -1.4432044831115907e-11, -2.5480300189796529e-10,
                        1.4574583226269282e-9, -3.7920859532853499e-9, 7.6964230073465526e-9,
                        -1.4956453335334019e-8, 2.9080387752327172e-8, -6.7714449097127703e-8,
                        2.2903613945376437e-7, -9.9298184261867069e-7, 4.5260547181843416e-6,
                        -1.9681778266924494e-5, 7.5995278002974949e-5, -0.00021503011928784598,
                        -0.00013871931838197519, 1.0103004648645341, 4.8499064014085844);
}

// Stirling's series from 16 on. Below, a rational function of [2, 3) (Cephes) and products.
LOCUS_HD double gamma(double x) {
  const double a = abs(x);
  if (x == 0) return copysign(infinity(x), x);
  if (!(a < infinity(x))) return x > 0 ? x : nan(x);
  if (x < 0 && x == floor(x)) return nan(x);
  if (a < 16) {
    double v = x, up = 1, down = 1;
    while (v >= 3) up *= v -= 1;
    for (; v < 2; v += 1) down *= v;
    v -= 2;
    const double p = polynomial(v, 1.60119522476751861407e-4, 1.19135147006586384913e-3,
                                1.04213797561761569935e-2, 4.76367800457137231464e-2,
                                2.07448227648435975150e-1, 4.94214826801497100753e-1, 1.0);
    const double q =
        polynomial(v, -2.31581873324120129819e-5, 5.39605580493303397842e-4,
                   -4.45641913851797240494e-3, 1.18139785222060435552e-2, 3.58236398605498653373e-2,
                   -2.34591795718243348568e-1, 7.14304917030273074085e-2, 1.0);
    return up * p / q / down;
  }
  const double sine = a * sinpi(a);  // the reflection of a negative x
  if (x > 172) return infinity(x);
  if (x < -190) return copysign(0.0, -sine);
  const double w = 1 / a;
  const double series =
      fma(w,
          polynomial(w, 0.00076959632430072452, -3.9759196747344273e-5, -0.00059305546013256282,
                     6.9764281514478721e-5, 0.00078403838228331155, -0.0002294720828343789,
                     -0.0026813271605626022, 0.0034722222222223899, 0.083333333333333333),
          1.0);
  // The square root of the power stays in range.
  const double root = pow(a, 0.5 * a - 0.25), rest = root * exp(-a) * (2.5066282746310005 * series);
  return x > 0 ? root * rest : -3.1415926535897932 / sine / rest / root;
}

// From 10 on an asymptotic series; on [1, 2] a rational function with the root as a factor (Boost).
LOCUS_HD double digamma(double x) {
  if (x == 0) return copysign(infinity(x), -x);
  double sum = 0;
  if (x < 0) {
    const double n = rint(x), r = x - n;
    if (!(r != 0)) return nan(x);
    sum = -3.1415926535897932 * cospi(r) / sinpi(r);
    x = 1 - x;
  }
  if (x >= 10) {
    const double w = 1 / x, z = w * w;
    const double p =
        polynomial(z, -0.44325980392156862745, 0.083333333333333333333, -0.021092796092796092796,
                   0.0075757575757575757576, -0.0041666666666666666667, 0.003968253968253968254,
                   -0.0083333333333333333333, 0.083333333333333333333);
    return sum + (log(x) - (0.5 * w + (x == infinity(x) ? 0.0 : z * p)));
  }
  for (; x < 1; x += 1) sum -= 1 / x;
  while (x > 2) sum += 1 / (x -= 1);
  const double v = x - 1;
  const double g = x - 1569415565.0 / 1073741824.0 - 381566830.0 / 1073741824.0 / 1073741824.0 -
                   0.9016312093258695918615e-19;
  const double p =
      polynomial(v, -0.0020713321167745952, -0.045251321448739056, -0.28919126444774784,
                 -0.65031853770896507, -0.32555031186804491, 0.25479851061131551);
  const double q =
      polynomial(v, -0.55789841321675513e-6, 0.0021284987017821144, 0.054151797245674225,
                 0.43593529692665969, 1.4606242909763515, 2.0767117023730469, 1.0);
  return sum + fma(g, 0.99558162689208984, g * (p / q));
}

// n! times the sum of (x + k)^-(n + 1) over k = 0, 1, ... for x > 0, by Euler and Maclaurin.
LOCUS_HD double zeta_of(int n, double x) {
  double sum = 0;
  for (const double end = n + 10; x < end; x += 1) {
    double term = 1 / x;
    for (int j = 1; j <= n; ++j) term *= j / x;
    sum += term;
  }
  const double w = 1 / x, z = w * w;
  double first = w;  // (n - 1)! / x^n
  for (int j = 1; j < n; ++j) first *= j * w;
  constexpr double kBernoulli[] = {1.0 / 6,       -1.0 / 30,      1.0 / 42, -1.0 / 30,
                                   5.0 / 66,      -691.0 / 2730,  7.0 / 6,  -3617.0 / 510,
                                   43867.0 / 798, -174611.0 / 330};
  double part = 1, tail = 0;
  for (int k = 0; k < 10; ++k) {
    part *= (2.0 * k + n) * (2.0 * k + n + 1) / ((2.0 * k + 1) * (2.0 * k + 2)) * z;
    tail += kBernoulli[k] * part;
  }
  return sum + first * (1 + (0.5 * n * w + tail));
}
// The derivative of digamma of order n. At negative integers infinite if n is odd, else NaN.
LOCUS_HD double polygamma(int n, double x) {
  if (n == 0) return digamma(x);
  if (x != x) return x;
  const bool odd = (n & 1) != 0;
  if (x > 0) return odd ? zeta_of(n, x) : -zeta_of(n, x);
  if (x == 0) return odd ? infinity(x) : copysign(infinity(x), -x);
  const double low = floor(x);
  if (x == low) return odd && x != -infinity(x) ? infinity(x) : nan(x);
  const double right = zeta_of(n, x - low), left = zeta_of(n, low + 1 - x);
  const double beyond = zeta_of(n, 1 - x);
  return odd ? right + (left - beyond) : (left - beyond) - right;
}

LOCUS_HD float gamma(float x) { return static_cast<float>(gamma(static_cast<double>(x))); }
LOCUS_HD float digamma(float x) { return static_cast<float>(digamma(static_cast<double>(x))); }
LOCUS_HD float polygamma(int n, float x) {
  return static_cast<float>(polygamma(n, static_cast<double>(x)));
}

// log(exp(x) + exp(y)).
template <class V>
LOCUS_HD V logaddexp(V x, V y) {
  const V apart = x == y ? c(x, 0) : -abs(x - y);  // also two infinities
  return max(x, y) + log1p(exp(apart));
}

}  // namespace locus::m
