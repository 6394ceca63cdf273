#include <locus/ops/linalg.h>
#include <locus/ops/named.h>

namespace locus {

void register_qr_names() {
  ops::define("qr(a, mode: reduced|complete|r = reduced) -> tensors", [](const ops::Arguments& a) {
    const QrMode mode = a["mode"];
    const Qr f = qr(a.tensor(0), mode);
    return mode == QrMode::r ? Tensors{f.r} : Tensors{f.q, f.r};
  }).made_of({"qr", "qr_r"});
  ops::define("expm(a)", [](const ops::Arguments& a) { return expm(a.tensor(0)); })
      .made_of(
          {"solve", "matmul", "multiply", "add", "subtract", "where", "fill", "abs", "sum", "max"})
      .no_capture("the host reads the norms");
}

}  // namespace locus
