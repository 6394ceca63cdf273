// A call by name of every function in ops::list(), and the same call of the function itself.
// Formulas without attributes need no entry: named_functions_test.cc, which walks the table, makes
// their calls from the registry.
#pragma once

#include "tests/registry/named_layers.h"
#include "tests/registry/named_linalg.h"
#include "tests/registry/named_math.h"
#include "tests/registry/named_numpy.h"
#include "tests/registry/named_products.h"
#include "tests/registry/named_shapes.h"

namespace locus::test {

inline NamedCalls named_calls() {
  NamedCalls all;
  for (const NamedCalls& table :
       {named_math(), named_layers(), named_shapes(), named_order(), named_products(),
        named_linalg(), named_rearrange(), named_statistics(), named_random()})
    all.insert(all.end(), table.begin(), table.end());
  return all;
}

}  // namespace locus::test
