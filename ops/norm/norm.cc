// Normalisations with statistics per row, and code shared with batch_norm.cc.
#include <locus/ops/norm.h>

#include <algorithm>

#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/call_check.h>
#include <locus/ops/copy.h>
#include <locus/ops/norm/norm_parts.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus {
namespace norms {

void check(std::span<const Meta> in, const NormAttrs& a) {
  const Meta& x = in[0];
  if (a.axis < 0 || a.axis >= x.rank)
    throw ShapeError("expected an axis of channels in [0, ", int(x.rank), "), got ", a.axis);
  const int64_t channels = x.shape[a.axis];
  if (a.groups < 1 || channels % a.groups != 0)
    throw ShapeError("expected num_groups that divides the ", channels, " channels, got ",
                     a.groups);
  for (size_t i = 1; i < in.size(); ++i) {
    if (in[i].rank != 1 || in[i].shape[0] != channels)
      throw ShapeError("expected parameters of shape (", channels, ",), one per channel of axis ",
                       a.axis, ", got ", Shape(in[i]));
    if (in[i].dtype != parameter_dtype(x.dtype))
      throw DTypeError("expected parameters of ", name(parameter_dtype(x.dtype)), " for data of ",
                       name(x.dtype), ", got ", name(in[i].dtype));
  }
  const detail::Expect expect{f64};
  expect(a.epsilon >= 0 && expect.holds(a.epsilon), "epsilon", a.epsilon,
         "a finite number that is not negative");
}

DType infer_grad(std::span<const Meta> in, const NormGradAttrs& a, const Meta& stats,
                 std::span<Meta> out) {
  if (Shape(in[0]) != Shape(in[1]) || in[0].dtype != in[1].dtype)
    throw ShapeError("expected dout of data's shape and dtype");
  for (const Meta& m : in.subspan(3))
    if (Shape(m) != Shape(stats) || m.dtype != stats.dtype)
      throw ShapeError("expected statistics ", Shape(stats), " f64, got ", Shape(m), " ",
                       name(m.dtype));
  const int64_t none[] = {0};
  const Meta empty = make_meta(in[2].dtype, none);
  out[0] = a.data ? in[1] : make_meta(in[1].dtype, none);
  out[1] = a.gamma ? in[2] : empty;
  if (out.size() > 2) out[2] = a.beta ? in[2] : empty;
  return in[0].dtype;
}

Layout4 Layout4::rows(const Meta& data, const NormAttrs& a) {
  const NormRows s(data, a);
  const int64_t outer = s.rows / s.groups;
  return {{outer, s.groups, s.each, s.inner},
          {outer, s.groups, 1, 1},
          {s.groups, s.each, 1},
          {2, 3},
          {0, 3},
          static_cast<double>(s.n)};
}
Layout4 Layout4::channels(const Meta& data, const NormAttrs& a) {
  const Along s(data, a.axis);
  return {{s.outer, s.n, s.inner, 1},   {s.n, 1, 1}, {s.n, 1, 1}, {0, 2, 3}, {0, 2, 3},
          static_cast<double>(s.rows())};
}

Tensor inverse_deviation(const Tensor& variance, double epsilon) {
  return rsqrt(variance + epsilon);
}

Gradients composed(const Layout4& at, const Tensor& data, const Tensor& gamma, const Tensor& mean,
                   const Tensor& variance, double epsilon, std::span<const Tensor> dout,
                   bool given) {
  const auto wide = [](const Tensor& t, const Shape& shape) {
    return detail::reshape_exact(detail::as(t, f64), shape);
  };
  const Tensor x = wide(data, at.data), rstd = inverse_deviation(wide(variance, at.stats), epsilon);
  const Tensor centred = mean.defined() ? x - wide(mean, at.stats) : x;
  Gradients result;
  const auto add = [&](const Tensor& dx) {
    result.data = result.data.defined() ? result.data + dx : dx;
  };
  if (dout[0].defined()) {
    const ReduceOptions over{.axis = at.over, .keepdims = true}, along{.axis = at.along};
    const Tensor hat = centred * rstd, d = wide(dout[0], at.data),
                 scaled = d * wide(gamma, at.gamma);
    result.beta = sum(d, along);
    result.gamma = sum(d * hat, along);
    Tensor dx = scaled;
    if (!given) dx = dx - hat * locus::mean(scaled * hat, over);
    if (!given && mean.defined()) dx = dx - locus::mean(scaled, over);
    add(dx * rstd);
  }
  if (mean.defined() && dout.size() > 1 && dout[1].defined())
    add(broadcast_to(wide(dout[1], at.stats) / at.n, at.data));
  if (dout.size() > 1 && dout.back().defined())
    add(wide(dout.back(), at.stats) * centred * (2 / at.n));
  return result;
}

Tensor as_input(const Tensor& gradient, const Saved& saved, int i) {
  if (!gradient.defined() || !saved.needs(i)) return Tensor();
  return detail::reshape_exact(detail::as(gradient, saved.in_dtype(i)), saved.in_shape(i));
}

}  // namespace norms

namespace {

using namespace norms;

Meta stats_of(const Meta& data, const NormAttrs& a) {
  Meta m = data;
  m.dtype = f64;
  m.rank = static_cast<int8_t>(a.axis + 1);
  m.shape[a.axis] = a.groups;
  return m;
}
// Results: y, the mean (not for rms_norm), the variance.
DType infer_rows(std::span<const Meta> in, const NormAttrs& a, std::span<Meta> out) {
  check(in, a);
  out[0] = in[0];
  for (Meta& m : out.subspan(1)) m = stats_of(in[0], a);
  return in[0].dtype;
}
DType infer_rows_grad(std::span<const Meta> in, const NormGradAttrs& a, std::span<Meta> out) {
  check(in.subspan(1, 2), a);
  return infer_grad(in, a, stats_of(in[1], a), out);
}

template <bool kCentred>
Tensors rows_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const NormAttrs& a = saved.attrs<NormAttrs>();
  const Gradients g = composed(Layout4::rows(saved.in_meta(0), a), saved.in(0), saved.in(1),
                               kCentred ? saved.out(1) : Tensor(), saved.out(kCentred ? 2 : 1),
                               a.epsilon, dout, false);
  Tensors result{as_input(g.data, saved, 0), as_input(g.gamma, saved, 1)};
  if (kCentred) result.push_back(as_input(g.beta, saved, 2));
  return result;
}

template <bool kCentred>
Tensors rows_fused_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<NormGradAttrs> op(kCentred ? "layer_norm_grad" : "rms_norm_grad");
  for (size_t i = 1; i < dout.size(); ++i)
    if (dout[i].defined()) return rows_gradient<kCentred>(saved, dout);
  const NormGradAttrs attrs{saved.attrs<NormAttrs>(), saved.needs(0), saved.needs(1),
                            kCentred && saved.needs(2)};
  Tensors places{saved.place(0), saved.place(1)};
  if constexpr (!kCentred) {
    const Ref in[] = {dout[0], saved.in(0), saved.in(1), saved.out(1)};
    return invoke_all(op, in, attrs, std::move(places));
  } else {
    places.push_back(saved.place(2));
    const Ref in[] = {dout[0], saved.in(0), saved.in(1), saved.out(1), saved.out(2)};
    return invoke_all(op, in, attrs, std::move(places));
  }
}

// Samples. kLast: channels last, no groups; else groups of the channels of axis 1.
template <bool kCentred, bool kLast>
Samples rows_samples(Context c, DType d) {
  Samples all;
  const auto add = [&](const Shape& shape, int groups, double epsilon = 1e-5) {
    const int axis = kLast ? shape.rank() - 1 : 1;
    Tensors in{sample_values(c, d, shape)};
    for (int i = 1; i < 2 + kCentred; ++i)
      in.push_back(sample_values(c, parameter_dtype(d), {shape[axis]}, -2, 2, i));
    all.emplace_back(std::move(in), NormAttrs{axis, kLast ? 1 : groups, epsilon});
  };
  add({2, 6}, 2);
  add({3, 6, 3}, 3);
  add({1, 4, 37}, 4, .3);
  add({2, 2, 5, 4}, 1);
  return all;
}
template <bool kCentred>
Samples grad_samples(Context c, DType d) {
  Samples all;
  Samples forward = rows_samples<kCentred, true>(c, d);
  if (kCentred)
    for (const Sample& s : rows_samples<kCentred, false>(c, d)) forward.push_back(s);
  for (const Sample& s : forward) {
    const Shape shape = s.inputs[0].shape();
    const NormAttrs& a = s.attrs.as<NormAttrs>();
    const Shape stats(stats_of(make_meta(f64, shape), a));
    Tensors in{sample_values(c, d, shape, -2, 2, 3), s.inputs[0], s.inputs[1]};
    if (kCentred) in.push_back(sample_values(c, f64, stats, -1, 1, 4));
    in.push_back(sample_values(c, f64, stats, 1, 2, 5));
    for (int needs : {7, 1, 6, 2})
      all.emplace_back(in, NormGradAttrs{a, (needs & 1) != 0, (needs & 2) != 0, (needs & 4) != 0});
  }
  return all;
}

template <bool kCentred, bool kLast>
void define_rows(const char* name) {
  constexpr Keep kept =
      keep_input(0) | keep_input(1) | keep_output(1) | (kCentred ? keep_output(2) : Keep::none);
  std::vector<std::string> arguments{"data", "gamma"};
  if (kCentred) arguments.push_back("beta");
  OpDef<NormAttrs>(name, arguments)
      .outputs(2 + kCentred)
      .template infer<&infer_rows>()
      .template gradient<&rows_gradient<kCentred>>(kept)
      .template fused_gradient<&rows_fused_gradient<kCentred>>()
      .template samples<&rows_samples<kCentred, kLast>>();
}
template <bool kCentred>
void define_grad(const char* name) {
  std::vector<std::string> arguments{"dout", "data", "gamma", "var"};
  if (kCentred) arguments.insert(arguments.begin() + 3, "mean");
  OpDef<NormGradAttrs>(name, arguments)
      .outputs(2 + kCentred)
      .template infer<&infer_rows_grad>()
      .no_gradient("the first order only: with create_graph it is composed of other ops")
      .template samples<&grad_samples<kCentred>>();
}

Tensor run(const Op& op, const Tensor& x, const Tensor& gamma, const Tensor& beta,
           const NormAttrs& attrs) {
  const Tensor g = parameter(gamma, x), b = parameter(beta, x);
  const Ref in[] = {x, g, b};
  return invoke_all(op, {in, static_cast<size_t>(op.min_in)}, attrs)[0];
}
// Runs with the channels last.
Tensor run_last(const Op& op, const Tensor& data, const Tensor& gamma, const Tensor& beta,
                const LayerNormOptions& o) {
  const Tensor x = floating(data);
  const int axis = detail::axis_of(data, o.axis, op.name), last = x.ndim() - 1;
  const NormAttrs attrs{last, 1, o.epsilon};
  if (axis == last) return run(op, x, gamma, beta, attrs);
  return swapaxes(run(op, swapaxes(x, axis, last), gamma, beta, attrs), axis, last);
}

void need_batch(const char* op, const Tensor& x) {
  if (x.ndim() < 2)
    throw ShapeError(op, ": data ", describe(x), "; expected (batch, channels, ...)");
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const LayerNormOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<NormAttrs> op("layer_norm");
  return run_last(op, x, gamma, beta, o);
} catch (const Error&) {
  rethrow_at(from);
}
Tensor rms_norm(const Tensor& x, const Tensor& gamma, const LayerNormOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<NormAttrs> op("rms_norm");
  return run_last(op, x, gamma, {}, o);
} catch (const Error&) {
  rethrow_at(from);
}
Tensor group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const GroupNormOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<NormAttrs> op("group_norm");
  need_batch("group_norm", x);
  return run(op, floating(x), gamma, beta, {1, o.num_groups, o.epsilon});
} catch (const Error&) {
  rethrow_at(from);
}
Tensor instance_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                     const InstanceNormOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<NormAttrs> op("instance_norm");
  need_batch("instance_norm", x);
  const int axis = detail::axis_of(x, o.axis, "instance_norm");
  if (axis == 0)
    throw ShapeError("instance_norm: data ", describe(x),
                     ": axis 0 is the batch; expected an axis of channels in [1, ", x.ndim(), ")");
  const int channels = static_cast<int>(std::max<int64_t>(x.shape()[axis], 1));
  const NormAttrs attrs{1, channels, o.epsilon};
  if (axis == 1) return run(op, floating(x), gamma, beta, attrs);
  return swapaxes(run(op, swapaxes(floating(x), axis, 1), gamma, beta, attrs), axis, 1);
} catch (const Error&) {
  rethrow_at(from);
}

void register_norm() {
  define_rows<true, true>("layer_norm");
  define_rows<true, false>("group_norm");
  define_rows<true, false>("instance_norm");
  define_rows<false, true>("rms_norm");
  define_grad<true>("layer_norm_grad");
  define_grad<false>("rms_norm_grad");
}

}  // namespace locus
