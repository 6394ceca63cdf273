// eigh by Jacobi's rotations, svd by Hestenes' rotations of columns, pinv and lstsq by svd.
#include <algorithm>
#include <numeric>

#include <locus/ops/linalg/least_squares.h>
#include <locus/ops/linalg/spectral_kernel.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

using Vector = std::vector<Real>;
using Vectors = std::vector<Vector>;  // columns

Real product(const Vector& x, const Vector& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), Real{0});
}
Vectors identity(size_t n) {
  Vectors all(n, Vector(n));
  for (size_t i = 0; i < n; ++i) all[i][i] = 1;
  return all;
}
Real largest(const Vectors& a) {
  Real most = 0;
  for (const Vector& column : a)
    for (Real v : column) most = std::max(most, std::fabs(v));
  return most;
}
// Rotates two vectors.
void rotate(Vector& x, Vector& y, Real c, Real s) {
  for (size_t i = 0; i < x.size(); ++i) {
    const Real old = x[i];
    x[i] = c * old - s * y[i];
    y[i] = s * old + c * y[i];
  }
}
// 1 or -1: the component of the largest absolute value becomes positive.
Real sign_of(const Vector& x) {
  Real most = 0;
  for (Real v : x) most = std::max(most, std::fabs(v));
  for (Real v : x)
    if (std::fabs(v) >= most * static_cast<Real>(kLargeFraction)) return v < 0 ? -1 : 1;
  return 1;
}

// The columns of matrix k of x; transposed: its rows.
Vectors columns_of(const Array& x, size_t k, bool transposed = false) {
  const auto rank = x.shape.size();
  const auto m = static_cast<size_t>(x.shape[rank - 2]), n = static_cast<size_t>(x.shape[rank - 1]);
  Vectors all(transposed ? m : n, Vector(transposed ? n : m));
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j)
      (transposed ? all[i][j] : all[j][i]) = x.values[(k * m + i) * n + j];
  return all;
}
void put(Array& x, size_t k, const Vectors& columns, bool transposed = false) {
  const size_t n = columns.size(), m = n == 0 ? 0 : columns[0].size();
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j)
      x.values[k * m * n + (transposed ? j * m + i : i * n + j)] = columns[j][i];
}
// A result of batches of `lengths`.
Array result(const Array& a, std::vector<int64_t> lengths, DType d) {
  std::vector<int64_t> shape(a.shape.begin(), a.shape.end() - 2);
  shape.insert(shape.end(), lengths.begin(), lengths.end());
  return Array(shape, d);
}
size_t count_of(const Array& a) {
  size_t count = 1;
  for (size_t i = 0; i + 2 < a.shape.size(); ++i) count *= static_cast<size_t>(a.shape[i]);
  return count;
}

constexpr int kSweeps = 60;

// Eigenvalues, ascending, and eigenvectors of a symmetric matrix.
void decompose(Vectors a, Vector& w, Vectors& v) {
  const size_t n = a.size();
  v = identity(n);
  const Real scale = largest(a);
  for (Vector& column : a)
    for (Real& x : column) x = scale == 0 ? 0 : x / scale;
  for (int sweep = 0; sweep < kSweeps; ++sweep)
    for (size_t p = 0; p < n; ++p)
      for (size_t q = p + 1; q < n; ++q) {
        if (a[q][p] == 0) continue;
        const Real theta = (a[q][q] - a[p][p]) / (2 * a[q][p]);
        const Real t =
            (theta < 0 ? -1 : 1) / (std::fabs(theta) + std::sqrt(theta * theta + Real{1}));
        const Real c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (size_t i = 0; i < n; ++i) {
          const Real old = a[i][p];
          a[i][p] = c * old - s * a[i][q];
          a[i][q] = s * old + c * a[i][q];
        }
        rotate(a[p], a[q], c, s);
        a[q][p] = a[p][q] = 0;
        rotate(v[p], v[q], c, s);
      }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](size_t x, size_t y) { return a[x][x] < a[y][y]; });
  const Vectors found = v;
  w.clear();
  for (size_t i = 0; i < n; ++i) {
    w.push_back(a[order[i]][order[i]] * scale);
    v[i] = found[order[i]];
    const Real sign = sign_of(v[i]);
    for (Real& x : v[i]) x *= sign;
  }
}

Arrays eigen(const Array& a, bool upper) {
  const int64_t n = a.shape.back();
  Array w = result(a, {n}, a.dtype), v = result(a, {n, n}, a.dtype), failed = result(a, {}, bool_);
  for (size_t k = 0; k < count_of(a); ++k) {
    Vectors matrix = columns_of(a, k);
    for (size_t i = 0; i < matrix.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        (upper ? matrix[j][i] : matrix[i][j]) = upper ? matrix[i][j] : matrix[j][i];
    Vector values;
    Vectors vectors;
    decompose(matrix, values, vectors);
    std::ranges::copy(values, w.values.begin() + static_cast<int64_t>(k * values.size()));
    put(v, k, vectors);
  }
  return {w, v, failed};
}

// Adds orthonormal vectors of n components until there are `wanted`.
void complete(Vectors& all, size_t n, size_t wanted) {
  while (all.size() < wanted) {
    Vector best;
    for (const Vector& unit : identity(n)) {
      Vector rest = unit;
      for (int twice = 0; twice < 2; ++twice)
        for (const Vector& x : all) {
          const Real part = product(rest, x);
          for (size_t i = 0; i < n; ++i) rest[i] -= part * x[i];
        }
      if (best.empty() || product(rest, rest) > product(best, best)) best = rest;
    }
    const Real length = std::sqrt(product(best, best)) * sign_of(best);
    for (Real& x : best) x /= length;
    all.push_back(best);
  }
}

struct Factors {
  Vectors u, v;
  Vector s;
};
// a has at least as many rows as columns, and full rank.
Factors decompose_tall(const Vectors& a) {
  const size_t n = a.size();
  Vectors w = a, v = identity(n);
  for (int sweep = 0; sweep < kSweeps; ++sweep)
    for (size_t p = 0; p < n; ++p)
      for (size_t q = p + 1; q < n; ++q) {
        const Real gamma = product(w[p], w[q]);
        if (gamma == 0) continue;
        const Real zeta = (product(w[q], w[q]) - product(w[p], w[p])) / (2 * gamma);
        const Real t = (zeta < 0 ? -1 : 1) / (std::fabs(zeta) + std::sqrt(zeta * zeta + Real{1}));
        const Real c = 1 / std::sqrt(t * t + 1), s = t * c;
        rotate(w[p], w[q], c, s);
        rotate(v[p], v[q], c, s);
      }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order,
                    [&](size_t x, size_t y) { return product(w[x], w[x]) > product(w[y], w[y]); });
  Factors f;
  for (size_t i : order) {
    const Real s = std::sqrt(product(w[i], w[i]));
    for (Real& x : w[i]) x /= s;
    f.u.push_back(w[i]);
    f.v.push_back(v[i]);
    f.s.push_back(s);
  }
  return f;
}
Factors factors_of(const Array& a, size_t k, bool full) {
  const auto rank = a.shape.size();
  const auto m = static_cast<size_t>(a.shape[rank - 2]), n = static_cast<size_t>(a.shape[rank - 1]);
  Factors f = decompose_tall(columns_of(a, k, m < n));
  if (m < n) std::swap(f.u, f.v);
  for (size_t i = 0; i < f.s.size(); ++i)
    if (sign_of(f.u[i]) < 0)
      for (Vector* x : {&f.u[i], &f.v[i]})
        for (Real& each : *x) each = -each;
  if (full) {
    complete(f.u, m, m);
    complete(f.v, n, n);
  }
  return f;
}

Arrays singular(const Array& a, bool full) {
  const auto rank = a.shape.size();
  const int64_t m = a.shape[rank - 2], n = a.shape[rank - 1], k = std::min(m, n);
  Array u = result(a, {m, full ? m : k}, a.dtype), s = result(a, {k}, a.dtype),
        vh = result(a, {full ? n : k, n}, a.dtype), failed = result(a, {}, bool_);
  for (size_t i = 0; i < count_of(a); ++i) {
    const Factors f = factors_of(a, i, full);
    put(u, i, f.u);
    put(vh, i, f.v, true);
    std::ranges::copy(f.s, s.values.begin() + static_cast<int64_t>(i * f.s.size()));
  }
  return {u, s, vh, failed};
}

bool counts(const Factors& f, size_t i, double rcond) {
  return f.s[i] > static_cast<Real>(rcond) * f.s[0];
}
Arrays pseudo_inverse(const Array& a, double rcond) {
  const auto rank = a.shape.size();
  Array p = result(a, {a.shape[rank - 1], a.shape[rank - 2]}, a.dtype);
  for (size_t k = 0; k < count_of(a); ++k) {
    const Factors f = factors_of(a, k, false);
    if (f.s.empty()) continue;
    Vectors columns(f.u[0].size(), Vector(f.v[0].size()));
    for (size_t i = 0; i < columns.size(); ++i)
      for (size_t r = 0; r < f.s.size(); ++r)
        for (size_t j = 0; counts(f, r, rcond) && j < f.v[0].size(); ++j)
          columns[i][j] += f.v[r][j] * f.u[r][i] / f.s[r];
    put(p, k, columns);
  }
  return {p, result(a, {}, bool_)};
}
Arrays least_squares(const Array& a, const Array& b, double rcond) {
  const auto rank = a.shape.size();
  const Array p = pseudo_inverse(a, rcond)[0];
  Array x = result(a, {a.shape[rank - 1], b.shape[rank - 1]}, a.dtype), ranks = result(a, {}, i64);
  for (size_t k = 0; k < count_of(a); ++k) {
    const Factors f = factors_of(a, k, false);
    for (size_t i = 0; i < f.s.size(); ++i) ranks.values[k] += counts(f, i, rcond) ? 1 : 0;
    const Vectors rows = columns_of(p, k, true), right = columns_of(b, k);
    Vectors found(right.size(), Vector(rows.size()));
    for (size_t j = 0; j < right.size(); ++j)
      for (size_t i = 0; i < rows.size(); ++i) found[j][i] = product(rows[i], right[j]);
    put(x, k, found);
  }
  return {x, ranks, singular(a, false)[1], result(a, {}, bool_)};
}

// Inputs times powers of 2 outside of these would overflow, and so would their inverses.
const References kSpectral{{
    within_exponents(100, reference<EighAttrs>("eigh",
                                               [](const Arrays& in, const EighAttrs& a) {
                                                 return eigen(in[0], a.upper);
                                               })),
    within_exponents(100, reference<EighAttrs>("eigvalsh",
                                               [](const Arrays& in, const EighAttrs& a) -> Arrays {
                                                 const Arrays f = eigen(in[0], a.upper);
                                                 return {f[0], f[2]};
                                               })),
    within_exponents(100, reference<SvdAttrs>("svd",
                                              [](const Arrays& in, const SvdAttrs& a) {
                                                return singular(in[0], a.full_matrices);
                                              })),
    within_exponents(100, reference("svdvals",
                                    [](const Arrays& in) -> Arrays {
                                      const Arrays f = singular(in[0], false);
                                      return {f[1], f[3]};
                                    })),
    within_exponents(40, reference<RcondAttrs>("pinv",
                                               [](const Arrays& in, const RcondAttrs& a) {
                                                 return pseudo_inverse(in[0], a.rcond);
                                               })),
    within_exponents(40, reference<RcondAttrs>("lstsq",
                                               [](const Arrays& in, const RcondAttrs& a) {
                                                 return least_squares(in[0], in[1], a.rcond);
                                               })),
}};

}  // namespace
}  // namespace locus::test
