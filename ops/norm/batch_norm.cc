#include <locus/core/autograd.h>
#include <locus/core/recompute.h>
#include <locus/ops/norm.h>
#include <locus/ops/norm/norm_parts.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

using namespace norms;

Meta stats_of(const Meta& data, const NormAttrs& a) {
  return make_meta(f64, std::span(data.shape + a.axis, 1));
}

DType infer(std::span<const Meta> in, const NormAttrs& a, std::span<Meta> out) {
  check(in, a);
  out[0] = in[0];
  for (Meta& m : out.subspan(1)) m = stats_of(in[0], a);
  return in[0].dtype;
}
DType infer_batch_grad(std::span<const Meta> in, const NormGradAttrs& a, std::span<Meta> out) {
  check(in.subspan(1, 2), a);
  return infer_grad(in, a, stats_of(in[1], a), out);
}

DType infer_update(std::span<const Meta> in, const BatchNormUpdateAttrs& a, std::span<Meta> out) {
  for (size_t i : {0, 1}) {
    if (in[i].rank != 1 || Shape(in[i]) != Shape(in[2 + i]))
      throw ShapeError("expected running statistics of shape ", Shape(in[2]), ", got ",
                       Shape(in[i]));
    out[i] = in[i];
  }
  if (in[0].dtype != in[1].dtype)
    throw DTypeError("expected running_mean and running_var of one dtype, got ", name(in[0].dtype),
                     " and ", name(in[1].dtype));
  const detail::Expect expect;
  expect(a.momentum >= 0 && a.momentum <= 1, "momentum", a.momentum, "a number in [0, 1]");
  return in[0].dtype;
}

// With the statistics of the data, which are results, or with given ones, which are inputs.
template <bool kGiven>
Tensors gradient(const Saved& saved, std::span<const Tensor> dout) {
  const NormAttrs& a = saved.attrs<NormAttrs>();
  const Layout4 at = Layout4::channels(saved.in_meta(0), a);
  const Tensor &mean = kGiven ? saved.in(3) : saved.out(1),
               &var = kGiven ? saved.in(4) : saved.out(2);
  const Gradients g = composed(at, saved.in(0), saved.in(1), mean, var, a.epsilon, dout, kGiven);
  Tensors result{as_input(g.data, saved, 0), as_input(g.gamma, saved, 1),
                 as_input(g.beta, saved, 2)};
  if constexpr (kGiven) {
    const Tensor rstd = rsqrt(detail::as(var, f64) + a.epsilon), scaled = saved.in(1) * rstd;
    result.push_back(as_input(-(scaled * g.beta), saved, 3));
    result.push_back(as_input(scaled * rstd * g.gamma * -.5, saved, 4));
  }
  return result;
}

template <bool kGiven>
Tensors fused_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<NormGradAttrs> op("batch_norm_grad");
  const bool plain =
      kGiven ? !saved.needs(3) && !saved.needs(4) : !dout[1].defined() && !dout[2].defined();
  if (!plain) return gradient<kGiven>(saved, dout);
  const Tensor mean = kGiven ? detail::as(saved.in(3), f64) : saved.out(1),
               var = kGiven ? detail::as(saved.in(4), f64) : saved.out(2);
  const Ref in[] = {dout[0], saved.in(0), saved.in(1), mean, var};
  const NormGradAttrs attrs{saved.attrs<NormAttrs>(), saved.needs(0), saved.needs(1),
                            saved.needs(2), kGiven};
  Tensors result = invoke_all(op, in, attrs, {saved.place(0), saved.place(1), saved.place(2)});
  result.resize(static_cast<size_t>(saved.n_in()));
  return result;
}

// Samples

template <bool kGiven>
Samples samples(Context c, DType d) {
  Samples all;
  const auto add = [&](const Shape& shape, int axis, double epsilon = 1e-5) {
    Tensors in{sample_values(c, d, shape)};
    for (int i = 1; i < (kGiven ? 5 : 3); ++i)
      in.push_back(sample_values(c, parameter_dtype(d), {shape[axis]}, i == 4 ? 1 : -2, 2, i));
    all.emplace_back(std::move(in), NormAttrs{axis, 1, epsilon});
  };
  add({4, 3}, 1);
  add({3, 2, 3}, 1, .5);
  add({2, 2, 4, 5}, 1);
  add({2, 3, 4}, 2);
  add({5, 2}, 0);
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
      all.emplace_back(in, NormGradAttrs{s.attrs.as<NormAttrs>(), (needs & 1) != 0,
                                         (needs & 2) != 0, (needs & 4) != 0, given});
      needs = needs == 1 ? 7 : needs - 1;
    }
  return all;
}

}  // namespace

Tensor batch_norm(const Tensor& data, const Tensor& gamma, const Tensor& beta,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& o) {
  static const OpRef<NormAttrs> training("batch_norm"), inference("batch_norm_inference");
  static const OpRef<BatchNormUpdateAttrs> update("batch_norm_update");
  const Tensor x = floating(data), g = parameter(gamma, x), b = parameter(beta, x);
  const NormAttrs attrs{normalize_axis(o.axis, x.ndim(), "batch_norm"), 1, o.epsilon};
  if (o.use_global_stats || !autograd::is_training())
    return invoke(inference, {x, g, b, parameter(running_mean, x), parameter(running_var, x)},
                  attrs);
  const Ref in[] = {x, g, b};
  const Tensors out = invoke_all(training, in, attrs);
  if (x.size() > 0 && !autograd::is_recomputing()) {
    const autograd::Pause pause(true);
    invoke_into(update, {running_mean, running_var, out[1], out[2]}, {running_mean, running_var},
                BatchNormUpdateAttrs{o.momentum});
  }
  return out[0];
}

void register_batch_norm() {
  constexpr Keep data = keep_input(0) | keep_input(1);
  OpDef<NormAttrs>("batch_norm", {"data", "gamma", "beta"})
      .outputs(3)
      .infer<&infer>()
      .gradient<&gradient<false>>(data | keep_output(1) | keep_output(2))
      .fused_gradient<&fused_gradient<false>>()
      .samples<&samples<false>>();
  OpDef<NormAttrs>("batch_norm_inference", {"data", "gamma", "beta", "running_mean", "running_var"})
      .infer<&infer>()
      .gradient<&gradient<true>>(data | keep_input(3) | keep_input(4))
      .fused_gradient<&fused_gradient<true>>()
      .samples<&samples<true>>();
  OpDef<NormGradAttrs>("batch_norm_grad", {"dout", "data", "gamma", "mean", "var"})
      .outputs(3)
      .infer<&infer_batch_grad>()
      .no_gradient("the first order only: with create_graph it is composed of other ops")
      .samples<&grad_samples>();
  OpDef<BatchNormUpdateAttrs>("batch_norm_update", {"running_mean", "running_var", "mean", "var"})
      .outputs(2)
      .infer<&infer_update>()
      .in_place()
      .no_gradient("updates in place, outside the graph")
      .no_samples("updates in place: tests/norm_test.cc");
}

}  // namespace locus
