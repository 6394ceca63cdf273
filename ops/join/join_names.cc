#include <locus/ops/create.h>
#include <locus/ops/join.h>
#include <locus/ops/named.h>

namespace locus {
namespace {

Tensors split_by_name(const ops::Arguments& a) {
  const ops::Argument places = a["indices_or_sections"];
  const SplitOptions options{.axis = a["axis"], .squeeze_axis = a["squeeze_axis"]};
  if (places.value().get<Scalar>()) return split(a.tensor(0), int64_t{places}, options);
  const std::vector<int64_t> positions = places;
  return split(a.tensor(0), std::span(positions), options);
}

// One number for all elements, or one for each.
Tensor repeat_by_name(const ops::Arguments& a) {
  const std::vector<int64_t> repeats = a["repeats"];
  const std::optional<int> axis = a["axis"].optional();
  const Tensor x = a.tensor(0);
  if (repeats.size() == 1) return axis ? repeat(x, repeats[0], *axis) : repeat(x, repeats[0]);
  return detail::repeat_listed(x, repeats, axis, Caller::here());
}

}  // namespace

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
  // As in MXNet: a number of sections, or a list of positions.
  ops::define(
      "split_v2(data, indices_or_sections: ints, axis: int = 0, squeeze_axis: bool = false) "
      "-> tensors",
      split_by_name)
      .made_of({"slice", "reshape"});
  ops::define(
      "array_split(data, num_outputs: int, axis: int = 0, squeeze_axis: bool = false) -> tensors",
      [](const ops::Arguments& a) {
        return array_split(a.tensor(0), a["num_outputs"],
                           {.axis = a["axis"], .squeeze_axis = a["squeeze_axis"]});
      })
      .made_of({"slice", "reshape"});
  ops::define("tile(data, reps: ints)", [](const ops::Arguments& a) {
    return tile(a.tensor(0), a["reps"]);
  }).made_of({"reshape", "broadcast_to", "contiguous", "copy"});
  ops::define("repeat(data, repeats: ints, axis: int = none)", repeat_by_name)
      .made_of({"reshape", "broadcast_to", "contiguous", "copy", "take", "copyto"});
}

}  // namespace locus
