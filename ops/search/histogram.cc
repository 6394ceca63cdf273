// bincount and histogram.
#include <algorithm>
#include <cmath>
#include <limits>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/elementwise/call.h>
#include <locus/ops/reduce.h>
#include <locus/ops/search/search_kernel.h>
#include <locus/ops/search/search_parts.h>
#include <locus/ops/view.h>

namespace locus {

namespace {

using detail::as;

// Whether x has f32 edges.
bool is_narrow(DType d) { return d == f32 || d == f16 || d == bf16; }

void expect_weights(const char* who, const Tensor& x, const Tensor& weights) {
  detail::expect_together(who, "x", x, "weights", weights);
  if (weights.shape() != x.shape())
    throw ShapeError(who, ": weights ", describe(weights), "; expected the shape of x ",
                     describe(x));
  if (x.size() >= int64_t{1} << 32)
    throw ValueError(who, ": weights ", describe(weights), "; expected fewer than 2^32 elements");
}

// The first and the last edge, and their difference.
struct Outer {
  double first = 0, last = 1, span = 1;
};

// The least and the largest element of x, which has elements.
Outer extremes(const Tensor& x, Caller from) {
  const Tensor least = min(x), most = max(x);
  if (x.dtype() == i64)
    return {.first = static_cast<double>(least.item<int64_t>(from)),
            .last = static_cast<double>(most.item<int64_t>(from))};
  return {.first = least.item<double>(from), .last = most.item<double>(from)};
}

// In C: a range of one value becomes one of width 1.
template <class C>
Outer widened(const Outer& e) {
  C first = static_cast<C>(e.first), last = static_cast<C>(e.last);
  if (first == last) {
    first -= static_cast<C>(.5);
    last += static_cast<C>(.5);
  }
  return {first, last, last - first};
}

Outer outer_edges(const Tensor& x, const HistogramOptions& o, bool narrow, Caller from) {
  Outer e;
  if (o.range) {
    e = {.first = o.range->first, .last = o.range->second};
    if (!std::isfinite(e.first) || !std::isfinite(e.last))
      throw ValueError("histogram: range (", e.first, ", ", e.last, "); expected finite numbers");
    if (e.first > e.last)
      throw ValueError("histogram: range (", e.first, ", ", e.last,
                       "); expected the larger number last");
  } else if (x.size() > 0) {
    e = extremes(x, from);
    if (!std::isfinite(e.first) || !std::isfinite(e.last))
      throw ValueError("histogram: x ", describe(x), " has elements from ", e.first, " to ", e.last,
                       "; expected finite ones, or a range");
  }
  const bool in_f32 = narrow && !o.range && x.size() > 0;  // NumPy's edges of an f32 array
  e = in_f32 ? widened<float>(e) : widened<double>(e);
  if (!std::isfinite(e.span))
    throw ValueError("histogram: elements from ", e.first, " to ", e.last,
                     "; expected a range whose width is finite");
  return e;
}

// NumPy's linspace, computed in C and rounded to E.
template <class E, class C>
std::vector<E> spaced(const Outer& outer, int64_t bins) {
  const C first = static_cast<C>(outer.first), span = static_cast<C>(outer.span);
  const C step = span / static_cast<C>(bins);
  std::vector<E> edges(static_cast<size_t>(bins) + 1);
  for (int64_t i = 0; i < bins; ++i) {
    const C at = static_cast<C>(i);
    const volatile C offset = step == 0 ? at / static_cast<C>(bins) * span : at * step;
    edges[static_cast<size_t>(i)] = static_cast<E>(offset + first);
  }
  edges.back() = static_cast<E>(outer.last);
  for (size_t i = 0; i + 1 < edges.size(); ++i)
    if (!(edges[i] < edges[i + 1]))
      throw ValueError("histogram: ", bins, " bins from ", outer.first, " to ", outer.last,
                       " have equal edges in ", name(dtype_of<E>()), "; expected fewer bins");
  return edges;
}

Tensor edges_of(const Tensor& x, int64_t bins, const HistogramOptions& o, Caller from) {
  const bool narrow = is_narrow(x.dtype());
  const Outer outer = outer_edges(x, o, narrow, from);
  const Shape shape{bins + 1};
  if (!narrow) return array(spaced<double, double>(outer, bins), shape, {x.context()}, from);
  const bool in_f32 = !o.range && x.size() > 0;
  return array(in_f32 ? spaced<float, float>(outer, bins) : spaced<float, double>(outer, bins),
               shape, {x.context()}, from);
}

std::pair<Tensor, Tensor> counted(const Tensor& x, const Tensor& edges, const Tensor& shown,
                                  bool uniform, const HistogramOptions& o) {
  static const OpRef<HistogramAttrs> op("histogram");
  Tensor counts;
  if (o.weights.defined()) {
    counts = invoke(op, {x, edges, o.weights}, HistogramAttrs{uniform});
  } else {
    const autograd::Pause pause;
    counts = invoke(op, {x, edges}, HistogramAttrs{uniform});
  }
  if (!o.density) return {counts, shown};
  const Tensor all = as(counts, f64);
  if (shown.size() < 2) return {all, shown};
  const Tensor at = is_floating(shown.dtype()) ? shown : as(shown, i64);  // no difference wraps
  const Tensor width = as(at(Slice(1, std::nullopt)) - at(Slice(0, -1)), f64);
  return {all / width / sum(all), shown};
}

void check_operands(const Tensor& x, const HistogramOptions& o, Caller from) {
  detail::expect_tensor("histogram", x, "x");
  if (o.weights.defined()) expect_weights("histogram", x, o.weights);
  capture::check_wait(x.context(), "histogram", from);
}

}  // namespace

Tensor bincount(const Tensor& x, const BincountOptions& o, Caller from) try {
  const UserLine user_line(from);
  constexpr const char* kName = "bincount";
  static const OpRef<BincountAttrs> op(kName);
  detail::expect_tensor(kName, x, "x");
  if (is_floating(x.dtype()))
    throw DTypeError(kName, ": x ", describe(x), "; expected integers; cast it: x.astype(i64)");
  detail::expect_one_axis(kName, "x", x);
  if (o.weights.defined()) expect_weights(kName, x, o.weights);
  if (o.minlength < 0)
    throw ValueError(kName, ": minlength ", o.minlength, "; expected at least 0");
  BincountAttrs attrs{o.minlength};
  if (x.size() > 0) {
    capture::check_wait(x.context(), kName, from);
    const Tensor least = min(x), most = max(x);
    if (const int64_t v = least.item<int64_t>(from); v < 0)
      throw ValueError(kName, ": x ", describe(x), " has an element ", v,
                       "; expected integers from 0 on");
    const int64_t largest = most.item<int64_t>(from);
    if (largest > std::numeric_limits<int64_t>::max() / 16)
      throw ValueError(kName, ": x ", describe(x), " has an element ", largest,
                       "; expected integers that memory can hold a counter for");
    attrs.bins = std::max(attrs.bins, largest + 1);
  }
  if (o.weights.defined()) return invoke(op, {x, as(o.weights, f64)}, attrs);
  const autograd::Pause pause;
  return invoke(op, {x}, attrs);
} catch (const Error&) {
  detail::rethrow_as("bincount", from);
}

std::pair<Tensor, Tensor> histogram(const Tensor& x, int64_t bins, const HistogramOptions& o,
                                    Caller from) try {
  const UserLine user_line(from);
  check_operands(x, o, from);
  constexpr int64_t kMost = int64_t{1} << 28;  // their edges are made on the host
  if (bins < 1 || bins > kMost)
    throw ValueError("histogram: bins ", bins, "; expected 1 to ", kMost);
  const Tensor edges = edges_of(x, bins, o, from);
  return counted(x, edges, edges, true, o);
} catch (const Error&) {
  detail::rethrow_as("histogram", from);
}

std::pair<Tensor, Tensor> histogram(const Tensor& x, const Tensor& edges, const HistogramOptions& o,
                                    Caller from) try {
  const UserLine user_line(from);
  check_operands(x, o, from);
  detail::expect_tensor("histogram", edges, "edges");
  detail::expect_one_axis("histogram", "edges", edges);
  detail::expect_together("histogram", "x", x, "edges", edges);
  if (o.range) throw ValueError("histogram: expected edges or a range, got both");
  {
    const autograd::Pause pause;
    bool wrong = detail::decreases(edges, from);
    if (is_floating(edges.dtype()) && edges.size() > 0 && !wrong)  // NaN lies at the end
      wrong = std::isnan(edges[-1].item<double>(from));
    if (wrong)
      throw ValueError("histogram: edges ", describe(edges),
                       "; expected numbers that do not decrease, and no NaN");
  }
  // Integers up to 32 bits are exact in f64; f16 and bf16 in f32.
  const DType d = promote(x.dtype(), edges.dtype());
  const bool narrow = is_narrow(x.dtype());
  const DType e = narrow && d != f64 ? f32 : d == i64 ? i64 : f64;
  const bool stays = narrow ? e == f32 : e == f64 || x.dtype() == e;
  return counted(stays ? x : as(x, e), as(edges, e), edges, false, o);
} catch (const Error&) {
  detail::rethrow_as("histogram", from);
}

}  // namespace locus
