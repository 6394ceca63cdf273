// Gamma, beta and truncated normal numbers, for host and device code. An element draws from blocks
// of its own (ElementBlocks) until it accepts, so elements are independent of each other.
#pragma once

#include <locus/ops/random/distributions.h>

namespace locus {

// truncated_normal: mean a and standard deviation b, in [lower, upper].
struct TruncatedAttrs {
  double a = 0, b = 1, lower = -1, upper = 1;
  Live<PhiloxKey> key = {};
  Meta meta = {};
};

namespace detail {

inline constexpr double kMost = 1e300;  // parameters above it are not valid

// A standard normal from words 0 to 2 of a block, and a number in (0, 1) from word 3.
LOCUS_HD double normal_of(const PhiloxBlock& b) {
  double sine, cosine;
  sincos_turn(static_cast<double>(b.word[2]) * 0x1p-32, sine, cosine);
  return square_root(-2.0 * log_exact(positive_fraction(pair(b, 0)))) * cosine;
}
LOCUS_HD double uniform_of(const PhiloxBlock& b) {
  return (static_cast<double>(b.word[3]) + 0.5) * 0x1p-32;
}

// A gamma number is value * e^exponent: the product may be too small for f64.
struct GammaNumber {
  double value, exponent;
};

// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000. Shapes below 1: the
// number of shape + 1 times u^(1 / shape). Uses two parts of the element.
struct GammaSampler {
  double shape, d, c;

  LOCUS_HD explicit GammaSampler(double a)
      : shape(a), d((a < 1 ? a + 1 : a) - 1.0 / 3), c(1.0 / square_root(9.0 * d)) {}
  LOCUS_HD bool accepts(double x, double v, double u) const {
    const double square = x * x;
    if (u < 1.0 - 0.0331 * (square * square)) return true;
    return log_exact(u) < 0.5 * square + d * (1.0 - v + log_exact(v));
  }
  LOCUS_HD GammaNumber draw(const ElementBlocks& blocks, const PhiloxBlock& first,
                            double normal) const {
    double x = normal, u = uniform_of(first), v;
    for (uint32_t attempt = 0;;) {
      const double root = 1.0 + c * x;
      v = root * root * root;
      if (root > 0 && accepts(x, v, u)) break;
      const PhiloxBlock b = blocks(++attempt);
      x = normal_of(b);
      u = uniform_of(b);
    }
    const double exponent =
        shape < 1 ? log_exact(positive_fraction(pair(blocks(0, 1), 0))) / shape : 0;
    return {d * v, exponent};
  }
};

}  // namespace detail

// Distributions of an element. draw() returns a number that the result's dtype is rounded from, and
// takes blocks(0) of kFirst parts of the element, two numbers
// apart, and their normals if kNormals: a CPU computes several elements' at once. valid(v) says
// whether a parameter is in range. An element with a parameter out of range is NaN.
struct EachExponential {
  static constexpr ParameterText kText{"exponential", {"scale", ""}, "from 0 to 1e300"};
  double scale;

  LOCUS_HD EachExponential(double a, double) : scale(a) {}
  LOCUS_HD static bool valid(double v) { return v >= 0 && v <= detail::kMost; }
  static constexpr int kFirst = 1;
  static constexpr bool kNormals = false;
  LOCUS_HD double draw(const ElementBlocks&, const PhiloxBlock* first, const double*) const {
    const double u = detail::positive_fraction(detail::pair(first[0], 0));
    return scale * -detail::log_exact(u);
  }
};

struct Gamma {
  static constexpr ParameterText kText{"gamma", {"shape", "scale"}, "from 0 to 1e300"};
  detail::GammaSampler sampler;
  double scale;

  LOCUS_HD Gamma(double a, double b) : sampler(valid(a) ? a : 0), scale(b) {
    if (!valid(a) || !valid(b)) scale = bits_double(0x7ff8000000000000u);
  }
  LOCUS_HD static bool valid(double v) { return v >= 0 && v <= detail::kMost; }
  static constexpr int kFirst = 1;
  static constexpr bool kNormals = true;
  LOCUS_HD double draw(const ElementBlocks& blocks, const PhiloxBlock* first,
                       const double* normal) const {
    if (sampler.shape == 0) return 0 * scale;
    const detail::GammaNumber g = sampler.draw(blocks, first[0], normal[0]);
    const double whole = g.exponent == 0 ? g.value : g.value * detail::exp_exact(g.exponent);
    return whole * scale;
  }
};

// x / (x + y) of gamma numbers x and y.
struct Beta {
  static constexpr ParameterText kText{"beta", {"a", "b"}, "above 0, up to 1e300"};
  detail::GammaSampler x, y;
  bool good;

  LOCUS_HD Beta(double a, double b)
      : x(valid(a) ? a : 1), y(valid(b) ? b : 1), good(valid(a) && valid(b)) {}
  LOCUS_HD static bool valid(double v) { return v > 0 && v <= detail::kMost; }
  static constexpr int kFirst = 2;
  static constexpr bool kNormals = true;
  LOCUS_HD double draw(const ElementBlocks& blocks, const PhiloxBlock* first,
                       const double* normal) const {
    if (!good) return bits_double(0x7ff8000000000000u);
    const detail::GammaNumber p = x.draw(blocks, first[0], normal[0]);
    const detail::GammaNumber q = y.draw(blocks.from(2), first[1], normal[1]);
    if (p.exponent == 0 && q.exponent == 0) return p.value / (p.value + q.value);
    const double ratio = q.value / p.value * detail::exp_exact(q.exponent - p.exponent);
    return 1.0 / (1.0 + ratio);
  }
};

// Robert, "Simulation of truncated normal variables", 1995. Proposals are normal, uniform or, in a
// tail, exponential. The chance to accept is above 0.4 for any interval.
template <class T>
struct TruncatedNormal {
  using A = typename Interval<T>::A;
  enum Proposal { kNormal, kUniform, kExponential };
  Interval<T> in;
  double mean, scale, low, high, rate = 0;
  Proposal proposal = kNormal;

  LOCUS_HD explicit TruncatedNormal(const TruncatedAttrs& a)
      : in(Interval<T>::closed(a.lower, a.upper)), mean(a.a), scale(a.b) {
    if (a.b == 0) {  // all are the mean
      low = -1;
      high = 1;
      scale = 0;
      proposal = kUniform;
      return;
    }
    low = (a.lower - mean) / scale;
    high = (a.upper - mean) / scale;
    if (high <= 0) {  // the mirror image
      const double least = -high;
      high = -low;
      low = least;
      scale = -scale;
    }
    if (low <= 0) {
      if (!(high - low > 2.5)) proposal = kUniform;
    } else {
      rate = low > 1e8 ? low : 0.5 * (low + detail::square_root(low * low + 4.0));
      proposal = (high - low) * rate > 1 ? kExponential : kUniform;
    }
  }
  static constexpr int kFirst = 1;
  static constexpr bool kNormals = false;
  LOCUS_HD double draw(const ElementBlocks& blocks, const PhiloxBlock* first, const double*) const {
    PhiloxBlock b = first[0];
    double z;
    for (uint32_t attempt = 0;; b = blocks(++attempt)) {
      if (proposal == kNormal) {
        z = detail::normal_of(b);
        if (low <= z && z <= high) break;
        continue;
      }
      double reject;  // twice minus the logarithm of the chance to accept
      if (proposal == kUniform) {
        z = low + detail::fraction(detail::pair(b, 0)) * (high - low);
        const double top = low > 0 ? low : 0;
        reject = (z - top) * (z + top);
      } else {
        z = low - detail::log_exact(detail::positive_fraction(detail::pair(b, 0))) / rate;
        if (z > high) continue;
        reject = (z - rate) * (z - rate);
      }
      if (detail::log_exact(detail::uniform_of(b)) <= -0.5 * reject) break;
    }
    return convert<double>(in.clip(convert<A>(convert<T>(mean + scale * z))));
  }
};

}  // namespace locus
