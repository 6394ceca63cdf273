// Philox 4x32-10 (Salmon et al. 2011) and the distributions.
#include <algorithm>
#include <utility>

#include <locus/ops/random/random_kernel.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

constexpr Real kPi = 3.14159265358979323846264338327950288L;

struct Block {
  uint32_t word[4];
};
// The block of an element: its attempt and part are words 2 and 3 of the counter.
Block block_of(const PhiloxKey& key, uint64_t element, uint32_t attempt = 0, uint32_t part = 0) {
  const uint64_t at = key.offset + element;
  Block c{{uint32_t(at), uint32_t(at >> 32), attempt, part}};
  uint32_t k[2] = {uint32_t(key.seed), uint32_t(key.seed >> 32)};
  for (int round = 0; round < 10; ++round, k[0] += 0x9E3779B9, k[1] += 0xBB67AE85) {
    const uint64_t a = c.word[0] * uint64_t{0xD2511F53}, b = c.word[2] * uint64_t{0xCD9E8D57};
    c = {{uint32_t(b >> 32) ^ c.word[1] ^ k[0], uint32_t(b), uint32_t(a >> 32) ^ c.word[3] ^ k[1],
          uint32_t(a)}};
  }
  return c;
}
// The 32-bit words of a key, from its block `offset` on.
std::vector<uint32_t> words(const PhiloxKey& key, size_t n) {
  std::vector<uint32_t> all;
  for (uint64_t block = 0; all.size() < n; ++block) {
    const Block b = block_of(key, block);
    all.insert(all.end(), b.word, b.word + 4);
  }
  return all;
}
// Fractions in [0, 1) of `bits` bits, from one word each, or two if `wide`.
std::vector<Real> fractions(const PhiloxKey& key, size_t n, bool wide, int bits) {
  const std::vector<uint32_t> w = words(key, wide ? 2 * n + 2 : n + 2);
  std::vector<Real> all;
  for (size_t i = 0; i < n + n % 2; ++i) {
    const uint64_t whole = wide ? uint64_t{w[2 * i]} << 32 | w[2 * i + 1] : uint64_t{w[i]} << 32;
    all.push_back(std::ldexp(static_cast<Real>(whole >> (64 - bits)), -bits));
  }
  return all;
}

// f fills the values of an array with the shape and dtype of the attributes.
template <class F>
Reference drawn(std::string op, F f) {
  return reference<RandomAttrs>(std::move(op), [f](const Arrays&, const RandomAttrs& a) -> Arrays {
    Array y(lengths_of(a.meta), a.meta.dtype);
    f(y.values, a, a.key.now(), a.meta.dtype);
    return {y};
  });
}
using Values = std::vector<Real>;

// 53 bits of words 2 i and 2 i + 1, in [0, 1).
Real fraction(const Block& b, int i) {
  return std::ldexp(static_cast<Real>((uint64_t{b.word[2 * i]} << 32 | b.word[2 * i + 1]) >> 11),
                    -53);
}
Real positive(const Block& b, int i) { return fraction(b, i) + std::ldexp(1.L, -53); }
Real normal(const Block& b) {
  return std::sqrt(-2 * std::log(positive(b, 0))) *
         std::cos(2 * kPi * std::ldexp(static_cast<Real>(b.word[2]), -32));
}
Real accept(const Block& b) { return std::ldexp(b.word[3] + .5L, -32); }

// Marsaglia and Tsang 2000: value and logarithm of the factor for shapes below 1.
std::pair<Real, Real> gamma(const PhiloxKey& key, uint64_t element, Real shape, uint32_t part) {
  const Real d = (shape < 1 ? shape + 1 : shape) - 1 / 3.L, c = 1 / std::sqrt(9 * d);
  for (uint32_t attempt = 0;; ++attempt) {
    const Block b = block_of(key, element, attempt, part);
    const Real x = normal(b), root = 1 + c * x, v = root * root * root;
    if (root > 0 && (accept(b) < 1 - .0331L * x * x * x * x ||
                     std::log(accept(b)) < x * x / 2 + d * (1 - v + std::log(v))))
      return {d * v,
              shape < 1 ? std::log(positive(block_of(key, element, 0, part + 1), 0)) / shape : 0};
  }
}

// The smallest k whose chances up to k exceed u, by a function of chances.
Real inverted(Real u, Real most, const auto& log_chance) {
  Real k = 0;
  for (Real sum = 0; k < most; ++k)
    if ((sum += std::exp(log_chance(k))) > u) break;
  return k;
}
Real log_choices(Real n, Real k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

// Hormann 1993, PTRS.
Real poisson(const PhiloxKey& key, uint64_t element, Real lam) {
  const auto log_chance = [lam](Real k) {
    return k == 0 ? -lam : k * std::log(lam) - lam - std::lgamma(k + 1);
  };
  if (lam < 10) return inverted(fraction(block_of(key, element), 0), 1000, log_chance);
  const Real b = .931L + 2.53L * std::sqrt(lam), a = -.059L + .02483L * b;
  for (uint32_t attempt = 0;; ++attempt) {
    const Block w = block_of(key, element, attempt);
    const Real u = fraction(w, 0) - .5L, v = positive(w, 1), us = .5L - std::abs(u);
    const Real k = std::floor((2 * a / us + b) * u + lam + .43L);
    if (us >= .07L && v <= .9277L - 3.6224L / (b - 2)) return k;
    if (k < 0 || (us < .013L && v > us)) continue;
    if (std::log(v) + std::log(1.1239L + 1.1328L / (b - 3.4L)) - std::log(a / (us * us) + b) <=
        log_chance(k))
      return k;
  }
}

// Hormann 1993, BTRS.
Real binomial(const PhiloxKey& key, uint64_t element, Real n, Real chance, uint32_t part = 0) {
  const Real p = chance > .5L ? 1 - chance : chance;
  const auto turned = [&](Real k) { return chance > .5L ? n - k : k; };
  const auto log_chance = [&](Real k) {
    return log_choices(n, k) + (k == 0 ? 0 : k * std::log(p)) + (n - k) * std::log1p(-p);
  };
  if (n == 0 || p == 0) return turned(0);
  const Block first = block_of(key, element, 0, part);
  if (n * p < 10) return turned(inverted(fraction(first, 0), n, log_chance));
  const Real spread = std::sqrt(n * p * (1 - p)), b = 1.15L + 2.53L * spread;
  const Real a = -.0873L + .0248L * b + .01L * p, alpha = (2.83L + 5.1L / b) * spread;
  for (uint32_t attempt = 0;; ++attempt) {
    const Block w = block_of(key, element, attempt, part);
    const Real u = fraction(w, 0) - .5L, v = positive(w, 1), us = .5L - std::abs(u);
    const Real k = std::floor((2 * a / us + b) * u + n * p + .5L);
    if (us >= .07L && v <= .92L - 4.2L / b) return turned(k);
    if (k < 0 || k > n) continue;
    if (std::log(v * alpha / (a / (us * us) + b)) <=
        log_chance(k) - log_chance(std::floor((n + 1) * p)))
      return turned(k);
  }
}

// Robert 1995.
Real truncated(const PhiloxKey& key, uint64_t element, const TruncatedAttrs& a) {
  if (a.b == 0) return a.a;
  Real low = (Real{a.lower} - a.a) / a.b, high = (Real{a.upper} - a.a) / a.b;
  const Real sign = high <= 0 ? -1 : 1;
  if (sign < 0) low = std::exchange(high, -low) * -1;
  const Real rate = (low + std::sqrt(low * low + 4)) / 2;
  for (uint32_t attempt = 0;; ++attempt) {
    const Block b = block_of(key, element, attempt);
    const Real uniform = low + fraction(b, 0) * (high - low);
    Real z, log_accept = 0;
    if (low <= 0 && high - low > 2.5L) {
      z = normal(b);
      if (z < low || z > high) continue;
      return a.a + a.b * sign * z;
    } else if (low <= 0) {
      z = uniform;
      log_accept = -z * z / 2;
    } else if ((high - low) * rate > 1) {
      z = low - std::log(positive(b, 0)) / rate;
      if (z > high) continue;
      log_accept = -(z - rate) * (z - rate) / 2;
    } else {
      z = uniform;
      log_accept = (low * low - z * z) / 2;
    }
    if (std::log(accept(b)) <= log_accept) return a.a + a.b * sign * z;
  }
}

// The parameters of element i: numbers, or the inputs.
struct Parameters {
  const Arrays& in;
  const RandomAttrs& a;
  Real operator()(size_t k, size_t i) const {
    return k < in.size() ? in[k].values[i] : k == 0 ? a.a : a.b;
  }
};
// f(key, element, first parameter, second) for each element. f64 holds inputs up to 2^20 here.
template <class F>
Reference elements(std::string op, F f) {
  return within_exponents(
      20,
      reference<RandomAttrs>(std::move(op), [f](const Arrays& in, const RandomAttrs& a) -> Arrays {
        Array y(lengths_of(a.meta), a.meta.dtype);
        const Parameters p{in, a};
        for (size_t i = 0; i < y.values.size(); ++i)
          y.values[i] = f(a.key.now(), i, p(0, i), p(1, i), a);
        return {y};
      }));
}

const References kRandom{{
    drawn("uniform",
          [](Values& v, const RandomAttrs& a, const PhiloxKey& key, DType d) {
            const int bits = d == f64 ? 53 : d == f32 ? 24 : d == f16 ? 11 : 8;
            const Values u = fractions(key, v.size(), d == f64, bits);
            for (size_t i = 0; i < v.size(); ++i) v[i] = a.a + u[i] * (Real{a.b} - a.a);
          }),
    drawn("normal",  // Box and Muller 1958
          [](Values& v, const RandomAttrs& a, const PhiloxKey& key, DType d) {
            const bool wide = d == f64;
            const int bits = wide ? 53 : 32;
            const Values u = fractions(key, v.size(), wide, bits);
            for (size_t i = 0; i < v.size(); ++i) {
              const Real u1 = u[i & ~size_t{1}] + std::ldexp(1.L, -bits), u2 = u[i | 1];
              const Real angle = 2 * kPi * u2;
              v[i] = a.a + a.b * std::sqrt(-2 * std::log(u1)) *
                               (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
            }
          }),
    drawn("randint",
          [](Values& v, const RandomAttrs& a, const PhiloxKey& key, DType) {
            const std::vector<uint32_t> w = words(key, 2 * v.size());
            for (size_t i = 0; i < v.size(); ++i) {
              const auto whole =
                  static_cast<unsigned __int128>(uint64_t{w[2 * i]} << 32 | w[2 * i + 1]);
              v[i] = static_cast<Real>(a.low + static_cast<int64_t>(whole * a.range >> 64));
            }
          }),
    drawn("bernoulli",
          [](Values& v, const RandomAttrs& a, const PhiloxKey& key, DType) {
            const Values u = fractions(key, v.size(), false, 32);
            for (size_t i = 0; i < v.size(); ++i) v[i] = u[i] < a.a;
          }),
    drawn("laplace",
          [](Values& v, const RandomAttrs& a, const PhiloxKey& key, DType d) {
            const bool wide = d == f64;
            const std::vector<uint32_t> w = words(key, (wide ? 2 : 1) * v.size());
            const Values u = fractions(key, v.size(), wide, wide ? 53 : 31);
            for (size_t i = 0; i < v.size(); ++i) {
              const Real size = -std::log(u[i] + std::ldexp(1.L, wide ? -53 : -31));
              v[i] = a.a + a.b * (w[wide ? 2 * i + 1 : i] % 2 == 1 ? -size : size);
            }
          }),
    reference<RandomAttrs>(
        "exponential",
        [](const Arrays& in, const RandomAttrs& a) -> Arrays {
          Array y(lengths_of(a.meta), a.meta.dtype);
          const bool wide = a.meta.dtype == f64;
          const Values u = fractions(a.key.now(), y.values.size(), wide, wide ? 53 : 32);
          for (size_t i = 0; i < y.values.size(); ++i)
            y.values[i] = in.empty()
                              ? -a.a * std::log(u[i] + std::ldexp(1.L, wide ? -53 : -32))
                              : -in[0].values[i] * std::log(positive(block_of(a.key.now(), i), 0));
          return {y};
        }),
    elements("random_gamma",
             [](const PhiloxKey& key, size_t i, Real shape, Real scale, const RandomAttrs&) {
               const auto [value, exponent] = gamma(key, i, shape, 0);
               return shape == 0 ? 0 : value * std::exp(exponent) * scale;
             }),
    elements("beta",
             [](const PhiloxKey& key, size_t i, Real a, Real b, const RandomAttrs&) {
               const auto [x, x_exponent] = gamma(key, i, a, 0);
               const auto [y, y_exponent] = gamma(key, i, b, 2);
               return 1 / (1 + y / x * std::exp(y_exponent - x_exponent));
             }),
    elements("poisson", [](const PhiloxKey& key, size_t i, Real lam, Real,
                           const RandomAttrs&) { return poisson(key, i, lam); }),
    elements("binomial",
             [](const PhiloxKey& key, size_t i, Real p, Real, const RandomAttrs& a) {
               return binomial(key, i, static_cast<Real>(a.low), p);
             }),
    reference<TruncatedAttrs>("truncated_normal",
                              [](const Arrays&, const TruncatedAttrs& a) -> Arrays {
                                Array y(lengths_of(a.meta), a.meta.dtype);
                                for (size_t i = 0; i < y.values.size(); ++i)
                                  y.values[i] = truncated(a.key.now(), i, a);
                                return {y};
                              }),
    reference<RandomAttrs>("choice",
                           [](const Arrays& in, const RandomAttrs& a) -> Arrays {
                             Array y(lengths_of(a.meta), a.meta.dtype);
                             for (size_t i = 0; i < y.values.size(); ++i) {
                               const Real u = fraction(block_of(a.key.now(), i / 2), i % 2);
                               Real k = 0;
                               while (k + 1 < in[0].size() && in[0].values[size_t(k)] <= u) ++k;
                               y.values[i] = k;
                             }
                             return {y};
                           }),
    reference<RandomAttrs>("multinomial",
                           [](const Arrays& in, const RandomAttrs& a) -> Arrays {
                             Array y(lengths_of(a.meta), a.meta.dtype);
                             const size_t count = in[0].values.size();
                             for (size_t row = 0; row < y.values.size() / count; ++row) {
                               Real left = static_cast<Real>(a.low), rest = 1;
                               for (size_t k = 0; k < count; ++k) {
                                 const Real p =
                                     rest > 0 ? std::min(in[0].values[k] / rest, 1.L) : 1;
                                 const Real own = k + 1 == count ? left
                                                                 : binomial(a.key.now(), row, left,
                                                                            p, uint32_t(k));
                                 y.values[row * count + k] = own;
                                 left -= own;
                                 rest -= in[0].values[k];
                               }
                             }
                             return {y};
                           }),
}};

}  // namespace
}  // namespace locus::test
