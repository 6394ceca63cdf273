#include <span>
#include <utility>
#include <vector>

#include <locus/ops/named.h>
#include <locus/ops/reduce.h>

namespace locus {

ops::Argument::operator Axes() const {
  if (none()) return {};
  const std::vector<int> axes = *this;
  return Axes(std::span(axes));
}

void register_reduce_names() {
  using Reduce = Tensor (*)(const Tensor&, const ReduceOptions&, Caller);
  static constexpr std::pair<const char*, Reduce> kAll[] = {
      {"sum", sum},       {"mean", mean},
      {"prod", prod},     {"max", max},
      {"min", min},       {"any", any},
      {"all", all},       {"argmax", argmax},
      {"argmin", argmin}, {"logsumexp", logsumexp}};
  for (const auto& [name, function] : kAll)
    ops::define(
        text_of(name, "(data, axis: ints = none, keepdims: bool = false, out: tensor = none)"),
        [f = function](const ops::Arguments& a) {
          return f(a.tensor(0), {.axis = a["axis"], .keepdims = a["keepdims"], .out = a["out"]},
                   Caller::here());
        });

  using Spread = Tensor (*)(const Tensor&, const VarOptions&, Caller);
  for (const auto& [name, function] : {std::pair<const char*, Spread>("var", var), {"std", std}})
    ops::define(
        text_of(name,
                "(data, axis: ints = none, ddof: float = 0, keepdims: bool = false, "
                "out: tensor = none)"),
        [f = function](const ops::Arguments& a) {
          return f(
              a.tensor(0),
              {.axis = a["axis"], .ddof = a["ddof"], .keepdims = a["keepdims"], .out = a["out"]},
              Caller::here());
        });
  ops::define(
      "norm(data, ord: float = 2, axis: ints = none, keepdims: bool = false, out: tensor = none)",
      [](const ops::Arguments& a) {
        return norm(
            a.tensor(0),
            {.ord = a["ord"], .axis = a["axis"], .keepdims = a["keepdims"], .out = a["out"]});
      });
  ops::define("sum_to(data, shape: ints)",
              [](const ops::Arguments& a) { return sum_to(a.tensor(0), a["shape"]); });
  ops::alias("amax", "max");
  ops::alias("amin", "min");
}

}  // namespace locus
