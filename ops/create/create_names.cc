#include <locus/ops/create.h>
#include <locus/ops/named.h>

namespace locus {

void register_create_names() {
  ops::define("empty(shape: ints, dtype: dtype = none, ctx: context = none)",
              [](const ops::Arguments& a) { return empty(a["shape"], a.options()); })
      .no_gradient("has no inputs");
  ops::define("zeros(shape: ints, dtype: dtype = none, ctx: context = none)",
              [](const ops::Arguments& a) { return zeros(a["shape"], a.options()); })
      .made_of({"fill"});
  ops::define("ones(shape: ints, dtype: dtype = none, ctx: context = none)",
              [](const ops::Arguments& a) { return ones(a["shape"], a.options()); })
      .made_of({"fill"});
  ops::define(
      "full(shape: ints, fill_value: number, dtype: dtype = none, ctx: context = none)",
      [](const ops::Arguments& a) { return full(a["shape"], a["fill_value"], a.options()); })
      .made_of({"fill"});
  ops::define("zeros_like(data, dtype: dtype = none, ctx: context = none)",
              [](const ops::Arguments& a) { return zeros_like(a.tensor(0), a.options()); })
      .made_of({"fill"});
  ops::define("ones_like(data, dtype: dtype = none, ctx: context = none)",
              [](const ops::Arguments& a) { return ones_like(a.tensor(0), a.options()); })
      .made_of({"fill"});
  ops::define(
      "arange(stop: float, start: float = 0, step: float = 1, dtype: dtype = none, "
      "ctx: context = none)",
      [](const ops::Arguments& a) {
        return arange(a["start"], a["stop"], a["step"], a.options());
      });
  ops::define(
      "linspace(start: float, stop: float, num: int = 50, endpoint: bool = true, "
      "dtype: dtype = none, ctx: context = none)",
      [](const ops::Arguments& a) {
        const bool endpoint = a["endpoint"];
        return linspace(a["start"], a["stop"], a["num"], endpoint, a.options());
      })
      .made_of({"arange"});
  ops::define("eye(N: int, M: int = 0, k: int = 0, dtype: dtype = none, ctx: context = none)",
              [](const ops::Arguments& a) { return eye(a["N"], a["M"], a["k"], a.options()); })
      .made_of({"fill"});
}

}  // namespace locus
