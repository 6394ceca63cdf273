#include <locus/core/error.h>
#include <locus/ops/named.h>
#include <locus/ops/rearrange.h>

namespace locus {
namespace {

// A number, or pairs (before, after): one for all axes, or one for each axis.
PadWidths widths_of(const std::vector<int64_t>& numbers) {
  if (numbers.size() == 1) return numbers[0];
  if (numbers.empty() || numbers.size() % 2 != 0)
    throw ValueError("pad: pad_width has ", numbers.size(),
                     " numbers; expected one, or a pair for each axis, one after the other");
  std::vector<PadWidth> widths;
  for (size_t i = 0; i < numbers.size(); i += 2) widths.push_back({numbers[i], numbers[i + 1]});
  return std::span<const PadWidth>(widths);
}

Tensor rolled(const ops::Arguments& a) {
  const std::vector<int64_t> shift = a["shift"];
  if (!a["axis"].none()) {
    const std::vector<int> axis = a["axis"];
    return roll(a.tensor(0), std::span(shift), std::span(axis));
  }
  if (shift.size() != 1)
    throw ValueError("roll: shift has ", shift.size(),
                     " numbers and axis is none; expected one number, or as many axes");
  return roll(a.tensor(0), shift[0]);
}

}  // namespace

void register_rearrange_names() {
  ops::define(
      "pad(data, pad_width: ints, mode: constant|edge|reflect|symmetric|wrap = constant, "
      "constant_values: number = 0)",
      [](const ops::Arguments& a) {
        return pad(a.tensor(0), widths_of(a["pad_width"]),
                   {.mode = a["mode"], .constant_values = a["constant_values"]});
      });
  ops::define("roll(data, shift: ints, axis: ints = none)", rolled)
      .made_of({"roll", "reshape", "transpose"});
  ops::define("tril(data, k: int = 0)", [](const ops::Arguments& a) {
    return tril(a.tensor(0), a["k"]);
  }).made_of({"triangle", "broadcast_to"});
  ops::define("triu(data, k: int = 0)", [](const ops::Arguments& a) {
    return triu(a.tensor(0), a["k"]);
  }).made_of({"triangle", "broadcast_to"});
  ops::define("diag(data, k: int = 0)", [](const ops::Arguments& a) {
    return diag(a.tensor(0), a["k"]);
  }).made_of({"embed_diagonal", "diagonal"});
  ops::define("meshgrid(*data, indexing: xy|ij = xy) -> tensors", [](const ops::Arguments& a) {
    return meshgrid(a.tensors(), {.indexing = a["indexing"]});
  }).made_of({"broadcast_to", "reshape", "contiguous", "copy"});
}

}  // namespace locus
