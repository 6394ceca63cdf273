#include <span>
#include <vector>

#include <locus/core/error.h>
#include <locus/ops/named.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

Tensor rotated(const ops::Arguments& a) {
  std::vector<int> axes = a["axes"];
  if (a["axes"].none()) axes = {0, 1};
  if (axes.size() != 2) throw ValueError("rot90: axes has ", axes.size(), " numbers; expected two");
  return rot90(a.tensor(0), a["k"], {axes[0], axes[1]});
}

}  // namespace

void register_view_names() {
  ops::define("reshape(data, shape: ints)",
              [](const ops::Arguments& a) { return reshape(a.tensor(0), a["shape"]); });
  ops::define("flatten(data)", [](const ops::Arguments& a) {
    return flatten(a.tensor(0));
  }).made_of({"reshape"});
  ops::define("transpose(data, axes: ints = none)", [](const ops::Arguments& a) {
    const std::vector<int> axes = a["axes"];
    return transpose(a.tensor(0), std::span(axes));
  });
  ops::define("swapaxes(data, axis1: int, axis2: int)", [](const ops::Arguments& a) {
    return swapaxes(a.tensor(0), a["axis1"], a["axis2"]);
  }).made_of({"transpose"});
  ops::define("moveaxis(data, source: ints, destination: ints)", [](const ops::Arguments& a) {
    const std::vector<int> source = a["source"], destination = a["destination"];
    return moveaxis(a.tensor(0), std::span(source), std::span(destination));
  }).made_of({"transpose"});
  ops::define("rot90(data, k: int = 1, axes: ints = none)", rotated)
      .made_of({"slice", "transpose"});
  ops::define("diagonal(data, offset: int = 0, axis1: int = 0, axis2: int = 1)",
              [](const ops::Arguments& a) {
                return diagonal(a.tensor(0), a["offset"], a["axis1"], a["axis2"]);
              });
  ops::define("expand_dims(data, axis: int)", [](const ops::Arguments& a) {
    return expand_dims(a.tensor(0), a["axis"]);
  }).made_of({"reshape"});
  ops::define("squeeze(data, axis: int = none)", [](const ops::Arguments& a) {
    const ops::Argument axis = a["axis"];
    return axis.none() ? squeeze(a.tensor(0)) : squeeze(a.tensor(0), int(axis));
  }).made_of({"reshape"});
  ops::define("broadcast_to(data, shape: ints)",
              [](const ops::Arguments& a) { return broadcast_to(a.tensor(0), a["shape"]); });
  ops::define("flip(data, axis: int)", [](const ops::Arguments& a) {
    return flip(a.tensor(0), a["axis"]);
  }).made_of({"slice"});
  ops::define("slice_axis(data, axis: int, begin: int = none, end: int = none, step: int = 1)",
              [](const ops::Arguments& a) {
                return slice_axis(
                    a.tensor(0), a["axis"],
                    Slice(a["begin"].optional<int64_t>(), a["end"].optional<int64_t>(), a["step"]));
              })
      .made_of({"slice"});
}

}  // namespace locus
