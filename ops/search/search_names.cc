#include <locus/core/error.h>
#include <locus/ops/named.h>
#include <locus/ops/search.h>

namespace locus {
namespace {

std::pair<Tensor, Tensor> histogram_by_name(const ops::Arguments& a) {
  const Tensor edges = a.tensor(1);
  HistogramOptions options{.weights = a.tensor(2), .density = a["density"]};
  if (!a["range"].none()) {
    const std::vector<double> range = a["range"];
    if (range.size() != 2)
      throw ValueError("histogram: range has ", range.size(), " numbers; expected two");
    options.range = {range[0], range[1]};
  }
  if (edges.defined()) return histogram(a.tensor(0), edges, options);
  return histogram(a.tensor(0), int64_t{a["bins"]}, options);
}

// The results that are asked for.
Tensors unique_by_name(const ops::Arguments& a) {
  const Unique u = unique(a.tensor(0), {.return_index = a["return_index"],
                                        .return_inverse = a["return_inverse"],
                                        .return_counts = a["return_counts"],
                                        .axis = a["axis"].optional<int64_t>(),
                                        .equal_nan = a["equal_nan"]});
  Tensors all{u.values};
  for (const Tensor& t : {u.index, u.inverse, u.counts})
    if (t.defined()) all.push_back(t);
  return all;
}

}  // namespace

void register_search_names() {
  ops::define("searchsorted(bins, data: operand, sorter = none, side: left|right = left)",
              [](const ops::Arguments& a) {
                return searchsorted(a.tensor(0), a.operand(1),
                                    {.side = a["side"], .sorter = a.tensor(2)});
              })
      .made_of({"searchsorted", "take", "fill"})
      .no_gradient("the results are positions");
  ops::define("digitize(data, bins, right: bool = false)",
              [](const ops::Arguments& a) {
                return digitize(a.tensor(0), a.tensor(1), {.right = a["right"]});
              })
      .made_of({"searchsorted", "slice", "greater", "isnan", "logical_not", "logical_and",
                "logical_or", "any", "subtract"})
      .no_gradient("the results are positions")
      .no_capture("the host reads whether the bins decrease");
  ops::define("bincount(data, weights = none, minlength: int = 0)",
              [](const ops::Arguments& a) {
                return bincount(a.tensor(0), {.weights = a.tensor(1), .minlength = a["minlength"]});
              })
      .made_of({"bincount", "min", "max"})
      .no_capture("the host reads the extremes");
  ops::define(
      "histogram(data, edges = none, weights = none, bins: int = 10, range: floats = none, "
      "density: bool = false) -> 2",
      histogram_by_name)
      .made_of({"histogram", "min", "max", "slice", "greater", "isnan", "logical_not",
                "logical_and", "logical_or", "any", "subtract", "divide", "sum"})
      .no_capture("the host reads the extremes, or checks the edges");
  ops::define("isin(data, test_elements, invert: bool = false)",
              [](const ops::Arguments& a) {
                return isin(a.tensor(0), a.tensor(1), {.invert = a["invert"]});
              })
      .made_of({"isin", "sort", "reshape"})
      .no_gradient("the results are truth values");
  ops::define(
      "unique(data, return_index: bool = false, return_inverse: bool = false, "
      "return_counts: bool = false, axis: int = none, equal_nan: bool = true) -> tensors",
      unique_by_name)
      .made_of({"sort", "topk", "argsort", "arange", "take", "run_starts", "mask_offsets",
                "mask_select", "mask_indices", "cumsum", "put", "subtract", "concat", "fill",
                "reshape", "transpose", "slice"});
}

}  // namespace locus
