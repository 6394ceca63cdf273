#include <utility>
#include <vector>

#include <locus/ops/named.h>
#include <locus/ops/statistics.h>

namespace locus {
namespace {

constexpr const char* kOver = "axis: ints = none, keepdims: bool = false, out: tensor = none)";

using Reduce = Tensor (*)(const Tensor&, const ReduceOptions&, Caller);
ops::Definition define_reduction(const char* name, Reduce f) {
  return ops::define(text_of(name, "(data, ", kOver), [f](const ops::Arguments& a) {
    return f(a.tensor(0), {.axis = a["axis"], .keepdims = a["keepdims"], .out = a["out"]},
             Caller::here());
  });
}

using Spread = Tensor (*)(const Tensor&, const VarOptions&, Caller);
ops::Definition define_spread(const char* name, Spread f) {
  return ops::define(
      text_of(name,
              "(data, axis: ints = none, ddof: float = 0, keepdims: bool = false, "
              "out: tensor = none)"),
      [f](const ops::Arguments& a) {
        return f(a.tensor(0),
                 {.axis = a["axis"], .ddof = a["ddof"], .keepdims = a["keepdims"], .out = a["out"]},
                 Caller::here());
      });
}

// A number gives a result without an axis for q, as in NumPy.
Quantiles quantiles_in(const ops::Argument& q) {
  if (q.value().get<Scalar>()) return double{q};
  const std::vector<double> all = q;
  return all;
}

using Quantile = Tensor (*)(const Tensor&, const Quantiles&, const QuantileOptions&, Caller);
ops::Definition define_quantile(const char* name, Quantile f) {
  return ops::define(
      text_of(name,
              "(data, q: floats, axis: ints = none, "
              "method: inverted_cdf|averaged_inverted_cdf|closest_observation|"
              "interpolated_inverted_cdf|hazen|weibull|linear|median_unbiased|normal_unbiased|"
              "lower|higher|midpoint|nearest = linear, keepdims: bool = false, "
              "out: tensor = none)"),
      [f](const ops::Arguments& a) {
        return f(
            a.tensor(0), quantiles_in(a["q"]),
            {.axis = a["axis"], .method = a["method"], .keepdims = a["keepdims"], .out = a["out"]},
            Caller::here());
      });
}

AverageOptions average_options(const ops::Arguments& a) {
  return {.axis = a["axis"], .weights = a.tensor(1), .keepdims = a["keepdims"]};
}

}  // namespace

void register_statistics_names() {
  define_reduction("nansum", nansum).made_of({"nansum", "sum"});
  define_reduction("nanmean", nanmean).made_of({"nanmean", "mean"});
  define_reduction("nanprod", nanprod).made_of({"prod", "isnan", "where"});
  define_reduction("nanmax", nanmax).made_of({"nanmax", "max"});
  define_reduction("nanmin", nanmin).made_of({"nanmin", "min"});
  const std::vector<std::string> of_variance = {
      "nanmean",       "var", "isnan",  "where",   "subtract", "logical_not",
      "count_nonzero", "sum", "square", "maximum", "greater",  "divide"};
  define_spread("nanvar", nanvar).made_of(of_variance);
  std::vector<std::string> of_deviation = of_variance;
  of_deviation[1] = "std";
  of_deviation.insert(of_deviation.end(), {"equal", "sqrt"});
  define_spread("nanstd", nanstd).made_of(of_deviation);
  define_reduction("count_nonzero", count_nonzero);
  define_reduction("ptp", ptp).made_of({"max", "min", "subtract"});

  const std::vector<std::string> of_average = {"mean",         "multiply", "sum",       "equal",
                                               "any",          "divide",   "transpose", "reshape",
                                               "broadcast_to", "fill"};
  const char* const waits = "with weights, the host reads whether their sums are 0";
  ops::define("average(data, weights = none, axis: ints = none, keepdims: bool = false)",
              [](const ops::Arguments& a) { return average(a.tensor(0), average_options(a)); })
      .made_of(of_average)
      .no_capture(waits);
  ops::define(
      "weighted_average(data, weights = none, axis: ints = none, keepdims: bool = false) -> 2",
      [](const ops::Arguments& a) {
        Average both = weighted_average(a.tensor(0), average_options(a));
        return std::pair(std::move(both.average), std::move(both.sum_of_weights));
      })
      .made_of(of_average)
      .no_capture(waits);
  ops::define(
      "diff(data, prepend = none, append = none, n: int = 1, axis: int = -1)",
      [](const ops::Arguments& a) {
        return diff(
            a.tensor(0),
            {.n = a["n"], .axis = a["axis"], .prepend = a.tensor(1), .append = a.tensor(2)});
      })
      .made_of({"subtract", "not_equal", "slice", "concat", "broadcast_to"});

  std::vector<std::string> of_median = {"order_select", "sort",   "topk", "take",  "transpose",
                                        "reshape",      "slice",  "max",  "isnan", "where",
                                        "add",          "divide", "fill", "sum"};
  define_reduction("median", median).made_of(of_median);
  of_median.insert(of_median.end(),
                   {"subtract", "multiply", "greater_equal", "copyto", "broadcast_to"});
  define_quantile("quantile", quantile).made_of(of_median);
  define_quantile("percentile", percentile).made_of(of_median);
}

}  // namespace locus
