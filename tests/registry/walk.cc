#include "tests/registry/walk.h"

#include <locus/ops/create.h>

namespace locus::test {
namespace {

// Heads of result k.
std::vector<Real> head(const Array& result, size_t k, double scale) {
  std::vector<Real> h;
  if (!is_floating(result.dtype)) return std::vector<Real>(result.values.size(), 0);
  for (double w : weights(result.size(), static_cast<int>(k))) h.push_back(w * scale);
  return h;
}

Real step_of(Real x, Real step) { return x == 0 ? step : std::fabs(x) * step; }

constexpr Real kSteps[] = {1e-6L, 2e-7L};
constexpr Real kFine = 3.1e-9L;  // finds jumps between larger steps
constexpr Real kRounding = 64 * std::numeric_limits<Real>::epsilon();

}  // namespace

std::string difference(const Array& got, const Array& wanted, const Near& near) {
  if (got.shape != wanted.shape) return "another shape";
  Real most = 0;
  for (Real v : wanted.values)
    if (std::fabs(v) <= near.most) most = std::max(most, std::fabs(v));
  for (size_t i = 0; i < got.values.size(); ++i) {
    const Real g = got.values[i], w = wanted.values[i];
    const Real allowed = near.relative * std::fabs(w) + near.absolute + near.of_most * most;
    const bool beyond = std::fabs(w) > near.most && !std::isinf(w);
    const bool same = std::isnan(w)   ? std::isnan(g)
                      : std::isinf(w) ? g == w
                      : beyond        ? std::fabs(g) >= near.most / 2 && (g < 0) == (w < 0)
                                      : std::fabs(g - w) <= allowed;
    if (!same) return text_of("[", i, "]: ", double(g), ", right: ", double(w));
  }
  return "";
}

void expect_results(const Tensors& got, const Arrays& wanted, const Near& near,
                    const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    Array as = wanted[i];
    Near own = near;
    if (const DType d = got[i].dtype(); is_floating(d)) {
      own.relative = std::max(own.relative, tolerance(d));
      own.absolute = std::max(own.absolute, 2 * range(d).least);
      own.most = std::min(own.most, range(d).most);
    } else {
      for (Real& v : as.values) v = held(v, d);
    }
    const std::string wrong = difference(array_of(got[i]), as, own);
    EXPECT_EQ(wrong, "") << what << " " << i;
    if (::testing::Test::HasFailure()) return;
  }
}

Tensors gradients_of(const Op& op, const Tensors& in, const Attrs& attrs, double scale,
                     bool create_graph) {
  const auto f = [&](const Tensors& x) { return run(op, x, attrs, x[0].context()); };
  const Tensors found = gradients(f, in, create_graph, scale);
  Tensors all(in.size());
  size_t next = 0;
  for (size_t i = 0; i < in.size(); ++i)
    if (varies(in[i])) all[i] = found[next++];
  return all;
}

bool is_elementwise(const Op& op) {
  return op.layout == Layout::strided && op.n_out == 1 && op.max_in > 0 && !op.make_view &&
         !op.function;
}

Slopes slopes(const Op& op, const Arrays& in, const Attrs& attrs, size_t k, double scale,
              double most) {
  const Reference& f = *find_reference(op.name);
  const auto moved = [&](Real step) {
    Arrays at = in;
    for (Real& x : at[k].values) x += step < 0 ? -step_of(x, -step) : step_of(x, step);
    return f.apply(at, attrs)[0].values;
  };
  const Array y = f.apply(in, attrs)[0];
  const std::vector<Real> h = head(y, 0, scale);
  const Array x = spread(in[k], y.shape);
  Array number = in[k];
  for (size_t i = 0; i < number.values.size(); ++i) number.values[i] = static_cast<Real>(i);
  number = spread(number, y.shape);
  const std::vector<Real> up = moved(kSteps[1]), down = moved(-kSteps[1]), far = moved(kSteps[0]),
                          close = moved(kFine);
  const Array zeros(in[k].shape, f64);
  Slopes result{zeros, zeros, zeros};
  for (size_t i = 0; i < y.values.size(); ++i) {
    const auto at = static_cast<size_t>(number.values[i]);
    const Real step = step_of(x.values[i], kSteps[1]), value = y.values[i];
    const Real right = (up[i] - value) / step, left = (value - down[i]) / step;
    const Real other = (far[i] - value) / step_of(x.values[i], kSteps[0]);
    const Real fine = step_of(x.values[i], kFine), nearest = (close[i] - value) / fine;
    const Real rounding = kRounding * std::fabs(value) / step, slope = (left + right) / 2;
    const Real bends = 1e-5L * std::fabs(value) * kSteps[1] / step;
    const Real allowed = 1e-4L * std::fabs(slope) + bends + 4 * rounding;
    const bool smooth = std::fabs(right - left) <= allowed && std::fabs(other - slope) <= allowed &&
                        std::fabs(nearest - slope) <= allowed + kRounding * std::fabs(value) / fine;
    const bool fits = std::fabs(value) <= most;
    result.values.values[at] += slope * h[i];
    result.size.values[at] += std::fabs(slope * h[i]);
    result.doubt.values[at] += smooth && fits ? (rounding + 1e-9L * slope) * std::fabs(h[i]) : kNaN;
  }
  for (size_t i = 0; i < zeros.values.size(); ++i)
    if (result.size.values[i] > most) result.doubt.values[i] = kNaN;
  return result;
}

Slope slope_along(const Op& op, const Arrays& in, const Attrs& attrs, size_t k,
                  const std::vector<Real>& direction, double scale) {
  const Reference& f = *find_reference(op.name);
  Real size = 0;
  const auto sum = [&](Real step) {
    Arrays at = in;
    for (size_t i = 0; i < direction.size(); ++i) at[k].values[i] += step * direction[i];
    const Arrays y = f.apply(at, attrs);
    std::vector<Real> terms;
    size = 0;
    for (size_t r = 0; r < y.size(); ++r) {
      const std::vector<Real> h = head(y[r], r, scale);
      for (size_t i = 0; i < h.size(); ++i) {
        if (h[i] == 0) continue;
        terms.push_back(h[i] * y[r].values[i]);
        size += std::fabs(terms.back());
      }
    }
    return terms;
  };
  Real found[2];
  for (int s : {0, 1}) {
    const std::vector<Real> up = sum(kSteps[s]), down = sum(-kSteps[s]);
    Real total = 0;  // terms first: what does not change cancels exactly
    for (size_t i = 0; i < up.size(); ++i) total += up[i] - down[i];
    found[s] = total / (2 * kSteps[s]);
  }
  const Real rounding = kRounding * size / kSteps[1], off = std::fabs(found[0] - found[1]);
  const bool smooth = off <= 1e-6L * std::fabs(found[1]) + rounding;
  return {found[1], smooth ? rounding + off : kNaN};
}

}  // namespace locus::test
