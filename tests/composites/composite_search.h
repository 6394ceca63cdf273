// Samples of the composites of ops/search.h.
#pragma once

#include <locus/ops/create.h>
#include <locus/ops/search.h>
#include "tests/composites/composite.h"

namespace locus::test {

inline std::vector<Composite> search_composites() {
  using O = TensorOptions;
  return {
      {"digitize",
       {{2, 5}},
       [](const Tensors& x, O o) -> Tensors {
         return {digitize(x[0], array({1.0, .25, -.75}, {*o.context, f64}))};
       },
       [](const Hosts& x) -> Hosts {
         return {host(x[0].shape, [&](const Indices& i) {
           const double v = x[0].at(i);
           return v >= 1 ? 0. : v >= .25 ? 1. : v >= -.75 ? 2. : 3.;
         })};
       },
       kAll,
       i64},
  };
}

}  // namespace locus::test
