#include <locus/ops/named.h>
#include <locus/ops/softmax.h>

namespace locus {

void register_softmax_names() {
  ops::define("softmax(data, axis: int = -1, temperature: float = 1)", [](const ops::Arguments& a) {
    return softmax(a.tensor(0), {.axis = a["axis"], .temperature = a["temperature"]});
  });
  ops::define(
      "log_softmax(data, axis: int = -1, temperature: float = 1)", [](const ops::Arguments& a) {
        return log_softmax(a.tensor(0), {.axis = a["axis"], .temperature = a["temperature"]});
      });
  ops::define("softmax_cross_entropy(logits, labels)", [](const ops::Arguments& a) {
    return softmax_cross_entropy(a.tensor(0), a.tensor(1));
  });
}

}  // namespace locus
