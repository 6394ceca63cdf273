// Samples of every composite (a function of ops/*.h made of other ops) with an independent formula
// on host numbers. composites_test.cc walks them.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include <locus/ops/activation.h>
#include <locus/ops/bitwise.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/join.h>
#include <locus/ops/matmul.h>
#include <locus/ops/order.h>
#include <locus/ops/pooling.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>
#include "tests/composites/composite_gather.h"
#include "tests/composites/composite_linalg.h"
#include "tests/composites/composite_products.h"
#include "tests/composites/composite_rearrange.h"
#include "tests/composites/composite_search.h"
#include "tests/composites/composite_statistics.h"

namespace locus::test {

inline std::vector<Composite> listed_composites() {
  using O = TensorOptions;
  return {
      {"tile",
       {{2, 3}},
       [](const Tensors& x, O) -> Tensors {
         return {tile(x[0], {2, 1, 2})};
       },
       [](const Hosts& x) -> Hosts {
         return {host({2, x[0].shape[0], 6}, [&](const Indices& i) {
           return x[0].at({i[1], i[2] % 3});
         })};
       }},
      {"repeat",
       {{2, 3}},
       [](const Tensors& x, O) -> Tensors { return {repeat(x[0], 2, 1)}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0], 6}, [&](const Indices& i) {
           return x[0].at({i[0], i[1] / 2});
         })};
       }},
      {"flip",
       {{2, 3, 2}},
       [](const Tensors& x, O) -> Tensors { return {flip(x[0], 1)}; },
       [](const Hosts& x) -> Hosts {
         return {host(x[0].shape, [&](const Indices& i) {
           return x[0].at({i[0], 2 - i[1], i[2]});
         })};
       },
       kAll,
       {},
       true},
      {"slice_axis",
       {{2, 5}},
       [](const Tensors& x, O) -> Tensors { return {slice_axis(x[0], -1, Slice(1, 4))}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0], 3}, [&](const Indices& i) {
           return x[0].at({i[0], i[1] + 1});
         })};
       },
       kAll,
       {},
       true},
      {"split",
       {{2, 6}},
       [](const Tensors& x, O) { return split(x[0], 3); },
       [](const Hosts& x) {
         Hosts parts;
         for (int64_t k = 0; k < 3; ++k)
           parts.push_back(host({x[0].shape[0], 2}, [&](const Indices& i) {
             return x[0].at({i[0], i[1] + 2 * k});
           }));
         return parts;
       },
       kAll,
       {},
       true},
      {"squeeze",
       {{2, 1, 3}},
       [](const Tensors& x, O) -> Tensors { return {squeeze(x[0], 1)}; },
       [](const Hosts& x) -> Hosts {
         return {{{x[0].shape[0], 3}, x[0].numbers}};
       },
       kAll,
       {},
       true},
      {"expand_dims",
       {{2, 3}},
       [](const Tensors& x, O) -> Tensors { return {expand_dims(x[0], -2)}; },
       [](const Hosts& x) -> Hosts {
         return {{{x[0].shape[0], 1, 3}, x[0].numbers}};
       },
       kAll,
       {},
       true},
      {"swapaxes",
       {{2, 3, 4}},
       [](const Tensors& x, O) -> Tensors { return {swapaxes(x[0], 0, 2)}; },
       [](const Hosts& x) -> Hosts {
         return {host({4, 3, x[0].shape[0]}, [&](const Indices& i) {
           return x[0].at({i[2], i[1], i[0]});
         })};
       },
       kAll,
       {},
       true},
      {"flatten",
       {{2, 3, 4}},
       [](const Tensors& x, O) -> Tensors { return {flatten(x[0])}; },
       [](const Hosts& x) -> Hosts {
         return {{{x[0].shape[0], 12}, x[0].numbers}};
       },
       kAll,
       {},
       true},
      {"cast",
       {{2, 3}},
       [](const Tensors& x, O) -> Tensors { return {cast(x[0], f64)}; },
       [](const Hosts& x) -> Hosts { return {x[0]}; },
       kAll,
       f64},
      {"dot",
       {{2, 2, 3}, {3, 2}},
       [](const Tensors& x, O) -> Tensors { return {dot(x[0], x[1])}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0], 2, x[1].shape[1]}, [&](const Indices& i) {
           double sum = 0;
           for (int64_t k = 0; k < x[1].shape[0]; ++k)
             sum += x[0].at({i[0], i[1], k}) * x[1].at({k, i[2]});
           return sum;
         })};
       },
       {f32, f64, f16, bf16, i32, i64}},
      {"remainder",
       {{2, 3}, {2, 3}},
       [](const Tensors& x, O) -> Tensors { return {remainder(x[0], x[1])}; },
       [](const Hosts& x) -> Hosts {
         return {host(x[0].shape, [&](const Indices& i) {
           const double a = x[0].at(i), b = x[1].at(i);
           return a - b * std::floor(a / b);
         })};
       },
       kFloating,
       {},
       false,
       false,
       .5},
      {"divmod",
       {{2, 3}, {2, 3}},
       [](const Tensors& x, O) -> Tensors {
         const auto [quotient, rest] = divmod(x[0], x[1]);
         return {quotient, rest};
       },
       [](const Hosts& x) -> Hosts {
         const auto quotient = [&](const Indices& i) {
           return std::floor(x[0].at(i) / x[1].at(i));
         };
         return {host(x[0].shape, quotient), host(x[0].shape, [&](const Indices& i) {
                   return x[0].at(i) - x[1].at(i) * quotient(i);
                 })};
       },
       kFloating,
       {},
       false,
       false,
       .5},
      {"invert",
       {{2, 3}},
       [](const Tensors& x, O) -> Tensors { return {invert(x[0])}; },
       [](const Hosts& x) -> Hosts {
         return {host(x[0].shape, [&](const Indices& i) { return -1 - x[0].at(i); })};
       },
       {i32, i64, i8}},
      {"pow",
       {{2, 3}, {2, 3}},
       [](const Tensors& x, O) -> Tensors { return {pow(x[0], x[1])}; },
       [](const Hosts& x) -> Hosts {
         return {
             host(x[0].shape, [&](const Indices& i) { return std::pow(x[0].at(i), x[1].at(i)); })};
       },
       kFloating,
       {},
       false,
       false,
       .5},
      {"swish",
       {{2, 3}},
       [](const Tensors& x, O) -> Tensors { return {swish(x[0], 1.7)}; },
       [](const Hosts& x) -> Hosts {
         return {host(x[0].shape, [&](const Indices& i) {
           return x[0].at(i) / (1 + std::exp(-1.7 * x[0].at(i)));
         })};
       },
       kFloating},
      {"nonzero",
       {{2, 3}},
       [](const Tensors& x, O) { return nonzero(where(x[0] > 0, x[0], zeros_like(x[0]))); },
       [](const Hosts& x) {
         Indices rows, columns;
         host(x[0].shape, [&](const Indices& i) {
           if (x[0].at(i) > 0) rows.push_back(i[0]), columns.push_back(i[1]);
           return 0;
         });
         const auto list = [](const Indices& axis) {
           return Host{{axis.size()}, {axis.begin(), axis.end()}};
         };
         return Hosts{list(rows), list(columns)};
       },
       kAll,
       i64},
      {"lexsort",
       {{3, 5}, {3, 5}},
       [](const Tensors& x, O) -> Tensors {
         return {lexsort({x[0], floor(x[1])})};
       },
       [](const Hosts& x) -> Hosts {
         return {host(x[0].shape, [&](const Indices& i) {
           Indices ids{0, 1, 2, 3, 4};
           std::ranges::stable_sort(ids, [&](int64_t a, int64_t b) {
             const auto key = [&](int64_t k) {
               return std::pair(std::floor(x[1].at({i[0], k})), x[0].at({i[0], k}));
             };
             return key(a) < key(b);
           });
           return static_cast<double>(ids[static_cast<size_t>(i[1])]);
         })};
       },
       kAll,
       i64},
      {"global_max_pool",
       {{2, 2, 3, 4}},
       [](const Tensors& x, O) -> Tensors { return {global_max_pool(x[0])}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0], 2, 1, 1}, [&](const Indices& i) {
           double most = -INFINITY;
           for (int64_t k = 0; k < 12; ++k)
             most = std::max(most, x[0].at({i[0], i[1], k / 4, k % 4}));
           return most;
         })};
       },
       kFloating},
      {"global_avg_pool",
       {{2, 2, 3, 4}},
       [](const Tensors& x, O) -> Tensors { return {global_avg_pool(x[0])}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0], 2, 1, 1}, [&](const Indices& i) {
           double sum = 0;
           for (int64_t k = 0; k < 12; ++k) sum += x[0].at({i[0], i[1], k / 4, k % 4});
           return sum / 12;
         })};
       },
       kFloating},
      {"adaptive_avg_pool",
       {{2, 2, 3, 5}},
       [](const Tensors& x, O) -> Tensors {
         return {adaptive_avg_pool(x[0], {2, 3})};
       },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0], 2, 2, 3}, [&](const Indices& i) {
           double sum = 0;
           int64_t n = 0;
           for (int64_t r = i[2] * 3 / 2; r < (i[2] * 3 + 4) / 2; ++r)
             for (int64_t k = i[3] * 5 / 3; k < (i[3] * 5 + 7) / 3; ++k, ++n)
               sum += x[0].at({i[0], i[1], r, k});
           return sum / static_cast<double>(n);
         })};
       },
       kFloating},
      {"shuffle",
       {{5}},
       [](const Tensors& x, O) -> Tensors { return {random::shuffle(x[0])}; },
       [](const Hosts& x) -> Hosts { return {x[0]}; },
       kAll,
       {},
       false,
       true},
      {"permutation",
       {},
       [](const Tensors&, O o) -> Tensors { return {random::permutation(6, o)}; },
       [](const Hosts&) -> Hosts {
         return {host({6}, [](const Indices& i) { return static_cast<double>(i[0]); })};
       },
       {f32, f64, i32, i64},
       {},
       false,
       true},
      {"eye",
       {},
       [](const Tensors&, O o) -> Tensors { return {eye(3, 4, -1, o)}; },
       [](const Hosts&) -> Hosts {
         return {host({3, 4}, [](const Indices& i) { return i[1] - i[0] == -1 ? 1. : 0.; })};
       }},
      {"zeros",
       {},
       [](const Tensors&, O o) -> Tensors {
         return {zeros({2, 3}, o)};
       },
       [](const Hosts&) -> Hosts {
         return {host({2, 3}, [](const Indices&) { return 0; })};
       }},
      {"ones",
       {},
       [](const Tensors&, O o) -> Tensors {
         return {ones({2, 3}, o)};
       },
       [](const Hosts&) -> Hosts {
         return {host({2, 3}, [](const Indices&) { return 1; })};
       }},
      {"full",
       {},
       [](const Tensors&, O o) -> Tensors {
         return {full({2, 3}, 1, o)};
       },
       [](const Hosts&) -> Hosts {
         return {host({2, 3}, [](const Indices&) { return 1; })};
       }},
      {"zeros_like",
       {{2, 3}},
       [](const Tensors& x, O) -> Tensors { return {zeros_like(x[0])}; },
       [](const Hosts& x) -> Hosts {
         return {host(x[0].shape, [](const Indices&) { return 0; })};
       }},
      {"ones_like",
       {{2, 3}},
       [](const Tensors& x, O) -> Tensors { return {ones_like(x[0])}; },
       [](const Hosts& x) -> Hosts {
         return {host(x[0].shape, [](const Indices&) { return 1; })};
       }},
      {"linspace",
       {},
       [](const Tensors&, O o) -> Tensors { return {linspace(1, 3, 5, o)}; },
       [](const Hosts&) -> Hosts {
         return {host({5}, [](const Indices& i) { return 1 + .5 * static_cast<double>(i[0]); })};
       },
       kFloating},
  };
}

inline const std::vector<Composite>& composites() {
  static const std::vector<Composite> all = [] {
    std::vector<Composite> list = listed_composites();
    for (Composite& f : gather_composites()) list.push_back(std::move(f));
    for (Composite& f : linalg_composites()) list.push_back(std::move(f));
    for (Composite& f : products_composites()) list.push_back(std::move(f));
    for (Composite& f : rearrange_composites()) list.push_back(std::move(f));
    for (Composite& f : search_composites()) list.push_back(std::move(f));
    for (Composite& f : statistics_composites()) list.push_back(std::move(f));
    return list;
  }();
  return all;
}

}  // namespace locus::test
