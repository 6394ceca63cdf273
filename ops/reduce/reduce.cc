#include <locus/ops/reduce.h>

#include <bit>
#include <string>

#include <locus/core/op.h>
#include <locus/devices/cpu.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce/reduce_kernel.h>
#include <locus/ops/view.h>

namespace locus {

Axes::Axes(std::initializer_list<int> axes) : count_(static_cast<int>(axes.size())) {
  if (axes.size() > kMaxRank)
    throw ShapeError("axis: " + std::to_string(axes.size()) + " axes given; expected at most " +
                     std::to_string(kMaxRank));
  int i = 0;
  for (int a : axes) axes_[i++] = a;
}

namespace {

uint32_t all_axes(int rank) { return (1u << rank) - 1; }

ReduceAttrs attributes(const Tensor& x, const ReduceOptions& o, const char* op) {
  const int rank = x.ndim();
  ReduceAttrs attrs{o.axis.all() ? all_axes(rank) : 0, o.keepdims};
  for (int a : o.axis.list()) {
    const uint32_t bit = 1u << normalize_axis(a, rank, op);
    if (attrs.axes & bit)
      throw ShapeError(std::string(op) + ": data " + describe(x) + ": axis " + std::to_string(a) +
                       " is given twice; expected distinct axes");
    attrs.axes |= bit;
  }
  return attrs;
}

Tensor reduce(const Op& op, const Tensor& x, const ReduceOptions& o) {
  const ReduceAttrs attrs = attributes(x, o, op.name.c_str());
  if (!o.out.defined()) return invoke(op, {x}, attrs);
  invoke_into(op, {x}, {o.out}, attrs);
  return o.out;
}

Tensor inexact_input(const Tensor& x) {
  return is_floating(x.dtype()) ? x : x.astype(inexact(x.dtype()));
}

// Shape inference

Meta reduced(const Meta& in, const ReduceAttrs& a, DType dtype) {
  Meta out;
  out.dtype = dtype;
  for (int i = 0; i < in.rank; ++i) {
    const bool gone = a.axes >> i & 1;
    if (!gone || a.keepdims) out.shape[out.rank++] = gone ? 1 : in.shape[i];
  }
  return out;
}

void need_elements(const Meta& in, const ReduceAttrs& a) {
  for (int i = 0; i < in.rank; ++i)
    if ((a.axes >> i & 1) && in.shape[i] == 0)
      throw ShapeError("axis " + std::to_string(i) +
                       " has length 0; expected at least one element, since this reduction has no "
                       "value for none");
}

DType infer_sum(std::span<const Meta> in, const ReduceAttrs& a, std::span<Meta> out) {
  const DType d = in[0].dtype;
  out[0] = reduced(in[0], a, is_floating(d) ? d : i64);
  return d;
}

DType infer_same(std::span<const Meta> in, const ReduceAttrs& a, std::span<Meta> out) {
  out[0] = reduced(in[0], a, in[0].dtype);
  return in[0].dtype;
}

DType infer_extreme(std::span<const Meta> in, const ReduceAttrs& a, std::span<Meta> out) {
  need_elements(in[0], a);
  return infer_same(in, a, out);
}

DType infer_arg(std::span<const Meta> in, const ReduceAttrs& a, std::span<Meta> out) {
  if (std::popcount(a.axes) != 1 && a.axes != all_axes(in[0].rank))
    throw ShapeError("several axes are given; expected one axis, or none for the whole tensor");
  need_elements(in[0], a);
  out[0] = reduced(in[0], a, i64);
  return in[0].dtype;
}

DType infer_sum_to(std::span<const Meta> in, const SumToAttrs& a, std::span<Meta> out) {
  const Meta &from = in[0], &to = a.target;
  const int shift = from.rank - to.rank;
  bool fits = shift >= 0;
  for (int i = 0; fits && i < to.rank; ++i)
    fits = to.shape[i] == from.shape[i + shift] || to.shape[i] == 1;
  if (!fits)
    throw ShapeError("expected a shape that broadcasts to " + to_string(Shape(from)) + ", got " +
                     to_string(Shape(to)));
  out[0] = to;
  out[0].dtype = from.dtype;
  return from.dtype;
}

// Gradients

// A result with its reduced axes put back as length 1, so that it broadcasts against the input.
Tensor with_axes(const Tensor& t, const Saved& saved) {
  const ReduceAttrs& a = saved.attrs<ReduceAttrs>();
  if (a.keepdims || a.axes == 0) return t;
  return t.reshape(Shape(reduced(saved.in_meta(0), {a.axes, true}, t.dtype())));
}

int64_t reduced_count(const Saved& saved) {
  int64_t n = 1;
  for (int i = 0; i < saved.in_meta(0).rank; ++i)
    if (saved.attrs<ReduceAttrs>().axes >> i & 1) n *= saved.in_meta(0).shape[i];
  return n;
}

Tensors sum_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {broadcast_to(with_axes(dout[0], saved), saved.in_shape(0))};
}

Tensors mean_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const Tensor scaled = dout[0] * (1.0 / static_cast<double>(reduced_count(saved)));
  return {broadcast_to(with_axes(scaled, saved), saved.in_shape(0))};
}

// With exactly one 0 in a group only that element has a gradient, with two none has.
Tensors prod_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const ReduceAttrs& a = saved.attrs<ReduceAttrs>();
  static const Op &prod_op = get_op("prod"), &sum_op = get_op("sum");
  const ReduceAttrs kept{a.axes, true};
  const Tensor& x = saved.in(0);
  const Tensor is_zero = x == 0;
  const Tensor nonzero = where(is_zero, 1, x);
  const Tensor zeros = invoke(sum_op, {is_zero}, kept);
  const Tensor product = invoke(prod_op, {nonzero}, kept) * with_axes(dout[0], saved);
  const Tensor others = where(zeros == 0, product / nonzero, 0);
  return {where(is_zero, where(zeros == 1, product, 0), others)};
}

Tensors extreme_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const Tensor hit = saved.in(0) == with_axes(saved.out(), saved);
  return {hit.astype(dout[0].dtype()) * with_axes(dout[0], saved)};
}

Tensors norm_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const Tensor& y = saved.out();
  const Tensor scale = dout[0] / where(y == 0, 1, y);
  return {saved.in(0) * with_axes(scale, saved)};
}

Tensors sum_to_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {broadcast_to(dout[0], saved.in_shape(0))};
}

// Samples

Samples samples(Context c, DType d) {
  return {
      Sample({sample_values(c, d, {7})}, ReduceAttrs{1, false}),
      Sample({sample_values(c, d, {3, 5})}, ReduceAttrs{1, false}),
      Sample({sample_values(c, d, {3, 5})}, ReduceAttrs{2, true}),
      Sample({sample_values(c, d, {4, 1})}, ReduceAttrs{3, false}),
      Sample({sample_values(c, d, {2, 3, 2, 3})}, ReduceAttrs{1 | 4 | 8, false}),
      Sample({sample_values(c, d, {2, 3, 4})}, ReduceAttrs{1 | 4, true}),
      Sample({sample_values(c, d, {2, 3})}, ReduceAttrs{0, false}),
  };
}

Samples arg_samples(Context c, DType d) {
  Samples all = {
      Sample({sample_values(c, d, {7})}, ReduceAttrs{1, false}),
      Sample({sample_values(c, d, {3, 5})}, ReduceAttrs{1, false}),
      Sample({sample_values(c, d, {3, 5})}, ReduceAttrs{2, true}),
      Sample({sample_values(c, d, {2, 3, 4})}, ReduceAttrs{2, false}),
      Sample({sample_values(c, d, {2, 3, 4})}, ReduceAttrs{7, false}),
  };
  for (Sample& s : all) s.differentiable = false;
  return all;
}

Samples sum_to_samples(Context c, DType d) {
  const auto target = [d](std::initializer_list<int64_t> dims) {
    return SumToAttrs{make_meta(d, {dims.begin(), dims.size()})};
  };
  return {
      Sample({sample_values(c, d, {4, 3})}, target({3})),
      Sample({sample_values(c, d, {4, 3})}, target({4, 1})),
      Sample({sample_values(c, d, {2, 4, 3})}, target({1, 3})),
      Sample({sample_values(c, d, {2, 3})}, target({})),
  };
}

}  // namespace

Tensor sum(const Tensor& x, const ReduceOptions& o) {
  static const Op& op = get_op("sum");
  return reduce(op, x, o);
}
Tensor mean(const Tensor& x, const ReduceOptions& o) {
  static const Op& op = get_op("mean");
  return reduce(op, inexact_input(x), o);
}
Tensor prod(const Tensor& x, const ReduceOptions& o) {
  static const Op& op = get_op("prod");
  return reduce(op, x, o);
}
Tensor max(const Tensor& x, const ReduceOptions& o) {
  static const Op& op = get_op("max");
  return reduce(op, x, o);
}
Tensor min(const Tensor& x, const ReduceOptions& o) {
  static const Op& op = get_op("min");
  return reduce(op, x, o);
}
Tensor norm(const Tensor& x, const ReduceOptions& o) {
  static const Op& op = get_op("norm");
  return reduce(op, inexact_input(x), o);
}
Tensor any(const Tensor& x, const ReduceOptions& o) {
  static const Op& op = get_op("any");
  return reduce(op, x.dtype() == bool_ ? x : x.astype(bool_), o);
}
Tensor all(const Tensor& x, const ReduceOptions& o) {
  static const Op& op = get_op("all");
  return reduce(op, x.dtype() == bool_ ? x : x.astype(bool_), o);
}
Tensor argmax(const Tensor& x, const ReduceOptions& o) {
  static const Op& op = get_op("argmax");
  return reduce(op, x, o);
}
Tensor argmin(const Tensor& x, const ReduceOptions& o) {
  static const Op& op = get_op("argmin");
  return reduce(op, x, o);
}
Tensor sum_to(const Tensor& x, const Shape& shape) {
  static const Op& op = get_op("sum_to");
  if (x.shape() == shape) return x;
  return invoke(op, {x}, SumToAttrs{make_meta(x.dtype(), shape)});
}

Tensor Tensor::sum() const { return locus::sum(*this); }
Tensor Tensor::sum(const ReduceOptions& o) const { return locus::sum(*this, o); }
Tensor Tensor::mean() const { return locus::mean(*this); }
Tensor Tensor::mean(const ReduceOptions& o) const { return locus::mean(*this, o); }

void register_reduce() {
  const auto define = [](const char* name) {
    OpDef<ReduceAttrs> op(name, {"data"});
    op.layout(Layout::rows);
    return op;
  };
  define("sum").infer<&infer_sum>().gradient<&sum_gradient>(Keep::none).samples<&samples>();
  define("prod").infer<&infer_sum>().gradient<&prod_gradient>(Keep::inputs).samples<&samples>();
  define("mean").infer<&infer_same>().gradient<&mean_gradient>(Keep::none).samples<&samples>();
  define("norm").infer<&infer_same>().gradient<&norm_gradient>(Keep::both).samples<&samples>();
  define("max").infer<&infer_extreme>().gradient<&extreme_gradient>(Keep::both).samples<&samples>();
  define("min").infer<&infer_extreme>().gradient<&extreme_gradient>(Keep::both).samples<&samples>();
  for (const char* name : {"any", "all"})
    define(name).infer<&infer_same>().no_gradient("booleans have none").samples<&samples>();
  for (const char* name : {"argmax", "argmin"})
    define(name).infer<&infer_arg>().no_gradient("a position has none").samples<&arg_samples>();
  OpDef<SumToAttrs>("sum_to", {"data"})
      .layout(Layout::rows)
      .infer<&infer_sum_to>()
      .gradient<&sum_to_gradient>(Keep::none)
      .samples<&sum_to_samples>();
}

}  // namespace locus
