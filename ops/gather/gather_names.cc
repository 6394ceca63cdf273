#include <locus/core/base/empty_tensor.h>
#include <locus/ops/gather.h>
#include <locus/ops/named.h>

namespace locus {
namespace {

// As in MXNet, use_sequence_length decides whether the lengths are used.
Tensor sequence_mask_by_name(const ops::Arguments& a) {
  const bool used = a["use_sequence_length"];
  if (used) detail::expect_tensor("sequence_mask", a.tensor(1), "sequence_length");
  return sequence_mask(a.tensor(0), used ? a.tensor(1) : Tensor(),
                       {.value = a["value"], .axis = a["axis"]});
}

}  // namespace

void register_gather_names() {
  ops::define("take_along_axis(data, indices, axis: int|none = -1, mode: raise|clip|wrap = raise)",
              [](const ops::Arguments& a) {
                return take_along_axis(a.tensor(0), a.tensor(1),
                                       {.axis = a["axis"].optional<int64_t>(), .mode = a["mode"]});
              })
      .made_of({"take", "reshape", "broadcast_to"});
  // By default it changes its first input, which is the result, too.
  ops::define(
      "put_along_axis(data, indices, values: operand, axis: int|none = -1, "
      "mode: raise|clip|wrap = raise, inplace: bool = true)",
      [](const ops::Arguments& a) {
        return put_along_axis(
            a.tensor(0), a.tensor(1), a.operand(2),
            {.axis = a["axis"].optional<int64_t>(), .mode = a["mode"], .inplace = a["inplace"]});
      })
      .made_of({"index_put", "reshape", "broadcast_to", "fill"});
  ops::define("gather_nd(data, indices, mode: raise|clip|wrap = raise)",
              [](const ops::Arguments& a) {
                return gather_nd(a.tensor(0), a.tensor(1), {.mode = a["mode"]});
              })
      .made_of({"take", "slice"});
  ops::define(
      "scatter_nd(data, indices, shape: ints, accumulate: bool = false, "
      "mode: raise|clip|wrap = raise)",
      [](const ops::Arguments& a) {
        return scatter_nd(a.tensor(0), a.tensor(1), a["shape"],
                          {.accumulate = a["accumulate"], .mode = a["mode"]});
      })
      .made_of({"index_put", "index_add", "broadcast_to", "fill", "slice"});
  ops::define(
      "index_add(data, index, source, axis: int, alpha: number = 1, "
      "mode: raise|clip|wrap = raise, out: tensor = none)",
      [](const ops::Arguments& a) {
        return index_add(a.tensor(0), a["axis"], a.tensor(1), a.tensor(2),
                         {.alpha = a["alpha"], .mode = a["mode"], .out = a["out"]});
      })
      .made_of({"index_add", "multiply", "fill", "reshape"});
  // Index i is that of axis i. An undefined one stands for the whole axis.
  static_assert(kMaxRank == 8);
  ops::define(
      "index_put(data, values: operand, index0 = none, index1 = none, index2 = none, "
      "index3 = none, index4 = none, index5 = none, index6 = none, index7 = none, "
      "accumulate: bool = false, mode: raise|clip|wrap = raise, out: tensor = none)",
      [](const ops::Arguments& a) {
        Tensors indices;
        for (size_t i = 0; i < kMaxRank; ++i) indices.push_back(a.tensor(2 + i));
        while (!indices.empty() && !indices.back().defined()) indices.pop_back();
        return index_put(a.tensor(0), indices, a.operand(1),
                         {.accumulate = a["accumulate"], .mode = a["mode"], .out = a["out"]});
      })
      .made_of({"index_put", "index_add", "broadcast_to", "fill"});
  ops::define("argwhere(data)", [](const ops::Arguments& a) { return argwhere(a.tensor(0)); })
      .made_of({"copy", "mask_offsets", "mask_indices", "unravel_index", "fill"})
      .no_gradient("the results are positions");
  ops::define("compress(condition, data, axis: int = none, out: tensor = none)",
              [](const ops::Arguments& a) {
                return compress(a.tensor(0), a.tensor(1),
                                {.axis = a["axis"].optional<int64_t>(), .out = a["out"]});
              })
      .made_of({"take", "mask_select", "mask_offsets", "mask_indices", "reshape", "slice"});
  ops::define(
      "sequence_mask(data, sequence_length = none, use_sequence_length: bool = false, "
      "value: number = 0, axis: int = 0)",
      sequence_mask_by_name)
      .made_of({"where", "arange", "reshape", "lesser", "fill", "copy"});
}

}  // namespace locus
