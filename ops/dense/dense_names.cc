#include <locus/ops/dense.h>
#include <locus/ops/named.h>

namespace locus {

void register_dense_names() {
  ops::define(
      "dense(data, weight, bias = none, activation: none|relu = none, flatten: bool = true)",
      [](const ops::Arguments& a) {
        return dense(a.tensor(0), a.tensor(1), a.tensor(2), a["activation"], a["flatten"]);
      });
}

}  // namespace locus
