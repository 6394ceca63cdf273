#include <locus/ops/linalg.h>
#include <locus/ops/named.h>

namespace locus {

void register_linalg_names() {
  ops::define("cholesky(a, upper: bool = false, check: bool = true)", [](const ops::Arguments& a) {
    return cholesky(a.tensor(0), {.upper = a["upper"], .check = a["check"]});
  }).made_of({"cholesky", "any"});
  ops::define("solve(a, b, check: bool = true)", [](const ops::Arguments& a) {
    return solve(a.tensor(0), a.tensor(1), {.check = a["check"]});
  }).made_of({"solve", "any", "broadcast_to"});
  ops::define(
      "solve_triangular(a, b, upper: bool = false, transpose: bool = false, "
      "unit_diagonal: bool = false, check: bool = true)",
      [](const ops::Arguments& a) {
        return solve_triangular(a.tensor(0), a.tensor(1),
                                {.upper = a["upper"],
                                 .transpose = a["transpose"],
                                 .unit_diagonal = a["unit_diagonal"],
                                 .check = a["check"]});
      })
      .made_of({"solve_triangular", "any", "broadcast_to"});
  ops::define("inv(a, check: bool = true)", [](const ops::Arguments& a) {
    return inv(a.tensor(0), {.check = a["check"]});
  }).made_of({"solve", "any", "broadcast_to", "fill"});
  ops::define("lu(a) -> 3", [](const ops::Arguments& a) {
    const Lu f = lu(a.tensor(0));
    return Tensors{f.p, f.l, f.u};
  }).made_of({"lu_factor", "triangle", "slice", "fill", "add", "equal", "arange"});
  ops::define("det(a)", [](const ops::Arguments& a) {
    return det(a.tensor(0));
  }).made_of({"det", "lu_factor", "diagonal", "prod", "multiply"});
  ops::define("slogdet(a) -> 2", [](const ops::Arguments& a) {
    const Slogdet s = slogdet(a.tensor(0));
    return std::pair(s.sign, s.logabsdet);
  }).made_of({"slogdet", "lu_factor", "diagonal", "sign", "prod", "multiply", "abs", "log", "sum"});
}

}  // namespace locus
