// Calls by name of linear algebra. Samples are matrices of rank one plus a multiple of the
// identity.
#pragma once

#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/linalg.h>
#include "tests/registry/named_call.h"

namespace locus::test {

inline NamedCalls named_linalg() {
  using T = const Tensors&;
  using C = Context;
  const NamedInput square{{2, 3, 3}}, right{{3, 2}};
  return {
      {"cholesky",
       {{{1, 1}}},
       {{"upper", true}, {"check", false}},
       [](T x, C) { return cholesky(x[0], {.upper = true, .check = false}); }},
      {"solve",
       {square, right},
       {{"check", false}},
       [](T x, C) { return solve(x[0], x[1], {.check = false}); }},
      {"solve_triangular",
       {square, right},
       {{"upper", true}, {"transpose", true}, {"unit_diagonal", true}, {"check", false}},
       [](T x, C) {
         return solve_triangular(
             x[0], x[1], {.upper = true, .transpose = true, .unit_diagonal = true, .check = false});
       }},
      {"inv", {square}, {{"check", false}}, [](T x, C) { return inv(x[0], {.check = false}); }},
      {"lu",
       {square},
       {},
       [](T x, C) {
         const Lu f = lu(x[0]);
         return Tensors{f.p, f.l, f.u};
       }},
      {"det", {square}, {}, [](T x, C) { return det(x[0]); }},
      {"slogdet",
       {square},
       {},
       [](T x, C) {
         const Slogdet s = slogdet(x[0]);
         return std::pair(s.sign, s.logabsdet);
       }},
      {"qr",
       {{{2, 3, 4}}},
       {{"mode", "complete"}},
       [](T x, C) {
         const Qr f = qr(x[0], QrMode::complete);
         return std::pair(f.q, f.r);
       }},
      {"expm", {{{2, 3, 3}}}, {}, [](T x, C) { return expm(x[0]); }},
  };
}

}  // namespace locus::test
