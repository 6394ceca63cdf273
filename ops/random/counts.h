// Poisson, binomial and multinomial counts, for host and device code. An element draws from blocks
// of its own (ElementBlocks) until it accepts.
#pragma once

#include <locus/ops/random/distributions.h>

namespace locus {

namespace detail {

// Where the chances of a sum over counts vanish.
inline constexpr double kVanishes = 0x1p-60;
inline constexpr double kTwoPi = 6.283185307179586477;

// Means below 10: inversion. Others: Hormann, "The transformed rejection method for generating
// Poisson random variables", 1993, algorithm PTRS.
struct PoissonSampler {
  double mean, none, a = 0, b = 0, inverse_alpha = 0, squeeze = 0;

  LOCUS_HD explicit PoissonSampler(double lam) : mean(lam), none(exp_exact(-lam)) {
    if (lam < 10) return;
    b = 0.931 + 2.53 * square_root(lam);
    a = -0.059 + 0.02483 * b;
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    squeeze = 0.9277 - 3.6224 / (b - 2.0);
  }
  // ln of the chance of k.
  LOCUS_HD double log_chance(double k) const {
    if (k == 0) return -mean;
    return -stirling_error(k) - deviance(k, mean) - 0.5 * log_exact(kTwoPi * k);
  }
  LOCUS_HD double draw(const ElementBlocks& blocks, const PhiloxBlock& first) const {
    PhiloxBlock block = first;
    double u = fraction(pair(block, 0)), k = 0;
    if (mean < 10) {
      for (double chance = none; u >= chance;) {
        u -= chance;
        k += 1;
        chance *= mean / k;
        if (chance < kVanishes && k > mean) break;
      }
      return k;
    }
    for (uint32_t attempt = 0;; block = blocks(++attempt)) {
      u = fraction(pair(block, 0)) - 0.5;
      const double v = positive_fraction(pair(block, 1)), side = 0.5 - (u < 0 ? -u : u);
      k = whole((2.0 * a / side + b) * u + mean + 0.43);
      if (side >= 0.07 && v <= squeeze) return k;
      if (!(k >= 0) || (side < 0.013 && v > side)) continue;
      if (log_exact(v * inverse_alpha / (a / (side * side) + b)) <= log_chance(k)) return k;
    }
  }
};

// n tries of chance p. Means below 10: inversion. Others: Hormann, "The generation of binomial
// random variates", 1993, algorithm BTRS. n <= 2^53.
struct BinomialSampler {
  double n, p, q;
  bool turned;  // counts the failures

  LOCUS_HD BinomialSampler(double tries, double chance) : n(tries), turned(chance > 0.5) {
    p = turned ? 1.0 - chance : chance;
    q = 1.0 - p;
  }
  LOCUS_HD double draw(const ElementBlocks& blocks, const PhiloxBlock& first) const {
    const double k = !(n > 0 && p > 0) ? 0 : n * p < 10 ? inverted(first) : rejected(blocks, first);
    return turned ? n - k : k;
  }

 private:
  LOCUS_HD double inverted(const PhiloxBlock& block) const {
    const double odds = p / q;
    double u = fraction(pair(block, 0)), k = 0;
    for (double chance = exp_exact(n * log1p_exact(-p)); u >= chance && k < n;) {
      u -= chance;
      k += 1;
      chance *= (n - k + 1.0) / k * odds;
      if (chance < kVanishes && k > n * p) break;
    }
    return k;
  }
  // ln of the chance of k.
  LOCUS_HD double log_chance(double k) const {
    if (k == 0) return n * log1p_exact(-p);
    if (k == n) return n * log_exact(p);
    return stirling_error(n) - stirling_error(k) - stirling_error(n - k) - deviance(k, n * p) -
           deviance(n - k, n * q) + 0.5 * log_exact(n / (kTwoPi * k * (n - k)));
  }
  LOCUS_HD double rejected(const ElementBlocks& blocks, const PhiloxBlock& first) const {
    const double spread = square_root(n * p * q), b = 1.15 + 2.53 * spread;
    const double a = -0.0873 + 0.0248 * b + 0.01 * p, center = n * p + 0.5;
    const double squeeze = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * spread;
    PhiloxBlock block = first;
    for (uint32_t attempt = 0;; block = blocks(++attempt)) {
      const double u = fraction(pair(block, 0)) - 0.5, v = positive_fraction(pair(block, 1));
      const double side = 0.5 - (u < 0 ? -u : u);
      const double k = whole((2.0 * a / side + b) * u + center);
      if (side >= 0.07 && v <= squeeze) return k;
      if (!(k >= 0 && k <= n)) continue;
      const double top = log_chance(whole((n + 1.0) * p));  // few attempts come here
      if (log_exact(v * alpha / (a / (side * side) + b)) <= log_chance(k) - top) return k;
    }
  }
};

}  // namespace detail

struct Poisson {
  static constexpr ParameterText kText{"poisson", {"lam", ""}, "from 0 to 2^62"};
  detail::PoissonSampler sampler;
  bool good;

  LOCUS_HD Poisson(double a, double) : sampler(valid(a) ? a : 0), good(valid(a)) {}
  LOCUS_HD static bool valid(double v) { return v >= 0 && v <= 0x1p62; }
  static constexpr int kFirst = 1;
  static constexpr bool kNormals = false;
  LOCUS_HD double draw(const ElementBlocks& blocks, const PhiloxBlock* first, const double*) const {
    return good ? sampler.draw(blocks, first[0]) : bits_double(0x7ff8000000000000u);
  }
};

// a: the number of tries, b: the chance.
struct Binomial {
  detail::BinomialSampler sampler;

  LOCUS_HD Binomial(double a, double b) : sampler(a, b) {}
  static constexpr int kFirst = 1;
  static constexpr bool kNormals = false;
  LOCUS_HD double draw(const ElementBlocks& blocks, const PhiloxBlock* first, const double*) const {
    return sampler.draw(blocks, first[0]);
  }
};

// A row of counts, which sum to n: each is binomial in what the ones before left.
// store(i, number) takes count i.
LOCUS_HD void draw_multinomial(int64_t n, const double* chances, int64_t count,
                               const ElementBlocks& blocks, const auto& store) {
  double left = static_cast<double>(n), rest = 1;
  for (int64_t i = 0; i + 1 < count; ++i) {
    const double p = rest > 0 ? chances[i] / rest : 1;
    const ElementBlocks own = blocks.from(static_cast<uint32_t>(i));
    double k = 0;
    if (left > 0) k = detail::BinomialSampler(left, p < 1 ? p : 1).draw(own, own(0));
    store(i, k);
    left -= k;
    rest -= chances[i];
  }
  if (count > 0) store(count - 1, left);
}

// The first place whose running sum is above u, in [0, count).
LOCUS_HD int64_t place_of(double u, const double* sums, int64_t count) {
  int64_t low = 0, high = count - 1;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (sums[middle] > u)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace locus
