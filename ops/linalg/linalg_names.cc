#include <locus/ops/linalg.h>
#include <locus/ops/named.h>

namespace locus {
namespace {

enum class Uplo { L, U };

EighOptions read_eigh_options(const ops::Arguments& a) {
  const Uplo read = a["UPLO"];
  return {.upper = read == Uplo::U, .check = a["check"]};
}
MatrixOrd read_order(const ops::Argument& a, const MatrixOrd& fallback) {
  if (a.none()) return fallback;
  if (const auto* text = a.value().get<std::string>()) return MatrixOrd(std::string_view(*text));
  return MatrixOrd(static_cast<double>(a));
}
RcondOptions read_rcond_options(const ops::Arguments& a) {
  return {.rcond = a["rcond"].optional<double>(), .check = a["check"]};
}

}  // namespace

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
  }).made_of({"det", "lu_factor", "diagonal", "sign", "prod", "multiply", "equal", "where"});
  ops::define("slogdet(a) -> 2", [](const ops::Arguments& a) {
    const Slogdet s = slogdet(a.tensor(0));
    return std::pair(s.sign, s.logabsdet);
  }).made_of({"slogdet", "lu_factor", "diagonal", "sign", "prod", "multiply", "abs", "log", "sum"});
  ops::define("qr(a, mode: reduced|complete|r = reduced) -> tensors", [](const ops::Arguments& a) {
    const QrMode mode = a["mode"];
    const Qr f = qr(a.tensor(0), mode);
    return mode == QrMode::r ? Tensors{f.r} : Tensors{f.q, f.r};
  }).made_of({"qr", "qr_r"});
  ops::define("expm(a)", [](const ops::Arguments& a) { return expm(a.tensor(0)); })
      .made_of(
          {"solve", "matmul", "multiply", "add", "subtract", "where", "fill", "abs", "sum", "max"})
      .no_capture("the host reads the norms");
  ops::define("eigh(a, UPLO: L|U = L, check: bool = true) -> 2", [](const ops::Arguments& a) {
    const Eigh f = eigh(a.tensor(0), read_eigh_options(a));
    return std::pair(f.eigenvalues, f.eigenvectors);
  }).made_of({"eigh", "any"});
  ops::define("eigvalsh(a, UPLO: L|U = L, check: bool = true)", [](const ops::Arguments& a) {
    return eigvalsh(a.tensor(0), read_eigh_options(a));
  }).made_of({"eigvalsh", "any"});
  ops::define(
      "svd(a, full_matrices: bool = true, compute_uv: bool = true, check: bool = true) -> tensors",
      [](const ops::Arguments& a) {
        if (!a["compute_uv"]) return Tensors{svdvals(a.tensor(0), {.check = a["check"]})};
        const Svd f = svd(a.tensor(0), {.full_matrices = a["full_matrices"], .check = a["check"]});
        return Tensors{f.u, f.s, f.vh};
      })
      .made_of({"svd", "svdvals", "any"});
  ops::define("svdvals(a, check: bool = true)", [](const ops::Arguments& a) {
    return svdvals(a.tensor(0), {.check = a["check"]});
  }).made_of({"svdvals", "any"});
  ops::define("pinv(a, rcond: float = none, check: bool = true)", [](const ops::Arguments& a) {
    return pinv(a.tensor(0), read_rcond_options(a));
  }).made_of({"svd", "any", "divide", "greater", "matmul", "max", "multiply", "where"});
  ops::define("lstsq(a, b, rcond: float = none, check: bool = true) -> 4",
              [](const ops::Arguments& a) {
                const Lstsq f = lstsq(a.tensor(0), a.tensor(1), read_rcond_options(a));
                return Tensors{f.x, f.residuals, f.rank, f.s};
              })
      .made_of({"svd", "any", "all", "divide", "equal", "fill", "greater", "matmul", "max",
                "multiply", "square", "subtract", "sum", "where"});
  ops::define("matrix_rank(a, tol: float = none, rtol: float = none, check: bool = true)",
              [](const ops::Arguments& a) {
                return matrix_rank(a.tensor(0), {.tol = a["tol"].optional<double>(),
                                                 .rtol = a["rtol"].optional<double>(),
                                                 .check = a["check"]});
              })
      .made_of({"svdvals", "any", "max", "multiply", "greater", "sum"})
      .no_gradient("the result is a number of singular values");
  ops::define("matrix_norm(x, ord: float|text = fro, keepdims: bool = false)",
              [](const ops::Arguments& a) {
                return matrix_norm(a.tensor(0),
                                   {.ord = read_order(a["ord"], "fro"), .keepdims = a["keepdims"]});
              })
      .made_of({"norm", "svdvals", "sum", "abs", "max", "min", "slice"});
  ops::define("cond(a, p: float|text = none)",
              [](const ops::Arguments& a) { return cond(a.tensor(0), read_order(a["p"], 2)); })
      .made_of({"svdvals", "solve", "norm", "sum", "abs", "max", "min", "slice", "divide", "equal",
                "fill", "isnan", "logical_and", "logical_not", "logical_or", "multiply", "where"});
}

}  // namespace locus
