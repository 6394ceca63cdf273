// Ops, and functions of sorted bins. histogram.cc and unique.cc have the other functions.
#include <locus/ops/search.h>

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
#include <locus/ops/index.h>
#include <locus/ops/reduce.h>
#include <locus/ops/search/search_kernel.h>
#include <locus/ops/search/search_parts.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus {

namespace detail {

void expect_one_axis(const char* who, const char* name, const Tensor& x) {
  if (x.ndim() != 1)
    throw ShapeError(who, ": ", name, " ", describe(x), "; expected a tensor of one axis");
}

Tensor place_in(const Tensor& bins, const Tensor& x, Side side) {
  static const OpRef<SearchAttrs> op("searchsorted");
  const DType d = promote(bins.dtype(), x.dtype());
  return invoke(op, {as(bins, d), as(x, d)}, SearchAttrs{side == Side::right});
}

bool decreases(const Tensor& bins, Caller from) {
  if (bins.size() < 2) return false;
  const Tensor before = bins(Slice(0, -1)), after = bins(Slice(1, std::nullopt));
  Tensor falls = before > after;
  if (is_floating(bins.dtype()))
    falls = logical_or(falls, logical_and(isnan(before), logical_not(isnan(after))));
  return any(falls).item<bool>(from);
}

}  // namespace detail

namespace {

using detail::as;

void expect_rank_1(const Meta& m, const char* what) {
  if (m.rank != 1) throw ShapeError("expected ", what, " of one axis");
}

DType searchsorted_infer(std::span<const Meta> in, const SearchAttrs&, std::span<Meta> out) {
  expect_rank_1(in[0], "bins");
  out[0] = in[1];
  out[0].dtype = i64;
  return one_dtype(in);
}

DType isin_infer(std::span<const Meta> in, const IsinAttrs&, std::span<Meta> out) {
  expect_rank_1(in[1], "test elements");
  out[0] = in[0];
  out[0].dtype = bool_;
  return one_dtype(in);
}

void expect_weights(std::span<const Meta> in, size_t at) {
  if (in.size() <= at) return;
  if (Shape(in[at]) != Shape(in[0])) throw ShapeError("expected weights of data's shape");
  if (in[0].size() >= int64_t{1} << 32)  // kernels sort positions of 32 bits
    throw ValueError("expected weights of fewer than 2^32 elements, got ", in[0].size());
}

DType bincount_infer(std::span<const Meta> in, const BincountAttrs& a, std::span<Meta> out) {
  if (a.bins < 0) throw ValueError("expected at least 0 bins, got ", a.bins);
  expect_weights(in, 1);
  out[0] = make_meta(in.size() > 1 ? in[1].dtype : i64, Shape{a.bins});
  return in[0].dtype;
}

DType histogram_infer(std::span<const Meta> in, const HistogramAttrs& a, std::span<Meta> out) {
  expect_rank_1(in[1], "edges");
  expect_weights(in, 2);
  const DType d = in[0].dtype, wanted = d == f32 || d == f16 || d == bf16 ? f32 : f64;
  const bool exact = d == i64 && in[1].dtype == i64 && !a.uniform;
  if (in[1].dtype != wanted && !exact)
    throw DTypeError("expected edges of ", name(wanted), d == i64 ? " or i64" : "");
  out[0] = make_meta(in.size() > 2 ? in[2].dtype : i64,
                     Shape{in[1].shape[0] > 0 ? in[1].shape[0] - 1 : 0});
  return d;
}

DType run_starts_infer(std::span<const Meta> in, const RunAttrs&, std::span<Meta> out) {
  if (in[0].rank == 0) throw ShapeError("expected data with axes");
  out[0] = make_meta(bool_, Shape{in[0].shape[0]});
  return in[0].dtype;
}

// Gradients: of the weights alone. Each has the gradient of its bin, or 0 outside of all bins.

Tensor of_bins(const Tensor& dout, const Tensor& ids) {
  if (dout.size() == 0) return zeros(ids.shape(), {dout.context(), dout.dtype()});
  const Tensor inside = logical_and(ids >= 0, ids < dout.size());
  return where(inside, take(dout, ids, {.mode = IndexMode::clip}), 0);
}

Tensors bincount_gradient(const Saved& saved, std::span<const Tensor> dout) {
  if (saved.n_in() == 1) return {Tensor()};
  return {Tensor(), of_bins(dout[0], as(saved.in(0), i64))};
}

Tensors histogram_gradient(const Saved& saved, std::span<const Tensor> dout) {
  if (saved.n_in() == 2) return {Tensor(), Tensor()};
  const Tensor edges = saved.in(1);
  if (edges.size() < 2)
    return {Tensor(), Tensor(), zeros(saved.in_shape(2), {edges.context(), saved.in_dtype(2)})};
  const Tensor x = as(saved.in(0), edges.dtype()), last = edges[-1];
  const Tensor place = detail::place_in(edges, x, Side::right) - 1;
  const Tensor ids = where(x == last, edges.size() - 2, where(x < last, place, -1));
  return {Tensor(), Tensor(), of_bins(dout[0], ids)};
}

// Samples

Sample fixed(Tensors in, const auto& attrs, std::vector<int> finite) {
  Sample s(std::move(in), attrs);
  s.differentiable = false;
  s.finite = std::move(finite);
  return s;
}

Tensor sorted_bins(Context c, DType d, int64_t n) {
  return d == bool_ ? array({0, 1, 1}, c).astype(bool_)
                    : (arange(0, n, 1, {c, f64}) * .75 - (d == u8 ? 0 : 1.5)).astype(d);
}

Samples searchsorted_samples(Context c, DType d) {
  const auto one = [&](int64_t n, const Shape& shape, bool right) {
    return fixed({sorted_bins(c, d, n), sample_values(c, d, shape)}, SearchAttrs{right}, {0});
  };
  return {one(5, {37}, false), one(6, {3, 4}, true), one(1, {2}, false)};
}

Samples isin_samples(Context c, DType d) {
  const auto one = [&](int64_t n, const Shape& shape, bool invert) {
    return fixed({sample_values(c, d, shape).astype(i32).astype(d), sorted_bins(c, d, n)},
                 IsinAttrs{invert}, {1});
  };
  return {one(5, {37}, false), one(6, {3, 4}, true)};
}

Samples bincount_samples(Context c, DType d) {
  const Tensor ids = array({0, 1, 1, 0, 3, 2, 1, 9}, c).astype(d);
  return {fixed({ids}, BincountAttrs{4}, {}),
          fixed({ids, sample_values(c, f64, {8})}, BincountAttrs{3}, {}),
          fixed({ids.reshape({2, 4}), array({1, 2, 3, 4, 5, 6, 7, 8}, c).reshape({2, 4})},
                BincountAttrs{5}, {})};
}

Samples histogram_samples(Context c, DType d) {
  const DType e = d == f32 || d == f16 || d == bf16 ? f32 : f64;
  const Tensor even = arange(0, 6, 1, {c, e}) * .5 - 1,
               uneven = array({-1.5, -.5, .25, 1.0}, {c, e});
  const Tensor x = sample_values(c, d, {37});
  return {fixed({x, even}, HistogramAttrs{true}, {1}),
          fixed({x, uneven}, HistogramAttrs{false}, {1}),
          fixed({x, uneven, sample_values(c, e, {37}, 0, 2, 1)}, HistogramAttrs{false}, {1, 2}),
          fixed({x.reshape({1, 37}), even, arange(0, 37, 1, {c, i64}).reshape({1, 37})},
                HistogramAttrs{true}, {1})};
}

Samples run_starts_samples(Context c, DType d) {
  const Tensor x = sample_values(c, d, {12}).astype(i32).astype(d);
  return {fixed({x}, RunAttrs{true}, {}), fixed({x.reshape({6, 2})}, RunAttrs{false}, {}),
          fixed({x.reshape({3, 2, 2})}, RunAttrs{true}, {})};
}

void expect_side(const char* who, Side side) {
  if (side > Side::right)
    throw ValueError(who, ": side ", static_cast<int>(side),
                     "; expected Side::left or Side::right");
}

}  // namespace

Tensor searchsorted(const Tensor& given, const Operand& x, const SearchOptions& o,
                    Caller from) try {
  const UserLine user_line(from);
  constexpr const char* kName = "searchsorted";
  detail::expect_tensor(kName, given, "bins");
  if (!x.is_scalar()) detail::expect_tensor(kName, x.tensor(), "x");
  expect_side(kName, o.side);
  detail::expect_one_axis(kName, "bins", given);
  if (!x.is_scalar()) detail::expect_together(kName, "bins", given, "x", x.tensor());
  Tensor bins = given;
  if (o.sorter.defined()) {
    detail::expect_together(kName, "bins", given, "sorter", o.sorter);
    if (!is_integer(o.sorter.dtype()))
      throw DTypeError(kName, ": sorter ", describe(o.sorter), "; expected integers");
    if (o.sorter.shape() != bins.shape())
      throw ShapeError(kName, ": sorter ", describe(o.sorter), "; expected the shape of bins ",
                       describe(bins));
    bins = detail::with_indices(kName, "sorter", [&] { return take(bins, o.sorter); });
  }
  if (!x.is_scalar()) return detail::place_in(bins, x.tensor(), o.side);
  const DType d = promote(bins.dtype(), x.scalar());
  const TensorOptions like{bins.context(), holds(d, x.scalar()) ? d : i64};
  return detail::place_in(bins, full({}, x.scalar(), like), o.side);
} catch (const Error&) {
  detail::rethrow_as("searchsorted", from);
}

Tensor digitize(const Tensor& x, const Tensor& bins, const DigitizeOptions& o, Caller from) try {
  const UserLine user_line(from);
  constexpr const char* kName = "digitize";
  detail::expect_tensor(kName, x, "x");
  detail::expect_tensor(kName, bins, "bins");
  detail::expect_one_axis(kName, "bins", bins);
  detail::expect_together(kName, "x", x, "bins", bins);
  capture::check_wait(x.context(), kName, from);
  const autograd::Pause pause;
  const Side side = o.right ? Side::left : Side::right;
  if (!detail::decreases(bins, from)) return detail::place_in(bins, x, side);
  const Tensor back = flip(bins, 0);
  if (detail::decreases(back, from))
    throw ValueError(kName, ": bins ", describe(bins),
                     ": expected bins that increase or decrease monotonically");
  return bins.size() - detail::place_in(back, x, side);
} catch (const Error&) {
  detail::rethrow_as("digitize", from);
}

void register_search() {
  OpDef<SearchAttrs>("searchsorted", {"bins", "data"})
      .infer<&searchsorted_infer>()
      .no_gradient("the result counts")
      .samples<&searchsorted_samples>();
  OpDef<IsinAttrs>("isin", {"data", "test_elements"})
      .infer<&isin_infer>()
      .no_gradient("the result is a truth value")
      .samples<&isin_samples>();
  OpDef<BincountAttrs>("bincount", {"data", "weights"})
      .inputs(1, 2)
      .infer<&bincount_infer>()
      .gradient<&bincount_gradient>(keep_input(0))
      .samples<&bincount_samples>();
  OpDef<HistogramAttrs>("histogram", {"data", "edges", "weights"})
      .inputs(2, 3)
      .infer<&histogram_infer>()
      .gradient<&histogram_gradient>(keep_input(0) | keep_input(1))
      .samples<&histogram_samples>();
  OpDef<RunAttrs>("run_starts", {"data"})
      .infer<&run_starts_infer>()
      .no_gradient("the result is a truth value")
      .samples<&run_starts_samples>();
}

}  // namespace locus
