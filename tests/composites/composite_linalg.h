// Samples of the composites of ops/linalg.h, on matrices of 2 x 2 for which formulas are short.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/linalg.h>
#include "tests/composites/composite.h"

namespace locus::test {

// The singular values of a matrix of 2 x 2, by its trace and determinant.
inline std::pair<double, double> two_singular_values(const Host& x, int64_t k) {
  const double a = x.at({k, 0, 0}), b = x.at({k, 0, 1}), c = x.at({k, 1, 0}), d = x.at({k, 1, 1});
  const double sum = std::hypot(a + d, b - c), difference = std::hypot(a - d, b + c);
  return {(sum + difference) / 2, std::fabs(sum - difference) / 2};
}

inline std::vector<Composite> linalg_composites() {
  using O = TensorOptions;
  const auto shifted = [](const Tensor& x) {
    return x + eye(2, 0, 0, {x.context(), x.dtype()}) * 5;
  };
  // f(a, b, c, d, row, column) for each matrix (a, b; c, d).
  const auto by_matrix = [](const Host& x, const auto& f) {
    return host(x.shape, [&](const Indices& i) {
      const auto v = [&](int64_t r, int64_t c) { return x.at({i[0], r, c}) + (r == c ? 5 : 0); };
      return f(v(0, 0), v(0, 1), v(1, 0), v(1, 1), i[1], i[2]);
    });
  };
  const std::vector<DType> computed = {f32, f64};
  return {
      {"inv",
       {{3, 2, 2}},
       [=](const Tensors& x, O) -> Tensors { return {inv(shifted(x[0]))}; },
       [=](const Hosts& x) -> Hosts {
         return {by_matrix(x[0], [](double a, double b, double c, double d, int64_t r, int64_t k) {
           const double all[2][2] = {{d, -b}, {-c, a}};
           return all[r][k] / (a * d - b * c);
         })};
       },
       computed},
      {"lu",
       {{3, 2, 2}},
       [=](const Tensors& x, O) -> Tensors {
         const Lu f = lu(shifted(x[0]));
         return {f.p, f.l, f.u};
       },
       [=](const Hosts& x) -> Hosts {
         return {by_matrix(x[0], [](double, double, double, double, int64_t r,
                                    int64_t k) { return r == k ? 1. : 0.; }),
                 by_matrix(x[0],
                           [](double a, double, double c, double, int64_t r, int64_t k) {
                             return r == k ? 1. : r > k ? c / a : 0.;
                           }),
                 by_matrix(x[0], [](double a, double b, double c, double d, int64_t r, int64_t k) {
                   return r == 0 ? (k == 0 ? a : b) : k == 0 ? 0. : d - b * c / a;
                 })};
       },
       computed},
      {"expm",
       {{2, 3, 3}},
       [](const Tensors& x, O) -> Tensors { return {expm(x[0] * .25)}; },
       [](const Hosts& x) -> Hosts {
         Host term = host(x[0].shape, [](const Indices&i) { return i[1] == i[2]; }), sum = term;
         for (int n = 1; n < 40; ++n) {
           term = host(x[0].shape, [&](const Indices& i) {
             double product = 0;
             for (int64_t k = 0; k < 3; ++k)
               product += term.at({i[0], i[1], k}) * x[0].at({i[0], k, i[2]}) * .25 / n;
             return product;
           });
           for (size_t i = 0; i < sum.numbers.size(); ++i) sum.numbers[i] += term.numbers[i];
         }
         return {sum};
       },
       computed},
      {"matrix_rank",
       {{3, 2, 2}},
       [](const Tensors& x, O) -> Tensors { return {matrix_rank(x[0], {.tol = 1})}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0]}, [&](const Indices& i) {
           const auto [most, least] = two_singular_values(x[0], i[0]);
           return static_cast<double>(most > 1) + static_cast<double>(least > 1);
         })};
       },
       {f32, f64},
       i64},
      {"matrix_norm",
       {{3, 2, 2}},
       [](const Tensors& x, O) -> Tensors {
         return {matrix_norm(x[0], {.ord = "nuc"}), matrix_norm(x[0], {.ord = -2}),
                 matrix_norm(x[0], {.ord = 1})};
       },
       [](const Hosts& x) -> Hosts {
         const Shape shape{x[0].shape[0]};
         return {
             host(shape,
                  [&](const Indices& i) {
                    const auto [most, least] = two_singular_values(x[0], i[0]);
                    return most + least;
                  }),
             host(shape, [&](const Indices& i) { return two_singular_values(x[0], i[0]).second; }),
             host(shape, [&](const Indices& i) {
               const auto column = [&](int64_t j) {
                 return std::fabs(x[0].at({i[0], 0, j})) + std::fabs(x[0].at({i[0], 1, j}));
               };
               return std::max(column(0), column(1));
             })};
       },
       {f32, f64}},
      {"cond",
       {{3, 2, 2}},
       [](const Tensors& x, O) -> Tensors {
         return {cond(x[0], -2), cond(x[0], "fro")};
       },
       [](const Hosts& x) -> Hosts {
         const Shape shape{x[0].shape[0]};
         return {host(shape,
                      [&](const Indices& i) {
                        const auto [most, least] = two_singular_values(x[0], i[0]);
                        return least / most;
                      }),
                 host(shape, [&](const Indices& i) {
                   const auto [most, least] = two_singular_values(x[0], i[0]);
                   return (most * most + least * least) / (most * least);
                 })};
       },
       {f32, f64}},
  };
}

}  // namespace locus::test
