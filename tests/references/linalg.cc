// Linear algebra by elimination in long double.
#include <algorithm>
#include <utility>

#include <locus/ops/linalg/linalg_kernel.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

struct Square {
  int64_t n, m;
  std::vector<Real> x;

  Real& at(int64_t i, int64_t j) { return x[static_cast<size_t>(i * m + j)]; }
  Real at(int64_t i, int64_t j) const { return x[static_cast<size_t>(i * m + j)]; }
};
int64_t axis(const Array& a, int from_end) {
  return a.shape[a.shape.size() - static_cast<size_t>(from_end)];
}
int64_t matrices_in(const Array& a) {
  int64_t count = 1;
  for (size_t i = 0; i + 2 < a.shape.size(); ++i) count *= a.shape[i];
  return count;
}
Square matrix(const Array& a, int64_t k) {
  const int64_t n = axis(a, 2), m = axis(a, 1);
  const auto first = a.values.begin() + k * n * m;
  return {n, m, {first, first + n * m}};
}
void put(Array& a, int64_t k, const Square& s) {
  std::ranges::copy(s.x, a.values.begin() + k * s.n * s.m);
}
Square transposed(const Square& a) {
  Square t{a.m, a.n, std::vector<Real>(a.x.size())};
  for (int64_t i = 0; i < a.n; ++i)
    for (int64_t j = 0; j < a.m; ++j) t.at(j, i) = a.at(i, j);
  return t;
}
Array batch_of(const Array& a, DType d, Real fill = 0) {
  return {{a.shape.begin(), a.shape.end() - 2}, d, fill};
}

// Packed factors, the order of the rows, and its sign.
struct Factors {
  Square lu;
  std::vector<int64_t> order;
  Real sign = 1;
};
Factors factors(Square a) {
  Factors f;
  for (int64_t i = 0; i < a.n; ++i) f.order.push_back(i);
  for (int64_t c = 0; c < std::min(a.n, a.m); ++c) {
    int64_t best = c;
    for (int64_t i = c + 1; i < a.n; ++i)
      if (std::abs(a.at(i, c)) > std::abs(a.at(best, c))) best = i;
    if (best != c) {
      for (int64_t j = 0; j < a.m; ++j) std::swap(a.at(c, j), a.at(best, j));
      std::swap(f.order[static_cast<size_t>(c)], f.order[static_cast<size_t>(best)]);
      f.sign = -f.sign;
    }
    if (a.at(c, c) == 0) continue;
    for (int64_t i = c + 1; i < a.n; ++i) {
      const Real share = a.at(i, c) /= a.at(c, c);
      for (int64_t j = c + 1; j < a.m; ++j) a.at(i, j) -= share * a.at(c, j);
    }
  }
  f.lu = std::move(a);
  return f;
}

Square solution(const Square& a, Square b) {
  const Factors f = factors(a);
  Square x = b;
  for (int64_t j = 0; j < b.m; ++j) {
    for (int64_t i = 0; i < b.n; ++i) {
      Real v = b.at(f.order[static_cast<size_t>(i)], j);
      for (int64_t k = 0; k < i; ++k) v -= f.lu.at(i, k) * x.at(k, j);
      x.at(i, j) = v;
    }
    for (int64_t i = b.n; i-- > 0;) {
      Real v = x.at(i, j);
      for (int64_t k = i + 1; k < b.n; ++k) v -= f.lu.at(i, k) * x.at(k, j);
      x.at(i, j) = v / f.lu.at(i, i);
    }
  }
  return x;
}

Arrays cholesky(const Arrays& in) {
  Array out(in[0].shape, in[0].dtype);
  for (int64_t k = 0; k < matrices_in(in[0]); ++k) {
    Square l = matrix(in[0], k);
    for (int64_t i = 0; i < l.n; ++i)
      for (int64_t j = 0; j < l.n; ++j) {
        Real v = l.at(i, j);
        for (int64_t p = 0; p < std::min(i, j); ++p) v -= l.at(i, p) * l.at(j, p);
        l.at(i, j) = j > i ? 0 : j == i ? std::sqrt(v) : v / l.at(j, j);
      }
    put(out, k, l);
  }
  return {out, batch_of(in[0], bool_)};
}

// The part of a that a triangular solve reads.
Square part(Square a, const TriangularAttrs& t) {
  for (int64_t i = 0; i < a.n; ++i)
    for (int64_t j = 0; j < a.n; ++j) {
      if (t.upper ? j < i : j > i) a.at(i, j) = 0;
      if (i == j && t.unit_diagonal) a.at(i, j) = 1;
    }
  return a;
}
Arrays systems(const Arrays& in, const auto& read) {
  Array out(in[1].shape, in[1].dtype);
  for (int64_t k = 0; k < matrices_in(in[0]); ++k)
    put(out, k, solution(read(matrix(in[0], k)), matrix(in[1], k)));
  return {out, batch_of(in[0], bool_)};
}
Arrays solve(const Arrays& in, const SolveAttrs& a) {
  return systems(in, [&](const Square& s) { return a.transpose ? transposed(s) : s; });
}
Arrays triangular(const Arrays& in, const TriangularAttrs& a) {
  return systems(
      in, [&](const Square& s) { return a.transpose ? transposed(part(s, a)) : part(s, a); });
}

Arrays lu_factor(const Arrays& in) {
  Array packed(in[0].shape, in[0].dtype), sign = batch_of(in[0], in[0].dtype);
  Array order({in[0].shape.begin(), in[0].shape.end() - 1}, i64);
  for (int64_t k = 0; k < matrices_in(in[0]); ++k) {
    const Factors f = factors(matrix(in[0], k));
    put(packed, k, f.lu);
    std::ranges::copy(f.order, order.values.begin() + k * f.lu.n);
    sign.values[static_cast<size_t>(k)] = f.sign;
  }
  return {packed, order, sign};
}
// The sign and the absolute value.
Arrays determinants(const Array& a) {
  Array sign = batch_of(a, a.dtype), size = sign;
  for (int64_t k = 0; k < matrices_in(a); ++k) {
    const Factors f = factors(matrix(a, k));
    Real product = f.sign;
    for (int64_t i = 0; i < f.lu.n; ++i) product *= f.lu.at(i, i);
    sign.values[static_cast<size_t>(k)] = product > 0 ? 1 : product < 0 ? -1 : product;
    size.values[static_cast<size_t>(k)] = std::abs(product);
  }
  return {sign, size};
}

const References kLinalg{{
    within_exponents(96, reference("cholesky", &cholesky)),
    within_exponents(48, reference<SolveAttrs>("solve", &solve)),
    within_exponents(48, reference<TriangularAttrs>("solve_triangular", &triangular)),
    within_exponents(96, reference("lu_factor", &lu_factor)),
    lost_far(within_exponents(
        24, reference("det",
                      [](const Arrays& in) {
                        const Arrays d = determinants(in[0]);
                        return Arrays{combined(d[0], d[1], [](Real s, Real x) { return s * x; })};
                      }))),
    within_exponents(
        96, reference("slogdet",
                      [](const Arrays& in) {
                        const Arrays d = determinants(in[0]);
                        return Arrays{d[0], mapped(d[1], [](Real x) { return std::log(x); })};
                      })),
}};

}  // namespace
}  // namespace locus::test
