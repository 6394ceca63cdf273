// Samples of the composites of ops/linalg.h, on matrices of 2 x 2 that need no exchange of rows.
#pragma once

#include <vector>

#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/linalg.h>
#include "tests/composites/composite.h"

namespace locus::test {

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
  };
}

}  // namespace locus::test
