#include <locus/ops/index.h>
#include <locus/ops/named.h>

namespace locus {

void register_index_names() {
  ops::define("take(data, ids, axis: int = 0, mode: raise|clip|wrap = raise)",
              [](const ops::Arguments& a) {
                return take(a.tensor(0), a.tensor(1), {.axis = a["axis"], .mode = a["mode"]});
              });
  ops::define(
      "pick(data, ids, axis: int = -1, keepdims: bool = false, mode: raise|clip|wrap = raise)",
      [](const ops::Arguments& a) {
        return pick(a.tensor(0), a.tensor(1),
                    {.axis = a["axis"], .keepdims = a["keepdims"], .mode = a["mode"]});
      });
  ops::define(
      "one_hot(ids, depth: int, on_value: float = 1, off_value: float = 0, dtype: dtype = f32)",
      [](const ops::Arguments& a) {
        return one_hot(
            a.tensor(0), a["depth"],
            {.on_value = a["on_value"], .off_value = a["off_value"], .dtype = a["dtype"]});
      });
  ops::define("nonzero(data) -> tensors",
              [](const ops::Arguments& a) { return nonzero(a.tensor(0)); })
      .made_of({"copy", "mask_offsets", "mask_indices", "unravel_index"})
      .no_gradient("the results are positions");
  ops::define("unravel_index(ids, shape: ints) -> tensors",
              [](const ops::Arguments& a) { return unravel_index(a.tensor(0), a["shape"]); })
      .made_of({"unravel_index", "reshape", "slice"})
      .no_gradient("the results are positions");
  ops::define(
      "ravel_multi_index(*ids, dims: ints, mode: raise|clip|wrap = raise)",
      [](const ops::Arguments& a) { return ravel_multi_index(a.tensors(), a["dims"], a["mode"]); })
      .made_of({"ravel_multi_index", "broadcast_to"})
      .no_gradient("the results are positions");
}

}  // namespace locus
