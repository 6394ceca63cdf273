// Calls by name of products of tensors.
#pragma once

#include <locus/ops/einsum.h>
#include <locus/ops/products.h>
#include "tests/registry/named_call.h"

namespace locus::test {

inline NamedCalls named_products() {
  using T = const Tensors&;
  using C = Context;
  const NamedInput m{{2, 3}}, square{{2, 3, 3}};
  return {
      {"einsum",
       {{{2, 3, 4}}, {{4, 5}}, {{3}}},
       {{"subscripts", "bij,jk,i->kb"}},
       [](T x, C) { return einsum("bij,jk,i->kb", x); }},
      {"tensordot",
       {{{2, 3, 4}}, {{4, 5}}},
       {{"axes", 1}},
       [](T x, C) { return tensordot(x[0], x[1], 1); }},
      {"inner", {m, {{4, 3}}}, {}, [](T x, C) { return inner(x[0], x[1]); }},
      {"vdot", {m, {{6}}}, {}, [](T x, C) { return vdot(x[0], x[1]); }},
      {"outer", {m, {{4}}}, {}, [](T x, C) { return outer(x[0], x[1]); }},
      {"kron", {m, {{2, 2}}}, {}, [](T x, C) { return kron(x[0], x[1]); }},
      {"cross",
       {{{3, 4}}, {{4, 3}}},
       {{"axisa", 0}, {"axisc", 0}},
       [](T x, C) { return cross(x[0], x[1], {.axisa = 0, .axisc = 0}); }},
      {"trace",
       {square},
       {{"offset", 1}, {"axis1", 2}, {"axis2", 1}},
       [](T x, C) { return trace(x[0], 1, 2, 1); }},
      {"matrix_power", {square}, {{"n", 3}}, [](T x, C) { return matrix_power(x[0], 3); }},
      {"multi_dot", {m, {{3, 4}}, {{4}}}, {}, [](T x, C) { return multi_dot(x); }},
  };
}

}  // namespace locus::test
