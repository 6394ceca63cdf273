// Samples of the composites of ops/gather.h.
#pragma once

#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/gather.h>
#include "tests/composites/composite.h"

namespace locus::test {

inline std::vector<Composite> gather_composites() {
  using O = TensorOptions;
  return {
      {"take_along_axis",
       {{2, 3}},
       [](const Tensors& x, O o) -> Tensors {
         return {take_along_axis(x[0], array({{2, 0, 2, -2}}, *o.context))};
       },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0], 4}, [&](const Indices& i) {
           return x[0].at({i[0], i[1] == 3 ? 1 : i[1] == 1 ? 0 : 2});
         })};
       }},
      {"put_along_axis",
       {{2, 3}},
       [](const Tensors& x, O o) -> Tensors {
         return {put_along_axis(x[0], array({{1}}, *o.context), 1, {.inplace = false})};
       },
       [](const Hosts& x) -> Hosts {
         return {host(x[0].shape, [&](const Indices& i) { return i[1] == 1 ? 1 : x[0].at(i); })};
       }},
      {"gather_nd",
       {{2, 3}},
       [](const Tensors& x, O o) -> Tensors {
         return {gather_nd(x[0].T(), array({{2, 0}}, *o.context))};
       },
       [](const Hosts& x) -> Hosts {
         return {host({2, x[0].shape[0]}, [&](const Indices& i) {
           return x[0].at({i[1], 2 - 2 * i[0]});
         })};
       }},
      {"scatter_nd",
       {{2, 3}},
       [](const Tensors& x, O o) -> Tensors {
         return {scatter_nd(x[0].T(), array({{3, 0, 1}}, *o.context), {4, x[0].shape()[0]})};
       },
       [](const Hosts& x) -> Hosts {
         return {host({4, x[0].shape[0]}, [&](const Indices& i) {
           return i[0] == 2 ? 0 : x[0].at({i[1], (i[0] + 1) % 4});
         })};
       }},
      {"compress",
       {{2, 3}},
       [](const Tensors& x, O o) -> Tensors {
         return {compress(array({0, 1}, *o.context), x[0], {.axis = 1})};
       },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0], 1}, [&](const Indices& i) { return x[0].at({i[0], 1}); })};
       }},
      {"sequence_mask",
       {{2, 3}},
       [](const Tensors& x, O o) -> Tensors {
         return {sequence_mask(x[0], array({1, 0, 2}, *o.context), {.value = 1})};
       },
       [](const Hosts& x) -> Hosts {
         return {host(x[0].shape, [&](const Indices& i) {
           return i[1] == 2 || (i[1] == 0 && i[0] == 0) ? x[0].at(i) : 1;
         })};
       }},
      {"argwhere",
       {{2, 3}},
       [](const Tensors& x, O) -> Tensors {
         return {argwhere(where(x[0] > 0, x[0], zeros_like(x[0])))};
       },
       [](const Hosts& x) -> Hosts {
         Host at{{0, 2}, {}};
         int64_t n = 0;
         host(x[0].shape, [&](const Indices& i) {
           if (x[0].at(i) > 0) at.numbers.insert(at.numbers.end(), i.begin(), i.end()), ++n;
           return 0;
         });
         at.shape = {n, 2};
         return {at};
       },
       kAll,
       i64},
  };
}

}  // namespace locus::test
