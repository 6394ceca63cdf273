#include <algorithm>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/recompute.h>
#include <locus/core/tape/tape.h>
#include <locus/ops/call_check.h>
#include <locus/ops/create.h>
#include <locus/ops/norm.h>
#include <locus/ops/norm/norm_parts.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

using namespace norms;

Meta stats_of(const Meta& data, const NormAttrs& a) {
  return make_meta(f64, std::span(data.shape + a.axis, 1));
}

void check_running(std::span<const Meta> in, const NormAttrs& a) {
  const Shape channels(stats_of(in[0], a));
  for (const Meta& m : in.subspan(3)) {
    if (Shape(m) != channels)
      throw ShapeError("expected running statistics of shape ", channels, ", got ", Shape(m));
    if (m.dtype != in[3].dtype || (m.dtype != f32 && m.dtype != f64))
      throw DTypeError("expected running_mean and running_var of f32, or of f64, got ",
                       name(in[3].dtype), " and ", name(in[4].dtype));
  }
}

DType infer_training(std::span<const Meta> in, const BatchNormAttrs& a, std::span<Meta> out) {
  check_training(in, a);
  out[0] = in[0];
  out[1] = out[2] = stats_of(in[0], a);
  for (size_t i : {3, 4}) out[i] = in[i];
  return in[0].dtype;
}
DType infer_inference(std::span<const Meta> in, const NormAttrs& a, std::span<Meta> out) {
  check(in.first(3), a);
  check_running(in, a);
  out[0] = in[0];
  return in[0].dtype;
}
DType infer_statistics(std::span<const Meta> in, const NormAttrs& a, std::span<Meta> out) {
  check(in, a);
  out[0] = out[1] = stats_of(in[0], a);
  return in[0].dtype;
}
DType infer_batch_grad(std::span<const Meta> in, const NormGradAttrs& a, std::span<Meta> out) {
  check(in.subspan(1, 2), a);
  return infer_grad(in, a, stats_of(in[1], a), out);
}

// kGiven: statistics are inputs. Otherwise they are the data's, and results.
template <bool kGiven>
using AttrsOf = If<kGiven, NormAttrs, BatchNormAttrs>;

// The gradient of a statistic: its own, plus `share` of its running statistic's.
Tensor with_share(const Tensor& own, const Tensor& next, double share) {
  if (!next.defined()) return own;
  const Tensor part = detail::as(next, f64) * share;
  return own.defined() ? own + part : part;
}

template <bool kGiven>
Tensors gradient(const Saved& saved, std::span<const Tensor> dout) {
  const auto& a = saved.attrs<AttrsOf<kGiven>>();
  const Layout4 at = Layout4::channels(saved.in_meta(0), a);
  const Tensor &mean = kGiven ? saved.in(3) : saved.out(1),
               &var = kGiven ? saved.in(4) : saved.out(2);
  Tensors of_results{dout[0]}, of_running;
  if constexpr (!kGiven) {
    const double kept = at.n > 0 ? a.momentum : 1;
    for (size_t i : {1, 2}) {
      of_results.push_back(with_share(dout[i], dout[i + 2], 1 - kept));
      of_running.push_back(dout[i + 2].defined() ? dout[i + 2] * kept : Tensor());
    }
  }
  const Gradients g =
      composed(at, saved.in(0), saved.in(1), mean, var, a.epsilon, of_results, kGiven);
  if constexpr (kGiven) {
    const Tensor rstd = inverse_deviation(detail::as(var, f64), a.epsilon),
                 scaled = saved.in(1) * rstd;
    of_running = {-(scaled * g.beta), scaled * rstd * g.gamma * -.5};
  }
  return {as_input(g.data, saved, 0), as_input(g.gamma, saved, 1), as_input(g.beta, saved, 2),
          as_input(of_running[0], saved, 3), as_input(of_running[1], saved, 4)};
}

template <bool kGiven>
Tensors fused_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<NormGradAttrs> op("batch_norm_grad");
  if (!kGiven && std::ranges::any_of(dout.subspan(1), &Tensor::defined))
    return gradient<kGiven>(saved, dout);
  const bool of_given = kGiven && (saved.needs(3) || saved.needs(4));
  const Tensor mean = kGiven ? detail::as(saved.in(3), f64) : saved.out(1),
               var = kGiven ? detail::as(saved.in(4), f64) : saved.out(2);
  const Ref in[] = {dout[0], saved.in(0), saved.in(1), mean, var};
  const auto& a = saved.attrs<AttrsOf<kGiven>>();
  const NormGradAttrs attrs{a, saved.needs(0), of_given || saved.needs(1),
                            of_given || saved.needs(2), kGiven};
  Tensors result = invoke_all(op, in, attrs, {saved.place(0), saved.place(1), saved.place(2)});
  if (of_given) {
    const Tensor rstd = inverse_deviation(var, a.epsilon), scaled = saved.in(1) * rstd;
    result.push_back(as_input(-(scaled * result[2]), saved, 3));
    result.push_back(as_input(scaled * rstd * result[1] * -.5, saved, 4));
  }
  result.resize(static_cast<size_t>(saved.n_in()));
  return result;
}

// dx is dmean / n + dvar 2 (x - mean) / n: what inference computes with these factors as beta and
// gamma, and variance 1.
Tensors statistics_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<NormAttrs> inference("batch_norm_inference");
  NormAttrs attrs = saved.attrs<NormAttrs>();
  const Meta& data = saved.in_meta(0);
  const double n = Layout4::channels(data, attrs).n;
  const Tensor &x = saved.in(0), &mean = saved.out(0);
  const auto share = [&](const Tensor& d, double factor) {
    return d.defined() ? parameter(d * (factor / std::max(n, 1.)), x)
                       : zeros(mean.shape(), {mean.context(), parameter_dtype(data.dtype)});
  };
  attrs.epsilon = 0;
  return {
      invoke(inference, {x, share(dout[1], 2), share(dout[0], 1), mean, ones_like(mean)}, attrs)};
}

// Samples

template <bool kGiven>
Samples samples(Context c, DType d) {
  Samples all;
  const auto add = [&](const Shape& shape, int axis, double epsilon = 1e-5) {
    Tensors in{sample_values(c, d, shape)};
    for (int i = 1; i < 5; ++i) {
      const bool wide = i > 2 && all.size() % 2 == 1;
      in.push_back(
          sample_values(c, wide ? f64 : parameter_dtype(d), {shape[axis]}, i == 4 ? 1 : -2, 2, i));
    }
    AttrsOf<kGiven> attrs;
    attrs.axis = axis, attrs.epsilon = epsilon;
    if constexpr (!kGiven) attrs.momentum = .5 + .125 * axis;
    all.emplace_back(std::move(in), attrs);
  };
  add({4, 3}, 1);
  add({3, 2, 3}, 1, .3);
  add({2, 2, 4, 5}, 1);
  add({2, 3, 4}, 2);
  add({5, 2}, 0);
  return all;
}
Samples statistics_samples(Context c, DType d) {
  Samples all;
  for (const Sample& s : samples<true>(c, d))
    all.emplace_back(Tensors{s.inputs[0]}, s.attrs.as<NormAttrs>());
  return all;
}
Samples grad_samples(Context c, DType d) {
  Samples all;
  int needs = 7;
  for (bool given : {false, true})
    for (const Sample& s : samples<false>(c, d)) {
      const Shape channels = s.inputs[1].shape();
      const Tensors in{sample_values(c, d, s.inputs[0].shape(), -2, 2, 3), s.inputs[0], s.inputs[1],
                       sample_values(c, f64, channels, -1, 1, 4),
                       sample_values(c, f64, channels, 1, 2, 5)};
      all.emplace_back(in, NormGradAttrs{s.attrs.as<BatchNormAttrs>(), (needs & 1) != 0,
                                         (needs & 2) != 0, (needs & 4) != 0, given});
      needs = needs == 1 ? 7 : needs - 1;
    }
  return all;
}

}  // namespace

void norms::check_training(std::span<const Meta> in, const BatchNormAttrs& a) {
  check(in.first(3), a);
  check_running(in, a);
  const detail::Expect expect;
  expect(a.momentum >= 0 && a.momentum <= 1, "momentum", a.momentum, "a number in [0, 1]");
}

Tensor batch_norm(const Tensor& data, const Tensor& gamma, const Tensor& beta,
                  const Tensor& running_mean, const Tensor& running_var, const BatchNormOptions& o,
                  Caller from) try {
  const UserLine user_line(from);
  static const OpRef<BatchNormAttrs> training("batch_norm");
  static const OpRef<NormAttrs> inference("batch_norm_inference");
  const Tensor x = floating(data), g = parameter(gamma, x), b = parameter(beta, x);
  const NormAttrs attrs{detail::axis_of(data, o.axis, "batch_norm"), 1, o.epsilon};
  if (o.use_global_stats || !autograd::is_training())
    return invoke(inference, {x, g, b, parameter(running_mean, x), parameter(running_var, x)},
                  attrs);
  const BatchNormAttrs of_training{attrs, o.momentum};
  const Ref in[] = {x, g, b, running_mean, running_var};
  if (autograd::is_recomputing()) {  // running statistics are neither read nor stepped
    const Tensor mean = b.detach(), var = g.detach();
    const Ref again[] = {x, g, b, mean, var};
    return invoke_all(training, again, of_training)[0];
  }
  for (const Tensor* t : {&running_mean, &running_var}) check_in_place("batch_norm", {}, *t);
  Tensors out;
  {
    const autograd::Pause pause(true);
    out = invoke_all(training, in, of_training, {{}, {}, {}, running_mean, running_var});
  }
  // The tensors of the program stay outside of the graph.
  for (size_t i : {3, 4}) out[i] = alias(out[i], out[i].impl().view);
  if (autograd::is_recording()) record(training, in, AttrsView::of(of_training), out);
  return out[0];
} catch (const Error&) {
  rethrow_at(from);
}

void register_batch_norm() {
  constexpr Keep data = keep_input(0) | keep_input(1);
  OpDef<BatchNormAttrs>("batch_norm", {"data", "gamma", "beta", "running_mean", "running_var"})
      .outputs(5)
      .infer<&infer_training>()
      .over_input(3)
      .over_input(4)
      .gradient<&gradient<false>>(data | keep_output(1) | keep_output(2))
      .fused_gradient<&fused_gradient<false>>()
      .samples<&samples<false>>();
  OpDef<NormAttrs>("batch_norm_inference", {"data", "gamma", "beta", "running_mean", "running_var"})
      .infer<&infer_inference>()
      .gradient<&gradient<true>>(data | keep_input(3) | keep_input(4))
      .fused_gradient<&fused_gradient<true>>()
      .samples<&samples<true>>();
  OpDef<NormAttrs>("batch_norm_statistics", {"data"})
      .outputs(2)
      .infer<&infer_statistics>()
      .gradient<&statistics_gradient>(keep_input(0) | keep_output(0))
      .samples<&statistics_samples>();
  OpDef<NormGradAttrs>("batch_norm_grad", {"dout", "data", "gamma", "mean", "var"})
      .outputs(3)
      .infer<&infer_batch_grad>()
      .no_gradient("the first order only: with create_graph it is composed of other ops")
      .samples<&grad_samples>();
}

}  // namespace locus
