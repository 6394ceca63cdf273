// Places among sorted numbers, counts, and starts of runs, element by element.
#include <cmath>

#include <locus/ops/search/search_kernel.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

// NaN lies above all numbers.
bool below(Real a, Real b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

int64_t place(const Array& bins, Real x, bool right) {
  int64_t n = 0;
  for (Real bin : bins.values) n += right ? !below(x, bin) : below(bin, x);
  return n;
}

// Adds each weight, or 1, to the bin of its element.
Array summed(const Arrays& in, size_t weights, int64_t bins,
             const std::function<int64_t(Real)>& bin_of) {
  const bool weighted = in.size() > weights;
  Array y({bins}, weighted ? in[weights].dtype : i64);
  for (size_t i = 0; i < in[0].values.size(); ++i) {
    const int64_t bin = bin_of(in[0].values[i]);
    if (bin >= 0 && bin < bins) y.at({bin}) += weighted ? in[weights].values[i] : 1;
  }
  return y;
}

const References kSearch{{
    reference<SearchAttrs>("searchsorted",
                           [](const Arrays& in, const SearchAttrs& a) -> Arrays {
                             Array y(in[1].shape, i64);
                             for (size_t i = 0; i < y.values.size(); ++i)
                               y.values[i] =
                                   static_cast<Real>(place(in[0], in[1].values[i], a.right));
                             return {y};
                           }),
    reference<IsinAttrs>("isin",
                         [](const Arrays& in, const IsinAttrs& a) -> Arrays {
                           Array y(in[0].shape, bool_);
                           for (size_t i = 0; i < y.values.size(); ++i) {
                             bool found = false;
                             for (Real v : in[1].values) found |= v == in[0].values[i];
                             y.values[i] = found != a.invert;
                           }
                           return {y};
                         }),
    reference<BincountAttrs>("bincount",
                             [](const Arrays& in, const BincountAttrs& a) -> Arrays {
                               return {summed(in, 1, a.bins,
                                              [](Real x) { return static_cast<int64_t>(x); })};
                             }),
    reference<HistogramAttrs>("histogram",
                              [](const Arrays& in, const HistogramAttrs&) -> Arrays {
                                const std::vector<Real>& edges = in[1].values;
                                const auto bins = static_cast<int64_t>(edges.size()) - 1;
                                return {summed(in, 2, bins < 0 ? 0 : bins, [&](Real x) -> int64_t {
                                  if (bins < 1 || !(x >= edges.front() && x <= edges.back()))
                                    return -1;
                                  return x == edges.back() ? bins - 1 : place(in[1], x, true) - 1;
                                })};
                              }),
    reference<RunAttrs>("run_starts",
                        [](const Arrays& in, const RunAttrs& a) -> Arrays {
                          const int64_t n = in[0].shape[0], k = n > 0 ? in[0].size() / n : 0;
                          Array y({n}, bool_);
                          for (int64_t i = 0; i < n; ++i) {
                            y.at({i}) = i == 0;
                            for (int64_t c = i * k; i > 0 && c < (i + 1) * k; ++c) {
                              const Real v = in[0].values[static_cast<size_t>(c)],
                                         w = in[0].values[static_cast<size_t>(c - k)];
                              const bool nans = a.equal_nan && std::isnan(v) && std::isnan(w);
                              if (v != w && !nans) y.at({i}) = 1;
                            }
                          }
                          return {y};
                        }),
}};

}  // namespace
}  // namespace locus::test
