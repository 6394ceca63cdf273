// Samples of the composites of ops/statistics.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <locus/ops/compare.h>
#include <locus/ops/statistics.h>
#include "tests/composites/composite.h"

namespace locus::test {

// f of each row of a matrix.
inline Host of_rows(const Host& x, const std::function<double(const std::vector<double>&)>& f) {
  return host({x.shape[0]}, [&](const Indices& i) {
    std::vector<double> row;
    for (int64_t k = 0; k < x.shape[1]; ++k) row.push_back(x.at({i[0], k}));
    return f(row);
  });
}
inline double variance_of(const std::vector<double>& row) {
  double sum = 0, squares = 0;
  for (double v : row) sum += v;
  const auto n = static_cast<double>(row.size());
  for (double v : row) squares += (v - sum / n) * (v - sum / n);
  return squares / n;
}
// NaN where x is above .5, and rows of the other elements.
inline Tensor with_nan(const Tensor& x) { return where(x > .5, NAN, x); }
inline Host of_low(const Host& x, const std::function<double(const std::vector<double>&)>& f) {
  return of_rows(x, [&](std::vector<double> row) {
    std::erase_if(row, [](double v) { return v > .5; });
    return f(row);
  });
}

inline std::vector<Composite> statistics_composites() {
  using O = TensorOptions;
  using Row = std::vector<double>;
  const std::vector<DType> numbers = {f32, f64, f16, bf16, i32, i64, i8};
  return {
      {"nanprod",
       {{3, 6}},
       [](const Tensors& x, O) -> Tensors { return {nanprod(with_nan(x[0]), {.axis = 1})}; },
       [](const Hosts& x) -> Hosts {
         return {of_low(x[0], [](const Row& row) {
           double product = 1;
           for (double v : row) product *= v;
           return product;
         })};
       },
       kFloating},
      {"nanvar",
       {{3, 6}},
       [](const Tensors& x, O) -> Tensors { return {nanvar(with_nan(x[0]), {.axis = 1})}; },
       [](const Hosts& x) -> Hosts { return {of_low(x[0], variance_of)}; },
       kFloating},
      {"nanstd",
       {{3, 6}},
       [](const Tensors& x, O) -> Tensors { return {nanstd(with_nan(x[0]), {.axis = 1})}; },
       [](const Hosts& x) -> Hosts {
         return {of_low(x[0], [](const Row& row) { return std::sqrt(variance_of(row)); })};
       },
       kFloating},
      {"ptp",
       {{3, 4}},
       [](const Tensors& x, O) -> Tensors { return {ptp(x[0], {.axis = 1})}; },
       [](const Hosts& x) -> Hosts {
         return {of_rows(x[0], [](const Row& row) {
           return *std::ranges::max_element(row) - *std::ranges::min_element(row);
         })};
       },
       numbers},
      {"average",
       {{3, 4}, {3, 4}},
       [](const Tensors& x, O) -> Tensors { return {average(x[0], {.axis = 1, .weights = x[1]})}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0]}, [&](const Indices& i) {
           double sum = 0, weights = 0;
           for (int64_t k = 0; k < 4; ++k) {
             sum += x[0].at({i[0], k}) * x[1].at({i[0], k});
             weights += x[1].at({i[0], k});
           }
           return sum / weights;
         })};
       },
       kFloating,
       {},
       false,
       false,
       .5},
      {"diff",
       {{3, 5}},
       [](const Tensors& x, O) -> Tensors { return {diff(x[0], {.n = 2})}; },
       [](const Hosts& x) -> Hosts {
         return {host({x[0].shape[0], 3}, [&](const Indices& i) {
           return x[0].at({i[0], i[1] + 2}) - 2 * x[0].at({i[0], i[1] + 1}) + x[0].at(i);
         })};
       },
       numbers},
      {"median",
       {{3, 4}},
       [](const Tensors& x, O) -> Tensors { return {median(x[0], {.axis = 1})}; },
       [](const Hosts& x) -> Hosts {
         return {of_rows(x[0], [](Row row) {
           std::ranges::sort(row);
           return (row[1] + row[2]) / 2;
         })};
       },
       kFloating},
      {"quantile",
       {{3, 5}},
       [](const Tensors& x, O) -> Tensors {
         return {quantile(x[0], {.25, .6}, {.axis = 1})};
       },
       [](const Hosts& x) -> Hosts {
         Host all{{2, x[0].shape[0]}, {}};
         for (double at : {1., 2.4})
           for (double v : of_rows(x[0], [at](Row row) {
                             std::ranges::sort(row);
                             const auto i = static_cast<size_t>(at);
                             return row[i] + (at - std::floor(at)) * (row[i + 1] - row[i]);
                           }).numbers)
             all.numbers.push_back(v);
         return {all};
       },
       kFloating},
      {"percentile",
       {{3, 5}},
       [](const Tensors& x, O) -> Tensors {
         return {percentile(x[0], 70, {.axis = 1, .method = QuantileMethod::lower})};
       },
       [](const Hosts& x) -> Hosts {
         return {of_rows(x[0], [](Row row) {
           std::ranges::sort(row);
           return row[2];
         })};
       }},
  };
}

}  // namespace locus::test
