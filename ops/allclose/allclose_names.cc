#include <locus/ops/allclose.h>
#include <locus/ops/create.h>
#include <locus/ops/named.h>

namespace locus {

void register_allclose_names() {
  ops::define(
      "allclose(a: operand, b: operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = "
      "false)",
      [](const ops::Arguments& a) {
        const bool close =
            allclose(a.operand(0), a.operand(1),
                     {.rtol = a["rtol"], .atol = a["atol"], .equal_nan = a["equal_nan"]});
        return full({}, close, {cpu(), bool_});
      })
      .made_of({"equal", "subtract", "abs", "multiply", "add", "lesser_equal", "isfinite", "isnan",
                "logical_and", "logical_or", "all", "fill"})
      .no_gradient("the result is a truth value, on cpu(0)")
      .no_capture("the host reads the result");
}

}  // namespace locus
