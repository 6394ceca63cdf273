// Philox 4x32-10 (Salmon et al. 2011) and the distributions.
#include <locus/ops/random/random_kernel.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

constexpr Real kPi = 3.14159265358979323846264338327950288L;

// The 32-bit words of a key, from its block `offset` on.
std::vector<uint32_t> words(const PhiloxKey& key, size_t n) {
  std::vector<uint32_t> all;
  for (uint64_t block = key.offset; all.size() < n; ++block) {
    uint32_t c[4] = {uint32_t(block), uint32_t(block >> 32), 0, 0};
    uint32_t k[2] = {uint32_t(key.seed), uint32_t(key.seed >> 32)};
    for (int round = 0; round < 10; ++round, k[0] += 0x9E3779B9, k[1] += 0xBB67AE85) {
      const uint64_t a = c[0] * uint64_t{0xD2511F53}, b = c[2] * uint64_t{0xCD9E8D57};
      const uint32_t next[4] = {uint32_t(b >> 32) ^ c[1] ^ k[0], uint32_t(b),
                                uint32_t(a >> 32) ^ c[3] ^ k[1], uint32_t(a)};
      std::copy(next, next + 4, c);
    }
    all.insert(all.end(), c, c + 4);
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
}};

}  // namespace
}  // namespace locus::test
