// Samples of the composites of ops/rearrange.h and ops/resize.h, and of their neighbours in
// ops/view.h and ops/join.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <tuple>

#include <locus/ops/join.h>
#include <locus/ops/rearrange.h>
#include <locus/ops/resize.h>
#include <locus/ops/view.h>
#include "tests/composites/composite.h"

namespace locus::test {

inline std::vector<Composite> rearrange_composites() {
  using O = TensorOptions;
  return {
      {"moveaxis",
       {{2, 3, 4}},
       [](const Tensors& x, O) -> Tensors { return {moveaxis(x[0], 0, -1)}; },
       [](const Hosts& x) -> Hosts {
         return {host({3, 4, x[0].shape[0]}, [&](const Indices& i) {
           return x[0].at({i[2], i[0], i[1]});
         })};
       },
       kAll,
       {},
       true},
      {"rot90",
       {{2, 3}},
       [](const Tensors& x, O) -> Tensors { return {rot90(x[0])}; },
       [](const Hosts& x) -> Hosts {
         return {host({3, x[0].shape[0]}, [&](const Indices& i) {
           return x[0].at({i[1], 2 - i[0]});
         })};
       },
       kAll,
       {},
       true},
      {"array_split",
       {{2, 5}},
       [](const Tensors& x, O) { return array_split(x[0], 3, {.axis = 1}); },
       [](const Hosts& x) {
         Hosts parts;
         for (int64_t k = 0; k < 3; ++k)
           parts.push_back(host({x[0].shape[0], k < 2 ? 2 : 1}, [&](const Indices& i) {
             return x[0].at({i[0], i[1] + 2 * k});
           }));
         return parts;
       },
       kAll,
       {},
       true},
      {"tril",
       {{3, 4}},
       [](const Tensors& x, O) -> Tensors { return {tril(x[0], -1)}; },
       [](const Hosts& x) -> Hosts {
         return {host(x[0].shape, [&](const Indices& i) { return i[1] < i[0] ? x[0].at(i) : 0; })};
       }},
      {"triu",
       {{3, 4}},
       [](const Tensors& x, O) -> Tensors { return {triu(x[0], 1)}; },
       [](const Hosts& x) -> Hosts {
         return {host(x[0].shape, [&](const Indices& i) { return i[1] > i[0] ? x[0].at(i) : 0; })};
       }},
      {"diag",
       {{3}},
       [](const Tensors& x, O) -> Tensors { return {diag(x[0], -1)}; },
       [](const Hosts& x) -> Hosts {
         const int64_t n = x[0].shape[0] + 1;
         return {host({n, n},
                      [&](const Indices& i) { return i[0] == i[1] + 1 ? x[0].at({i[1]}) : 0; })};
       }},
      {"meshgrid",
       {{3}, {2}},
       [](const Tensors& x, O) { return meshgrid(x); },
       [](const Hosts& x) -> Hosts {
         const Shape shape{x[1].shape[0], x[0].shape[0]};
         return {host(shape, [&](const Indices& i) { return x[0].at({i[1]}); }),
                 host(shape, [&](const Indices& i) { return x[1].at({i[0]}); })};
       }},
      {"space_to_depth",
       {{2, 2, 4, 6}},
       [](const Tensors& x, O) -> Tensors { return {space_to_depth(x[0], 2)}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0], 8, 2, 3}, [&](const Indices& i) {
           return x[0].at({i[0], i[1] % 2, i[2] * 2 + i[1] / 4, i[3] * 2 + i[1] / 2 % 2});
         })};
       }},
      {"depth_to_space",
       {{2, 8, 2, 3}},
       [](const Tensors& x, O) -> Tensors { return {depth_to_space(x[0], 2)}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0], 2, 4, 6}, [&](const Indices& i) {
           return x[0].at({i[0], (i[2] % 2 * 2 + i[3] % 2) * 2 + i[1], i[2] / 2, i[3] / 2});
         })};
       }},
      {"interpolate",
       {{2, 2, 3, 4}},
       [](const Tensors& x, O) -> Tensors {
         return {interpolate(x[0], {5, 3}, {.mode = InterpolateMode::bilinear})};
       },
       [](const Hosts& x) -> Hosts {
         // Neighbours along an axis of n elements, and the second one's weight.
         const auto between = [](int64_t i, double n, double m) {
           const double at = std::clamp((static_cast<double>(i) + .5) * n / m - .5, 0., n - 1);
           const int64_t low = static_cast<int64_t>(at);
           return std::tuple(low, std::min(low + 1, static_cast<int64_t>(n) - 1),
                             at - static_cast<double>(low));
         };
         return {host({x[0].shape[0], 2, 5, 3}, [&](const Indices& i) {
           const auto [a, b, row] = between(i[2], 3, 5);
           const auto [c, d, column] = between(i[3], 4, 3);
           const auto along = [&, c = c, d = d, column = column](int64_t r) {
             return (1 - column) * x[0].at({i[0], i[1], r, c}) +
                    column * x[0].at({i[0], i[1], r, d});
           };
           return (1 - row) * along(a) + row * along(b);
         })};
       },
       kFloating},
  };
}

}  // namespace locus::test
