// Distributions that turn one Philox block into kCount consecutive elements, for host and device
// code. A distribution is built once a thread, from the attributes.
#pragma once

#include <locus/core/kernel.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/random/quick_normal.h>

namespace locus {

// uniform: a = low, b = high. normal, laplace: a = mean, b = scale. exponential: a = scale, unless
// there is an input. bernoulli: a = probability. randint: low + [0, range).
struct RandomAttrs {
  double a = 0, b = 1;
  int64_t low = 0;
  uint64_t range = 1;
  Live<PhiloxKey> key = {};
  Meta meta = {};
};

// For errors: the op, its parameters, and the numbers that they may be.
struct ParameterText {
  const char* op;
  const char* parameter[2];
  const char* expected;
};

// The lowest and the highest number of T in [low, high). If T has no number there, least > most. If
// low == high, both are low, rounded to T.
template <class T>
struct Interval {
  using A = Compute<T>;
  A least, most;

  LOCUS_HD bool any() const { return least <= most; }
  LOCUS_HD A clip(A v) const {
#ifdef __CUDA_ARCH__  // without branches
    if constexpr (kSame<A, float>)
      return fminf(fmaxf(v, least), most);
    else
      return fmin(fmax(v, least), most);
#else
    return v < least ? least : v > most ? most : v;
#endif
  }
  LOCUS_HD static Interval of(double low, double high) {
    const T first = convert<T>(low), last = convert<T>(high);
    if (low == high) return {convert<A>(first), convert<A>(first)};
    return {value(first, convert<double>(first) < low ? 1 : 0),
            value(last, convert<double>(last) < high ? 0 : -1)};
  }
  // In [low, high].
  LOCUS_HD static Interval closed(double low, double high) {
    const T first = convert<T>(low), last = convert<T>(high);
    return {value(first, convert<double>(first) < low ? 1 : 0),
            value(last, convert<double>(last) > high ? -1 : 0)};
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

template <class T>
struct Uniform {
  static constexpr int kCount = kSame<T, double> ? 2 : 4;
  using A = Compute<T>;
  Interval<T> in;
  A low, apart;

  LOCUS_HD explicit Uniform(const RandomAttrs& a)
      : in(Interval<T>::of(a.a, a.b)),
        low(static_cast<A>(a.a)),
        apart(static_cast<A>(a.b) - static_cast<A>(a.a)) {}
  LOCUS_HD void draw(const PhiloxBlock& b, T* out) const {
    if constexpr (kSame<T, double>) {
      for (int i = 0; i < 2; ++i)
        out[i] = in.clip(low + detail::fraction(detail::pair(b, i)) * apart);
    } else {
      constexpr int kBits = kSame<T, Half> ? 11 : kSame<T, BFloat16> ? 8 : 24;
      constexpr float kUnit = 1.0f / static_cast<float>(1 << kBits);
      for (int i = 0; i < 4; ++i) {
        const float u = static_cast<float>(static_cast<int>(b.word[i] >> (32 - kBits))) * kUnit;
        out[i] = convert<T>(in.clip(convert<float>(convert<T>(low + u * apart))));
      }
    }
  }
};

// The uniform numbers of a block, in (0, 1], of 53 bits for f64, else of 32 bits.
template <class T>
LOCUS_HD void positive_uniforms(const PhiloxBlock& b, double* u) {
  if constexpr (kSame<T, double>)
    for (int i = 0; i < 2; ++i) u[i] = detail::positive_fraction(detail::pair(b, i));
  else
    for (int i = 0; i < 4; ++i) u[i] = (static_cast<double>(b.word[i]) + 1.0) * 0x1p-32;
}

template <class T>
struct Normal {
  static constexpr int kCount = kSame<T, double> ? 2 : 4;
  double mean, scale;

  LOCUS_HD explicit Normal(const RandomAttrs& a) : mean(a.a), scale(a.b) {}
  LOCUS_HD void draw(const PhiloxBlock& b, T* out) const {
#ifdef __CUDA_ARCH__
    if constexpr (!kSame<T, double>)
      if (draw_quickly(b, out)) return;
#endif
    double z[4];
    if constexpr (kSame<T, double>) {
      detail::box_muller(detail::positive_fraction(detail::pair(b, 0)),
                         detail::fraction(detail::pair(b, 1)), z);
    } else {
      for (int i = 0; i < 4; i += 2)
        detail::box_muller((static_cast<double>(b.word[i]) + 1.0) * 0x1p-32,
                           static_cast<double>(b.word[i + 1]) * 0x1p-32, z + i);
    }
    for (int i = 0; i < kCount; ++i) out[i] = convert<T>(mean + scale * z[i]);
  }
  // false, if the rounding of an element is in doubt. NaN equals nothing.
  LOCUS_HD bool draw_quickly(const PhiloxBlock& b, T* out) const {
    bool sure = true;
    double z[4];
    for (int i = 0; i < 4; i += 2) detail::quick_normals(b.word[i], b.word[i + 1], z + i);
    for (int i = 0; i < 4; ++i) {
      const double low = detail::fused(scale * (1.0 - detail::kQuickError), z[i], mean);
      const double high = detail::fused(scale * (1.0 + detail::kQuickError), z[i], mean);
      out[i] = convert<T>(low);
      sure &= convert<float>(out[i]) == convert<float>(convert<T>(high));
    }
    return sure;
  }
};

template <class T>
struct Exponential {
  static constexpr int kCount = kSame<T, double> ? 2 : 4;
  double scale;

  LOCUS_HD explicit Exponential(const RandomAttrs& a) : scale(a.a) {}
  LOCUS_HD void draw(const PhiloxBlock& b, T* out) const {
    double u[4];
    positive_uniforms<T>(b, u);
    for (int i = 0; i < kCount; ++i) out[i] = convert<T>(scale * -detail::log_exact(u[i]));
  }
};

// An exponential number with a random sign. The sign is the lowest bit, which the number drops.
template <class T>
struct Laplace {
  static constexpr int kCount = kSame<T, double> ? 2 : 4;
  double mean, scale;

  LOCUS_HD explicit Laplace(const RandomAttrs& a) : mean(a.a), scale(a.b) {}
  LOCUS_HD void draw(const PhiloxBlock& b, T* out) const {
    for (int i = 0; i < kCount; ++i) {
      bool negative;
      double u;
      if constexpr (kSame<T, double>) {
        const uint64_t word = detail::pair(b, i);
        negative = (word & 1) != 0;
        u = detail::positive_fraction(word);
      } else {
        negative = (b.word[i] & 1) != 0;
        u = (static_cast<double>(b.word[i] >> 1) + 1.0) * 0x1p-31;
      }
      const double size = detail::log_exact(u);
      out[i] = convert<T>(mean + scale * (negative ? size : -size));
    }
  }
};

template <class T>
struct Randint {
  static constexpr int kCount = 2;
  uint64_t low, range;

  LOCUS_HD explicit Randint(const RandomAttrs& a)
      : low(static_cast<uint64_t>(a.low)), range(a.range) {}
  LOCUS_HD void draw(const PhiloxBlock& b, T* out) const {
    for (int i = 0; i < 2; ++i)
      out[i] = static_cast<T>(
          static_cast<int64_t>(low + detail::multiply_high(detail::pair(b, i), range)));
  }
};

template <class T>
struct Bernoulli {
  static constexpr int kCount = 4;
  double probability;

  LOCUS_HD explicit Bernoulli(const RandomAttrs& a) : probability(a.a) {}
  LOCUS_HD void draw(const PhiloxBlock& b, T* out) const {
    for (int i = 0; i < 4; ++i)
      out[i] =
          convert<T>(static_cast<float>(static_cast<double>(b.word[i]) * 0x1p-32 < probability));
  }
};

}  // namespace locus
