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
  const NamedInput square{{2, 3, 3}}, right{{3, 2}}, tall{{2, 4, 3}};
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
      {"eigh",
       {square},
       {{"UPLO", "U"}},
       [](T x, C) {
         const Eigh f = eigh(x[0], {.upper = true});
         return std::pair(f.eigenvalues, f.eigenvectors);
       }},
      {"eigvalsh",
       {square},
       {{"UPLO", "U"}},
       [](T x, C) { return eigvalsh(x[0], {.upper = true}); }},
      {"svd",
       {tall},
       {{"full_matrices", false}, {"check", false}},
       [](T x, C) {
         const Svd f = svd(x[0], {.full_matrices = false, .check = false});
         return Tensors{f.u, f.s, f.vh};
       }},
      {"svdvals", {tall}, {}, [](T x, C) { return svdvals(x[0]); }},
      {"pinv", {tall}, {{"rcond", .1}}, [](T x, C) { return pinv(x[0], {.rcond = .1}); }},
      {"lstsq",
       {tall, {{4, 2}}},
       {{"rcond", 1e-3}},
       [](T x, C) {
         const Lstsq f = lstsq(x[0], x[1], {.rcond = 1e-3});
         return Tensors{f.x, f.residuals, f.rank, f.s};
       }},
      {"matrix_rank", {tall}, {{"tol", .5}}, [](T x, C) { return matrix_rank(x[0], {.tol = .5}); }},
      {"matrix_norm",
       {tall},
       {{"ord", "nuc"}, {"keepdims", true}},
       [](T x, C) { return matrix_norm(x[0], {.ord = "nuc", .keepdims = true}); }},
      {"cond", {square}, {{"p", -2}}, [](T x, C) { return cond(x[0], -2); }},
  };
}

}  // namespace locus::test
