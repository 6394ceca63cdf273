#include <utility>

#include <locus/ops/named.h>
#include <locus/ops/pooling.h>

namespace locus {

void register_pooling_names() {
  using Pool = Tensor (*)(const Tensor&, const Extent&, const PoolingOptions&, Caller);
  for (const auto& [name, function] :
       {std::pair<const char*, Pool>("max_pool", max_pool), {"avg_pool", avg_pool}})
    ops::define(text_of(name,
                        "(data, pool_size: ints, strides: ints = 0, padding: ints = 0, "
                        "ceil_mode: bool = false, count_include_pad: bool = true, "
                        "layout: text = none)"),
                [f = function](const ops::Arguments& a) {
                  return f(a.tensor(0), a["pool_size"],
                           {.strides = a["strides"],
                            .padding = a["padding"],
                            .ceil_mode = a["ceil_mode"],
                            .count_include_pad = a["count_include_pad"],
                            .layout = a["layout"]},
                           Caller::here());
                });
  ops::define("global_max_pool(data, layout: text = none)", [](const ops::Arguments& a) {
    return global_max_pool(a.tensor(0), a["layout"]);
  }).made_of({"max_pool"});
  ops::define("global_avg_pool(data, layout: text = none)", [](const ops::Arguments& a) {
    return global_avg_pool(a.tensor(0), a["layout"]);
  }).made_of({"mean"});
  ops::define("adaptive_avg_pool(data, output_size: ints, layout: text = none)",
              [](const ops::Arguments& a) {
                return adaptive_avg_pool(a.tensor(0), a["output_size"], a["layout"]);
              })
      .made_of({"avg_pool"});
}

}  // namespace locus
