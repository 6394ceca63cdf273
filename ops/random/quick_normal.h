// Normal numbers by fused multiply-adds, in half the instructions of box_muller(), for GPUs. They
// differ from those of box_muller() by less than kQuickError of their size. If both ends of that
// interval round to the same f32, f16 or bf16, so does box_muller()'s number: rounding is
// monotonic. Otherwise the kernel computes box_muller(). So all machines give the same bits.
#pragma once

#include <locus/ops/random/functions.h>

namespace locus::detail {

inline constexpr double kQuickError = 0x1p-40;

LOCUS_HD double fused(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return __builtin_fma(a, b, c);
#endif
}
// 1 / x and 1 / sqrt(x) to at least 15 bits.
LOCUS_HD double rough_reciprocal(double x) {
#ifdef __CUDA_ARCH__
  double y;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  return y;
#else
  return static_cast<double>(static_cast<float>(1.0 / x)) * (1.0 + 0x1p-15);
#endif
}
LOCUS_HD double rough_inverse_root(double x) {
#ifdef __CUDA_ARCH__
  double y;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  return y;
#else
  return static_cast<double>(static_cast<float>(1.0 / square_root(x))) * (1.0 - 0x1p-15);
#endif
}
// Near-minimax polynomials, the highest power first: -2 ln((1 + s) / (1 - s)) / s in s^2, error
// 2^-45; sin(a) / a in a^2, 2^-47; cos(a) in a^2, 2^-44.
struct QuickPolynomials {
  double log[6], sine[6], cosine[6];
};
inline constexpr QuickPolynomials kQuickPolynomials{
    {-0.39216196202086678, -0.44348499493899147, -0.57144332299214583, -0.79999989783796190,
     -1.3333333335915874, -3.9999999999998944},
    {-2.4756558742587986e-8, 2.7555271892981843e-6, -1.9841263298388550e-4, 8.3333333238781459e-3,
     -0.16666666666616685, 0.99999999999999572},
    {-2.7173429802877498e-7, 2.4798928754794194e-5, -1.3888880393773883e-3, 4.1666666543911143e-2,
     -0.49999999999351114, 0.99999999999994441}};
#ifdef __CUDACC__
// In constant memory, which instructions read without moves.
static __constant__ QuickPolynomials quick_polynomials = kQuickPolynomials;
#endif
LOCUS_HD const QuickPolynomials& polynomials() {
#ifdef __CUDA_ARCH__
  return quick_polynomials;
#else
  return kQuickPolynomials;
#endif
}
LOCUS_HD double horner(const double (&c)[6], double x) {
  double sum = c[0];
  for (int i = 1; i < 6; ++i) sum = fused(sum, x, c[i]);
  return sum;
}

// box_muller() of (first + 1) / 2^32 and second / 2^32; NaN if the first is 1.
LOCUS_HD void quick_normals(uint32_t first, uint32_t second, double* z) {
  // The number of these bits is 2^52 + first.
  const double u = bits_double(0x4330000000000000u | first) - 0x1.ffffffffffffep51;
  const uint32_t high = static_cast<uint32_t>(double_bits(u) >> 32);
  const uint32_t below = high + (0x3ff00000u - 0x3fe6a09eu);  // its exponent: m in about [.7, 1.41)
  const int k = static_cast<int>(below >> 20) - 1023;
  const double m =
      bits_double(double_bits(u) - (static_cast<uint64_t>(static_cast<uint32_t>(k) << 20) << 32));
  const double f = m - 1.0, b = m + 1.0;
  double y = rough_reciprocal(b), e = fused(-b, y, 1.0);
  y = fused(y, fused(e, e, e), y);
  const double s = f * y, q = s * s;
  const double p = horner(polynomials().log, q);
  const double t = fused(s, p, static_cast<double>(k - 32) * -1.3862943611198906);  // -2 ln u1
  y = rough_inverse_root(t);
  const double root = t * y;
  e = fused(-root, y, 1.0);
  const double r = fused(root * e, fused(0.375, e, 0.5), root);

  const uint32_t quarter = (second + 0x20000000u) >> 30;
  const uint32_t rest = second - (quarter << 30);  // signed
  const double turn = bits_double(0x4330000000000000u | (rest ^ 0x80000000u)) - 0x1.000008p52;
  const double a = turn * 1.4629180792671596e-09, w = a * a;  // 2 pi / 2^32
  const double sine = a * horner(polynomials().sine, w);
  const double cosine = horner(polynomials().cosine, w);
  const double x = r * (quarter & 1 ? sine : cosine), v = r * (quarter & 1 ? cosine : sine);
  z[0] = (quarter + 1) & 2 ? -x : x;
  z[1] = quarter & 2 ? -v : v;
}

}  // namespace locus::detail
