// Scans, row by row.
#include <cmath>

#include <locus/ops/scan/scan_kernel.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

using Values = std::vector<Real>;

// Replaces each row along an axis by f(row, the rows of the other operands).
Array along(const Arrays& in, int axis, DType to,
            const std::function<Values(const std::vector<Values>&)>& f) {
  Array y(in[0].shape, to);
  const size_t a = static_cast<size_t>(axis);
  each_place(y.shape, [&](const Place& p) {
    if (p[a] != 0) return;
    std::vector<Values> rows;
    for (const Array& x : in) {
      rows.emplace_back();
      for (Place q = p; q[a] < y.shape[a]; ++q[a]) rows.back().push_back(x.at(q));
    }
    const Values result = f(rows);
    for (Place q = p; q[a] < y.shape[a]; ++q[a]) y.at(q) = result[static_cast<size_t>(q[a])];
  });
  return y;
}

// f combines what is before with an element.
Reference fold(std::string op, const std::function<Real(Real, Real)>& f) {
  return reference<ScanAttrs>(std::move(op), [f](const Arrays& in, const ScanAttrs& a) -> Arrays {
    const DType to = is_floating(in[0].dtype) ? in[0].dtype : i64;
    return {along(in, a.axis, to, [&](const std::vector<Values>& rows) {
      Values y = rows[0];
      for (size_t i = 1; i < y.size(); ++i) y[i] = f(y[i - 1], y[i]);
      return y;
    })};
  });
}

// The last element that is best so far, and its position.
Reference extreme() {
  return each_exact(
      reference<ExtremeAttrs>("cum_extreme", [](const Arrays& in, const ExtremeAttrs& a) {
        const auto scan = [&](bool value) {
          return along(in, a.axis, value ? in[0].dtype : i64, [&](const std::vector<Values>& rows) {
            const Values& x = rows[0];
            Values y;
            size_t best = 0;
            for (size_t i = 0; i < x.size(); ++i) {
              const bool better = a.smallest ? x[i] <= x[best] : x[i] >= x[best];
              if (std::isnan(x[i]) || (!std::isnan(x[best]) && better)) best = i;
              y.push_back(value ? x[best] : static_cast<Real>(best));
            }
            return y;
          });
        };
        return Arrays{scan(true), scan(false)};
      }));
}

Real log_add(Real a, Real b) {
  const Real top = std::isnan(a) || a > b ? a : b;
  return std::isinf(top) ? top : top + std::log(std::exp(a - top) + std::exp(b - top));
}

const References kScan{{
    fold("cumsum", [](Real a, Real b) { return a + b; }),
    fold("cumprod", [](Real a, Real b) { return a * b; }),
    fold("logcumsumexp", log_add),
    extreme(),
    reference<ScanAttrs>("cumsum_exp",
                         [](const Arrays& in, const ScanAttrs& a) -> Arrays {
                           return {
                               along(in, a.axis, in[0].dtype, [](const std::vector<Values>& rows) {
                                 Values y;
                                 for (size_t i = 0; i < rows[0].size(); ++i) {
                                   y.push_back(0);
                                   for (size_t j = 0; j <= i; ++j)
                                     y[i] += rows[0][j] * std::exp(rows[1][j] + rows[2][i]);
                                 }
                                 return y;
                               })};
                         }),
    reference<ScanAttrs>("linear_recurrence",
                         [](const Arrays& in, const ScanAttrs& a) -> Arrays {
                           return {
                               along(in, a.axis, in[0].dtype, [](const std::vector<Values>& rows) {
                                 Values y;
                                 for (size_t i = 0; i < rows[0].size(); ++i)
                                   y.push_back(rows[0][i] * (i > 0 ? y[i - 1] : 0) + rows[1][i]);
                                 return y;
                               })};
                         }),
}};

}  // namespace
}  // namespace locus::test
