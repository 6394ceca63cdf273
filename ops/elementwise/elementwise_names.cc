#include <locus/ops/activation.h>
#include <locus/ops/bitwise.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/named.h>
#include <locus/ops/special.h>
#include <locus/ops/unary.h>

namespace locus {

// Ops of formulas without attributes have their names from their lists (call.h).
void register_elementwise_names() {
  ops::define("clip(data, a_min: float, a_max: float)",
              [](const ops::Arguments& a) { return clip(a.tensor(0), a["a_min"], a["a_max"]); });
  ops::define("smooth_l1(data, scalar: float = 1)",
              [](const ops::Arguments& a) { return smooth_l1(a.tensor(0), a["scalar"]); });
  ops::define("silu(data)", [](const ops::Arguments& a) { return silu(a.tensor(0)); });
  ops::define("swish(data, beta: float)", [](const ops::Arguments& a) {
    return swish(a.tensor(0), a["beta"]);
  }).made_of({"silu", "multiply"});
  ops::define("leaky_relu(data, slope: float = 0.25)",
              [](const ops::Arguments& a) { return leaky_relu(a.tensor(0), a["slope"]); });
  ops::define("prelu(data, alpha)",
              [](const ops::Arguments& a) { return prelu(a.tensor(0), a.tensor(1)); });
  ops::define("elu(data, alpha: float = 1)",
              [](const ops::Arguments& a) { return elu(a.tensor(0), a["alpha"]); });
  ops::define(
      "hard_sigmoid(data, alpha: float = 0.2, beta: float = 0.5)",
      [](const ops::Arguments& a) { return hard_sigmoid(a.tensor(0), a["alpha"], a["beta"]); });
  ops::define("softcap(data, c: float)",
              [](const ops::Arguments& a) { return softcap(a.tensor(0), a["c"]); });

  ops::define("bitwise_not(data)", [](const ops::Arguments& a) {
    return bitwise_not(a.tensor(0));
  }).made_of({"bitwise_not", "logical_not"});
  ops::define("around(data, decimals: int = 0)", [](const ops::Arguments& a) {
    return around(a.tensor(0), a["decimals"]);
  }).made_of({"around", "rint", "multiply", "divide", "isfinite", "where"});
  ops::define("nan_to_num(data, nan: float = 0, posinf: float = none, neginf: float = none)",
              [](const ops::Arguments& a) {
                return nan_to_num(a.tensor(0), a["nan"], a["posinf"].optional<double>(),
                                  a["neginf"].optional<double>());
              });
  ops::define("polygamma(data, n: int)",
              [](const ops::Arguments& a) { return polygamma(a["n"], a.tensor(0)); });
  ops::define("divmod(lhs: operand, rhs: operand) -> 2", [](const ops::Arguments& a) {
    return divmod(a.operand(0), a.operand(1));
  }).made_of({"floor_divide", "mod"});

  ops::alias("absolute", "abs");
  ops::alias("invert", "bitwise_not");
  ops::alias("fix", "trunc");
  ops::alias("pow", "power");
  ops::alias("true_divide", "divide");
  ops::alias("remainder", "mod");
  ops::alias("less", "lesser");
  ops::alias("less_equal", "lesser_equal");
}

}  // namespace locus
