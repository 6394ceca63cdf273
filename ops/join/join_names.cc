#include <locus/ops/join.h>
#include <locus/ops/named.h>

namespace locus {

void register_join_names() {
  const auto join = [](const ops::Arguments& a) {
    return concat(a.tensors(), {.axis = a["axis"]});
  };
  ops::define("concat(*data, axis: int = 1)", join);
  ops::define("concatenate(*data, axis: int = 0)", join).made_of({"concat"});
  ops::define("stack(*data, axis: int = 0)",
              [](const ops::Arguments& a) { return stack(a.tensors(), {.axis = a["axis"]}); });
  ops::define("split(data, num_outputs: int, axis: int = 1, squeeze_axis: bool = false) -> tensors",
              [](const ops::Arguments& a) {
                return split(a.tensor(0), a["num_outputs"],
                             {.axis = a["axis"], .squeeze_axis = a["squeeze_axis"]});
              })
      .made_of({"slice", "reshape"});
  ops::define("tile(data, reps: ints)", [](const ops::Arguments& a) {
    return tile(a.tensor(0), a["reps"]);
  }).made_of({"reshape", "broadcast_to", "contiguous", "copy"});
  ops::define("repeat(data, repeats: int, axis: int)", [](const ops::Arguments& a) {
    return repeat(a.tensor(0), int64_t{a["repeats"]}, int{a["axis"]});
  }).made_of({"reshape", "broadcast_to", "contiguous", "copy"});
}

}  // namespace locus
