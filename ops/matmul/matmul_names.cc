#include <locus/ops/matmul.h>
#include <locus/ops/named.h>

namespace locus {

void register_matmul_names() {
  ops::define("dot(a, b)", [](const ops::Arguments& a) {
    return dot(a.tensor(0), a.tensor(1));
  }).made_of({"matmul"});
  ops::define(
      "matmul(a, b, transpose_a: bool = false, transpose_b: bool = false, out: tensor = none)",
      [](const ops::Arguments& a) {
        const MatmulAttrs transposes{a["transpose_a"], a["transpose_b"]};
        const Tensor out = a["out"];
        if (!transposes.transpose_a && !transposes.transpose_b && !out.defined())
          return matmul(a.tensor(0), a.tensor(1));
        return matmul(a.tensor(0), a.tensor(1), transposes, out);
      });
}

}  // namespace locus
