// Samples of the composites of ops/einsum.h and ops/products.h.
#pragma once

#include <vector>

#include <locus/ops/einsum.h>
#include <locus/ops/products.h>
#include "tests/composites/composite.h"

namespace locus::test {

inline std::vector<Composite> products_composites() {
  using O = TensorOptions;
  const std::vector<DType> numbers = {f32, f64, f16, bf16, i32, i64, i8};
  return {
      {"einsum",
       {{2, 3, 2}, {4, 3}},
       [](const Tensors& x, O) -> Tensors { return {einsum("bij,ki->kjb", x)}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[1].shape[0], 2, x[0].shape[0]}, [&](const Indices& i) {
           double sum = 0;
           for (int64_t k = 0; k < 3; ++k) sum += x[0].at({i[2], k, i[1]}) * x[1].at({i[0], k});
           return sum;
         })};
       },
       numbers},
      {"tensordot",
       {{2, 2, 3}, {3, 2, 4}},
       [](const Tensors& x, O) -> Tensors {
         return {tensordot(x[0], x[1], {2, 1}, {0, 1})};
       },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0], 4}, [&](const Indices& i) {
           double sum = 0;
           for (int64_t k = 0; k < 6; ++k)
             sum += x[0].at({i[0], k % 2, k / 2}) * x[1].at({k / 2, k % 2, i[1]});
           return sum;
         })};
       },
       numbers},
      {"inner",
       {{2, 3}, {4, 3}},
       [](const Tensors& x, O) -> Tensors { return {inner(x[0], x[1])}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0], x[1].shape[0]}, [&](const Indices& i) {
           double sum = 0;
           for (int64_t k = 0; k < 3; ++k) sum += x[0].at({i[0], k}) * x[1].at({i[1], k});
           return sum;
         })};
       },
       numbers},
      {"vdot",
       {{2, 3}, {2, 3}},
       [](const Tensors& x, O) -> Tensors { return {vdot(x[0], x[1])}; },
       [](const Hosts& x) -> Hosts {
         double sum = 0;
         for (size_t i = 0; i < x[0].numbers.size(); ++i) sum += x[0].numbers[i] * x[1].numbers[i];
         return {{{}, {sum}}};
       },
       numbers},
      {"outer",
       {{2, 2}, {3}},
       [](const Tensors& x, O) -> Tensors { return {outer(x[0], x[1])}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0] * 2, 3}, [&](const Indices& i) {
           return x[0].numbers[static_cast<size_t>(i[0])] * x[1].at({i[1]});
         })};
       }},
      {"kron",
       {{2, 3}, {2, 2}},
       [](const Tensors& x, O) -> Tensors { return {kron(x[0], x[1])}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0] * 2, 6}, [&](const Indices& i) {
           return x[0].at({i[0] / 2, i[1] / 2}) * x[1].at({i[0] % 2, i[1] % 2});
         })};
       }},
      {"cross",
       {{2, 3}, {2, 3}},
       [](const Tensors& x, O) -> Tensors { return {cross(x[0], x[1])}; },
       [](const Hosts& x) -> Hosts {
         return {host(x[0].shape, [&](const Indices& i) {
           const int64_t p = (i[1] + 1) % 3, q = (i[1] + 2) % 3;
           return x[0].at({i[0], p}) * x[1].at({i[0], q}) - x[0].at({i[0], q}) * x[1].at({i[0], p});
         })};
       },
       numbers},
      {"trace",
       {{2, 3, 4}},
       [](const Tensors& x, O) -> Tensors { return {trace(x[0], 1, 1, 2)}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0]}, [&](const Indices& i) {
           double sum = 0;
           for (int64_t k = 0; k < 3; ++k) sum += x[0].at({i[0], k, k + 1});
           return sum;
         })};
       },
       kFloating},
      {"matrix_power",
       {{2, 2, 2}},
       [](const Tensors& x, O) -> Tensors { return {matrix_power(x[0], 3)}; },
       [](const Hosts& x) -> Hosts {
         return {host(x[0].shape, [&](const Indices& i) {
           double sum = 0;
           for (int64_t k = 0; k < 4; ++k)
             sum += x[0].at({i[0], i[1], k / 2}) * x[0].at({i[0], k / 2, k % 2}) *
                    x[0].at({i[0], k % 2, i[2]});
           return sum;
         })};
       },
       numbers},
      {"multi_dot",
       {{3, 2}, {2, 4}, {4}},
       [](const Tensors& x, O) -> Tensors { return {multi_dot(x)}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0]}, [&](const Indices& i) {
           double sum = 0;
           for (int64_t k = 0; k < 8; ++k)
             sum += x[0].at({i[0], k / 4}) * x[1].at({k / 4, k % 4}) * x[2].at({k % 4});
           return sum;
         })};
       },
       numbers},
  };
}

}  // namespace locus::test
