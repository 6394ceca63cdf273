// Rearrangements, and the ops that add elements of an axis.
#include <algorithm>

#include <locus/ops/index/flat_index_kernel.h>
#include <locus/ops/rearrange/rearrange_kernel.h>
#include <locus/ops/rearrange/resample_kernel.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

using Lengths = std::vector<int64_t>;

// The position along an axis of n elements of each element of the padded axis; -1: the constant.
Lengths padded(int64_t n, int64_t before, int64_t length, PadRule rule) {
  Lengths pattern;
  for (int64_t i = 0; i < n; ++i) pattern.push_back(i);
  if (rule == PadRule::symmetric)
    for (int64_t i = n; i-- > 0;) pattern.push_back(i);
  if (rule == PadRule::reflect)
    for (int64_t i = n - 2; i > 0; --i) pattern.push_back(i);
  const int64_t period = static_cast<int64_t>(pattern.size());
  Lengths from;
  for (int64_t i = -before; i < length - before; ++i)
    if (rule == PadRule::constant)
      from.push_back(i < 0 || i >= n ? -1 : i);
    else if (rule == PadRule::edge)
      from.push_back(std::clamp<int64_t>(i, 0, n - 1));
    else
      from.push_back(pattern[static_cast<size_t>((i % period + period) % period)]);
  return from;
}

// Each element comes from place `from(p)` of x, or is `constant` if that has a negative position.
Array moved(const Array& x, const Lengths& shape, Real constant, const auto& from) {
  Array y(shape, x.dtype);
  each_place(shape, [&](const Place& p) {
    const Place source = from(p);
    const bool none = std::ranges::any_of(source, [](int64_t i) { return i < 0; });
    y.at(p) = none ? constant : x.at(source);
  });
  return y;
}

Reference triangle() {
  return each_exact(
      reference<Triangle>(Triangle::kName, [](const Arrays& in, const Triangle& a) -> Arrays {
        return {moved(in[0], in[0].shape, 0, [&](Place p) {
          const int64_t above = p.back() - p[p.size() - 2];
          if (a.upper ? above < a.k : above > a.k) p[0] = -1;
          return p;
        })};
      }));
}

// The adjoint along an axis: y[source] += weight x[i] for each {i, source, weight}.
struct Term {
  int64_t i, source;
  Real weight;
};
Array added(const Array& x, size_t axis, int64_t length, const std::vector<Term>& terms) {
  Lengths shape = x.shape;
  shape[axis] = length;
  Array y(shape, x.dtype);
  each_place(x.shape, [&](const Place& p) {
    for (const Term& t : terms) {
      if (t.i != p[axis]) continue;
      Place to = p;
      to[axis] = t.source;
      y.at(to) += t.weight * x.at(p);
    }
  });
  return y;
}

std::vector<Term> linear_terms(int64_t n, int64_t m, bool align_corners) {
  std::vector<Term> terms;
  for (int64_t i = 0; i < m; ++i) {
    Real at = align_corners ? m == 1 ? 0 : Real(i) * Real(n - 1) / Real(m - 1)
                            : (Real(i) + .5L) * Real(n) / Real(m) - .5L;
    at = std::clamp<Real>(at, 0, Real(n - 1));
    const Real low = std::floor(at);
    terms.push_back({i, static_cast<int64_t>(low), 1 - (at - low)});
    if (at > low) terms.push_back({i, static_cast<int64_t>(low) + 1, at - low});
  }
  return terms;
}

// f(place in the windows, place in the data) for each element of a window that is not padding.
void each_of_windows(const Windows& w, const Lengths& windows, const Lengths& data, const auto& f) {
  const size_t axes = data.size() - 2;
  each_place(windows, [&](const Place& p) {
    Place from(p.begin(), p.begin() + 2);
    bool inside = true;
    for (size_t s = 0; s < axes; ++s) {
      from.push_back(p[2 + axes + s] * w.stride[s] + p[2 + s] * w.dilate[s] - w.pad[s]);
      inside = inside && from.back() >= 0 && from.back() < data[2 + s];
    }
    if (inside) f(p, from);
  });
}

const References kRearrangements{{
    each_exact(reference<Pad>("pad",
                              [](const Arrays& in, const Pad& a) -> Arrays {
                                Lengths shape = in[0].shape;
                                std::vector<Lengths> from;
                                for (size_t i = 0; i < shape.size(); ++i) {
                                  const int64_t n = shape[i];
                                  shape[i] += a.before[i] + a.after[i];
                                  from.push_back(padded(n, a.before[i], shape[i], a.rule));
                                }
                                return {moved(in[0], shape, held(real(a.value), in[0].dtype),
                                              [&](Place p) {
                                                for (size_t i = 0; i < p.size(); ++i)
                                                  p[i] = from[i][static_cast<size_t>(p[i])];
                                                return p;
                                              })};
                              })),
    each_exact(reference<Roll>("roll",
                               [](const Arrays& in, const Roll& a) -> Arrays {
                                 Array y = in[0];
                                 each_place(y.shape, [&](const Place& p) {
                                   Place to = p;
                                   for (size_t i = 0; i < p.size(); ++i)
                                     to[i] = (p[i] + a.shift[i]) % y.shape[i];
                                   y.at(to) = in[0].at(p);
                                 });
                                 return {y};
                               })),
    triangle(),
    each_exact(reference<DiagonalAttrs>("diagonal",
                                        [](const Arrays& in, const DiagonalAttrs& a) -> Arrays {
                                          const size_t row = static_cast<size_t>(a.row),
                                                       column = static_cast<size_t>(a.column);
                                          Lengths shape;
                                          for (size_t i = 0; i < in[0].shape.size(); ++i)
                                            if (i != row && i != column)
                                              shape.push_back(in[0].shape[i]);
                                          int64_t n = 0;
                                          for (int64_t r = 0; r < in[0].shape[row]; ++r)
                                            n += r + a.offset >= 0 &&
                                                 r + a.offset < in[0].shape[column];
                                          shape.push_back(n);
                                          Array y(shape, in[0].dtype);
                                          each_place(in[0].shape, [&](const Place& p) {
                                            if (p[column] - p[row] != a.offset) return;
                                            Place to;
                                            for (size_t i = 0; i < p.size(); ++i)
                                              if (i != row && i != column) to.push_back(p[i]);
                                            to.push_back(std::min(p[row], p[column]));
                                            y.at(to) = in[0].at(p);
                                          });
                                          return {y};
                                        })),
    each_exact(
        reference<EmbedDiagonal>("embed_diagonal",
                                 [](const Arrays& in, const EmbedDiagonal& a) -> Arrays {
                                   const size_t row = static_cast<size_t>(a.diagonal.row),
                                                column = static_cast<size_t>(a.diagonal.column);
                                   return {moved(in[0], lengths_of(a.base), 0, [&](const Place& p) {
                                     Place from;
                                     for (size_t i = 0; i < p.size(); ++i)
                                       if (i != row && i != column) from.push_back(p[i]);
                                     const bool on = p[column] - p[row] == a.diagonal.offset;
                                     from.push_back(on ? std::min(p[row], p[column]) : -1);
                                     return from;
                                   })};
                                 })),
    each_exact(reference<Windows>(
        "im2col",
        [](const Arrays& in, const Windows& a) -> Arrays {
          const size_t axes = in[0].shape.size() - 2;
          Lengths shape(in[0].shape.begin(), in[0].shape.begin() + 2);
          for (size_t s = 0; s < axes; ++s) shape.push_back(a.kernel[s]);
          for (size_t s = 0; s < axes; ++s) {
            int64_t n = 0, reach = (a.kernel[s] - 1) * a.dilate[s];
            while (n * a.stride[s] + reach < in[0].shape[2 + s] + 2 * a.pad[s]) ++n;
            shape.push_back(n);
          }
          Array y(shape, in[0].dtype);
          each_of_windows(a, shape, in[0].shape,
                          [&](const Place& p, const Place& from) { y.at(p) = in[0].at(from); });
          return {y};
        })),
    reference<Columns>("col2im",
                       [](const Arrays& in, const Columns& a) -> Arrays {
                         const size_t axes = in[0].shape.size() / 2 - 1;
                         Lengths shape(in[0].shape.begin(), in[0].shape.begin() + 2);
                         for (size_t s = 0; s < axes; ++s) shape.push_back(a.size[s]);
                         Array y(shape, in[0].dtype);
                         each_of_windows(
                             a, in[0].shape, shape,
                             [&](const Place& p, const Place& from) { y.at(from) += in[0].at(p); });
                         return {y};
                       }),
    each_exact(reference<Nearest>("resize_nearest",
                                  [](const Arrays& in, const Nearest& a) -> Arrays {
                                    Lengths shape;
                                    for (int i = 0; i < in[0].rank(); ++i)
                                      shape.push_back(a.size[i]);
                                    return {moved(in[0], shape, 0, [&](Place p) {
                                      for (size_t i = 0; i < p.size(); ++i)
                                        p[i] = p[i] * in[0].shape[i] / shape[i];
                                      return p;
                                    })};
                                  })),
    reference<PadGrad>("pad_grad",
                       [](const Arrays& in, const PadGrad& a) -> Arrays {
                         const size_t axis = static_cast<size_t>(a.axis);
                         const Lengths from = padded(a.length, a.before, in[0].shape[axis], a.rule);
                         std::vector<Term> terms;
                         for (size_t i = 0; i < from.size(); ++i)
                           terms.push_back({static_cast<int64_t>(i), from[i], 1});
                         return {added(in[0], axis, a.length, terms)};
                       }),
    reference<NearestGrad>("resize_nearest_grad",
                           [](const Arrays& in, const NearestGrad& a) -> Arrays {
                             const size_t axis = static_cast<size_t>(a.axis);
                             const int64_t m = in[0].shape[axis];
                             std::vector<Term> terms;
                             for (int64_t i = 0; i < m; ++i)
                               terms.push_back({i, i * a.length / m, 1});
                             return {added(in[0], axis, a.length, terms)};
                           }),
    reference<Linear>("resize_linear",
                      [](const Arrays& in, const Linear& a) -> Arrays {
                        const size_t axis = static_cast<size_t>(a.axis);
                        std::vector<Term> terms =
                            linear_terms(in[0].shape[axis], a.length, a.align_corners);
                        for (Term& t : terms) std::swap(t.i, t.source);
                        return {added(in[0], axis, a.length, terms)};
                      }),
    reference<LinearGrad>("resize_linear_grad",
                          [](const Arrays& in, const LinearGrad& a) -> Arrays {
                            const size_t axis = static_cast<size_t>(a.axis);
                            return {
                                added(in[0], axis, a.length,
                                      linear_terms(a.length, in[0].shape[axis], a.align_corners))};
                          }),
    reference<RavelAttrs>("ravel_multi_index",
                          [](const Arrays& in, const RavelAttrs& a) -> Arrays {
                            const Lengths shape = lengths_of(a.shape);
                            Array y(in[0].shape, i64);
                            for (size_t i = 0; i < y.values.size(); ++i)
                              for (size_t k = 0; k < in.size(); ++k) {
                                const int64_t n = shape[k];
                                int64_t at = static_cast<int64_t>(in[k].values[i]);
                                if (a.mode == 1) at = std::clamp<int64_t>(at, 0, n - 1);
                                if (a.mode == 2) at = (at % n + n) % n;
                                y.values[i] = y.values[i] * Real(n) + Real(at);
                              }
                            return {y};
                          }),
}};

}  // namespace
}  // namespace locus::test
