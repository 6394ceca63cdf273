#include <utility>

#include <locus/ops/named.h>
#include <locus/ops/scan.h>

namespace locus {

void register_scan_names() {
  using Scan = Tensor (*)(const Tensor&, const ScanOptions&, Caller);
  static constexpr std::pair<const char*, Scan> kAll[] = {
      {"cumsum", cumsum}, {"cumprod", cumprod}, {"logcumsumexp", logcumsumexp}};
  for (const auto& [name, function] : kAll)
    ops::define(text_of(name, "(data, axis: int = none, out: tensor = none)"),
                [f = function](const ops::Arguments& a) {
                  return f(a.tensor(0), {.axis = a["axis"].optional<int64_t>(), .out = a["out"]},
                           Caller::here());
                });
  ops::define("cummax(data, axis: int = none) -> 2", [](const ops::Arguments& a) {
    return cummax(a.tensor(0), {.axis = a["axis"].optional<int64_t>()});
  }).made_of({"cum_extreme", "reshape"});
  ops::define("cummin(data, axis: int = none) -> 2", [](const ops::Arguments& a) {
    return cummin(a.tensor(0), {.axis = a["axis"].optional<int64_t>()});
  }).made_of({"cum_extreme", "reshape"});
}

}  // namespace locus
