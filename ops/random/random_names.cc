#include <locus/ops/named.h>
#include <locus/ops/random.h>

namespace locus {

void register_random_names() {
  ops::define(
      "uniform(low: float = 0, high: float = 1, size: ints = none, dtype: dtype = none, "
      "ctx: context = none)",
      [](const ops::Arguments& a) {
        return random::uniform(a["low"], a["high"], a["size"], a.options());
      });
  ops::define(
      "normal(loc: float = 0, scale: float = 1, size: ints = none, dtype: dtype = none, "
      "ctx: context = none)",
      [](const ops::Arguments& a) {
        return random::normal(a["loc"], a["scale"], a["size"], a.options());
      });
  ops::define(
      "randint(low: int, high: int, size: ints = none, dtype: dtype = none, ctx: context = none)",
      [](const ops::Arguments& a) {
        return random::randint(a["low"], a["high"], a["size"], a.options());
      });
  ops::define(
      "bernoulli(prob: float, size: ints = none, dtype: dtype = none, ctx: context = none)",
      [](const ops::Arguments& a) { return random::bernoulli(a["prob"], a["size"], a.options()); });
  ops::define("permutation(n: int, dtype: dtype = none, ctx: context = none)",
              [](const ops::Arguments& a) { return random::permutation(a["n"], a.options()); })
      .made_of({"copy", "copyto"})
      .no_gradient("has no inputs")
      .no_capture("it is drawn on the host");
  ops::define("shuffle(data)", [](const ops::Arguments& a) { return random::shuffle(a.tensor(0)); })
      .made_of({"take"})
      .no_capture("the order is drawn on the host");
}

}  // namespace locus
