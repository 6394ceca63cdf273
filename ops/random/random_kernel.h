// The formulas of the random family, for host and device code. They use only IEEE + - * / and
// square roots, each rounded separately, so every machine gives the same bits. Files that include
// this header are compiled without fused multiply-add.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/generator.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/kernel/cast.h>

namespace locus {

// uniform: a = low, b = high. normal: a = mean, b = standard deviation. bernoulli: a = probability.
// randint: low + [0, range).
struct RandomAttrs {
  double a = 0, b = 1;
  int64_t low = 0;
  uint64_t range = 1;
  Live<PhiloxKey> key = {};
  Meta meta = {};
};

struct PhiloxBlock {
  uint32_t word[4];
};

// Philox 4x32-10: constants and rounds of Salmon et al. 2011, section 4.3.
LOCUS_HD PhiloxBlock philox(PhiloxBlock c, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c.word[0], b = uint64_t{0xCD9E8D57u} * c.word[2];
    c = {{static_cast<uint32_t>(b >> 32) ^ c.word[1] ^ key0, static_cast<uint32_t>(b),
          static_cast<uint32_t>(a >> 32) ^ c.word[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}
LOCUS_HD PhiloxBlock philox(const PhiloxKey& key, uint64_t block) {
  const uint64_t at = key.offset + block;
  return philox({{static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), 0, 0}},
                static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32));
}

namespace detail {

// The high half of a * b.
LOCUS_HD uint64_t multiply_high(uint64_t a, uint64_t b) {
  const uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xffffffffu);
  return a1 * b1 + (middle >> 32) + (other >> 32);
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

LOCUS_HD uint64_t pair(const PhiloxBlock& b, int i) {
  return uint64_t{b.word[2 * i]} << 32 | b.word[2 * i + 1];
}

// Two independent standard normals from u1 in (0, 1] and u2 in [0, 1).
LOCUS_HD void box_muller(double u1, double u2, double* z) {
  double sine, cosine;
  sincos_turn(u2, sine, cosine);
#ifdef __CUDA_ARCH__
  const double r = __dsqrt_rn(-2.0 * log_exact(u1));
#else
  const double r = __builtin_sqrt(-2.0 * log_exact(u1));
#endif
  z[0] = r * cosine;
  z[1] = r * sine;
}

}  // namespace detail

// The lowest and the highest number of T in [low, high). If T has no number there, least > most. If
// low == high, both are low, rounded to T.
template <class T>
struct Interval {
  using A = Compute<T>;
  A least, most;

  LOCUS_HD bool any() const { return least <= most; }
  LOCUS_HD static Interval of(double low, double high) {
    const T first = convert<T>(low), last = convert<T>(high);
    if (low == high) return {convert<A>(first), convert<A>(first)};
    return {value(first, convert<double>(first) < low ? 1 : 0),
            value(last, convert<double>(last) < high ? 0 : -1)};
  }

 private:
  // The number `step` places above x. Bits rise with positive numbers and fall with negative ones.
  LOCUS_HD static A value(T x, int step) {
    if constexpr (k16Bit<T>) {
      x.bits = moved<uint16_t>(x.bits, step);
      return convert<A>(x);
    } else if constexpr (kSame<T, double>) {
      return bits_double(moved<uint64_t>(double_bits(x), step));
    } else {
      return bits_float(moved<uint32_t>(float_bits(x), step));
    }
  }
  template <class Bits>
  LOCUS_HD static Bits moved(Bits bits, int step) {
    if (step == 0) return bits;
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    if ((bits & ~kSign) == 0) return step > 0 ? Bits{1} : static_cast<Bits>(kSign | 1);
    const bool positive = (bits & kSign) == 0, up = step > 0;
    return static_cast<Bits>(positive == up ? bits + 1 : bits - 1);
  }
};

// Each distribution turns one block into kCount consecutive elements.
template <class T>
struct Uniform {
  static constexpr int kCount = kSame<T, double> ? 2 : 4;
  LOCUS_HD static void draw(const RandomAttrs& a, const PhiloxBlock& b, T* out) {
    const Interval<T> in = Interval<T>::of(a.a, a.b);
    const auto inside = [&](auto v) { return v < in.least ? in.least : v > in.most ? in.most : v; };
    if constexpr (kSame<T, double>) {
      for (int i = 0; i < 2; ++i) {
        const double u = static_cast<double>(detail::pair(b, i) >> 11) * 0x1p-53;
        out[i] = inside(a.a + u * (a.b - a.a));
      }
    } else {
      constexpr int kBits = kSame<T, Half> ? 11 : kSame<T, BFloat16> ? 8 : 24;
      constexpr float kUnit = 1.0f / static_cast<float>(1 << kBits);
      const float low = static_cast<float>(a.a), high = static_cast<float>(a.b);
      for (int i = 0; i < 4; ++i) {
        const float u = static_cast<float>(b.word[i] >> (32 - kBits)) * kUnit;
        out[i] = convert<T>(inside(convert<float>(convert<T>(low + u * (high - low)))));
      }
    }
  }
};

template <class T>
struct Normal {
  static constexpr int kCount = kSame<T, double> ? 2 : 4;
  LOCUS_HD static void draw(const RandomAttrs& a, const PhiloxBlock& b, T* out) {
    double z[4];
    if constexpr (kSame<T, double>) {
      const double u1 = static_cast<double>((detail::pair(b, 0) >> 11) + 1) * 0x1p-53;
      detail::box_muller(u1, static_cast<double>(detail::pair(b, 1) >> 11) * 0x1p-53, z);
    } else {
      for (int i = 0; i < 4; i += 2)
        detail::box_muller((static_cast<double>(b.word[i]) + 1.0) * 0x1p-32,
                           static_cast<double>(b.word[i + 1]) * 0x1p-32, z + i);
    }
    for (int i = 0; i < kCount; ++i) out[i] = convert<T>(a.a + a.b * z[i]);
  }
};

template <class T>
struct Randint {
  static constexpr int kCount = 2;
  LOCUS_HD static void draw(const RandomAttrs& a, const PhiloxBlock& b, T* out) {
    for (int i = 0; i < 2; ++i) {
      const uint64_t r = detail::multiply_high(detail::pair(b, i), a.range);
      out[i] = static_cast<T>(static_cast<int64_t>(static_cast<uint64_t>(a.low) + r));
    }
  }
};

template <class T>
struct Bernoulli {
  static constexpr int kCount = 4;
  LOCUS_HD static void draw(const RandomAttrs& a, const PhiloxBlock& b, T* out) {
    for (int i = 0; i < 4; ++i)
      out[i] = convert<T>(static_cast<float>(static_cast<double>(b.word[i]) * 0x1p-32 < a.a));
  }
};

template <class Backend>
constexpr KernelList random_kernels() {
  KernelList list;
  list.add_each("uniform", kFloatDTypes,
                [](auto d) { return Backend::template draw<CppTypeOf<d>, Uniform>; });
  list.add_each("normal", kFloatDTypes,
                [](auto d) { return Backend::template draw<CppTypeOf<d>, Normal>; });
  list.add_each("randint", DTypes<i32, i64, u8, i8>{},
                [](auto d) { return Backend::template draw<CppTypeOf<d>, Randint>; });
  list.add_each("bernoulli", kAllDTypes,
                [](auto d) { return Backend::template draw<CppTypeOf<d>, Bernoulli>; });
  return list;
}

}  // namespace locus
