#include <locus/ops/dense.h>

#include <string>

#include <locus/core/amp.h>
#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/devices/cpu.h>
#include <locus/ops/call_check.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce.h>

namespace locus {

namespace {

DType dense_infer(std::span<const Meta> in, const DenseAttrs& a, std::span<Meta> out) {
  detail::check_activation(a.activation);
  const Meta &x = in[0], &w = in[1];
  if (x.rank != 2 || w.rank != 2 || x.shape[1] != w.shape[1])
    throw ShapeError("expected data (N,in) and weight (out,in) with one `in`, got data ", Shape(x),
                     " and weight ", Shape(w));
  if (in.size() == 3 && (in[2].rank != 1 || in[2].shape[0] != w.shape[0]))
    throw ShapeError("expected bias (", w.shape[0], ",) for weight ", Shape(w), ", got ",
                     Shape(in[2]));
  const int64_t shape[] = {x.shape[0], w.shape[0]};
  out[0] = make_meta(x.dtype, shape);
  return one_dtype(in);
}

DType backward_infer(std::span<const Meta> in, const DenseBackwardAttrs& attrs,
                     std::span<Meta> out) {
  const size_t expected = attrs.relu ? 4 : 3;
  if (in.size() != expected) throw ShapeError("expected ", expected, " operands, got ", in.size());
  const Meta &dy = in[0], &x = in[1], &w = in[2];
  const bool fits = dy.rank == 2 && x.rank == 2 && w.rank == 2 && dy.shape[0] == x.shape[0] &&
                    dy.shape[1] == w.shape[0] && x.shape[1] == w.shape[1];
  if (!fits)
    throw ShapeError("expected dy (N,out), data (N,in) and weight (out,in), got ", Shape(dy), ", ",
                     Shape(x), " and ", Shape(w));
  if (attrs.relu && Shape(in[3]) != Shape(dy))
    throw ShapeError("expected y to be like dy ", Shape(dy), ", got ", Shape(in[3]));
  const int64_t none[] = {0};
  const Meta empty = make_meta(dy.dtype, none);
  out[0] = attrs.data ? x : empty;
  out[1] = attrs.weight ? w : empty;
  out[2] = attrs.bias ? make_meta(dy.dtype, std::span(dy.shape + 1, 1)) : empty;
  return one_dtype(in);
}

// dx, dw and db, from ops that have gradients themselves.
Tensors dense_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<BinaryAttrs> relu_grad("relu_grad");
  const bool relu = saved.attrs<DenseAttrs>().activation == FusedActivation::relu;
  const Tensor dz = relu ? invoke(relu_grad, {dout[0], saved.out()}, BinaryAttrs{}) : dout[0];
  Tensors gradients(static_cast<size_t>(saved.n_in()));
  if (saved.needs(0)) gradients[0] = matmul(dz, saved.in(1), MatmulAttrs{});
  if (saved.needs(1)) gradients[1] = matmul(dz, saved.in(0), MatmulAttrs{true, false});
  if (saved.n_in() == 3 && saved.needs(2)) gradients[2] = sum_to(dz, saved.in_shape(2));
  return gradients;
}

// Only relu's mask reads the result.
Keep dense_keeps(const DenseAttrs& a) {
  return a.activation == FusedActivation::relu ? Keep::both : Keep::inputs;
}

Tensors dense_fused_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<DenseBackwardAttrs> op("dense_backward");
  const bool bias = saved.n_in() == 3 && saved.needs(2);
  const Ref in[] = {dout[0], saved.in(0), saved.in(1), saved.out()};
  DenseBackwardAttrs attrs;
  attrs.relu = saved.attrs<DenseAttrs>().activation == FusedActivation::relu;
  attrs.data = saved.needs(0);
  attrs.weight = saved.needs(1);
  attrs.bias = bias;
  Tensors gradients{saved.place(0), saved.place(1), bias ? saved.place(2) : Tensor()};
  gradients = invoke_all(op, {in, attrs.relu ? 4u : 3u}, attrs, std::move(gradients));
  gradients.resize(static_cast<size_t>(saved.n_in()));
  return gradients;
}

Samples dense_samples(Context c, DType d) {
  const auto x = [&](const Shape& s, double low, double high, int variant) {
    return sample_values(c, d, s, low, high, variant);
  };
  const DenseAttrs linear, relu{FusedActivation::relu};
  return {
      Sample({x({5, 7}, -2, 2, 0), x({3, 7}, -2, 2, 1), x({3}, -2, 2, 2)}, linear),
      Sample({x({1, 1}, -2, 2, 0), x({1, 1}, -2, 2, 1), x({1}, -2, 2, 2)}, linear),
      Sample({x({4, 6}, -2, 2, 0), x({9, 6}, -2, 2, 1)}, linear),
      Sample({x({33, 20}, -2, 2, 0), x({18, 20}, -2, 2, 1), x({18}, -2, 2, 2)}, linear),
      Sample({x({5, 7}, 0.2, 1, 0), x({3, 7}, 0.2, 1, 1), x({3}, 0.2, 1, 2)}, relu),
      Sample({x({4, 3}, 0.2, 1, 0), x({2, 3}, -1, -0.2, 1)}, relu),
      Sample({x({3, 4}, 0.2, 1, 0), x({5, 4}, -1, 1, 1), x({5}, 5, 9, 2)}, relu),
  };
}

Samples dense_backward_samples(Context c, DType d) {
  const auto x = [&](const Shape& s, int variant) {
    return sample_values(c, d, s, -2, 2, variant);
  };
  const Tensors layer = {x({5, 3}, 0), x({5, 7}, 1), x({3, 7}, 2), x({5, 3}, 3)};
  const Tensors linear(layer.begin(), layer.begin() + 3);
  return {
      Sample(layer, DenseBackwardAttrs{true, true, true, true}),
      Sample(linear, DenseBackwardAttrs{false, true, true, true}),
      Sample(layer, DenseBackwardAttrs{true, false, true, true}),
      Sample(layer, DenseBackwardAttrs{true, true, false, true}),
      Sample(linear, DenseBackwardAttrs{false, true, false, false}),
      Sample({x({33, 18}, 0), x({33, 20}, 1), x({18, 20}, 2), x({33, 18}, 3)},
             DenseBackwardAttrs{true, true, true, true}),
  };
}

Tensor fused(const Tensor& x, const Tensor& w, const Tensor& b, FusedActivation activation) {
  static const OpRef<DenseAttrs> op("dense");
  const DenseAttrs attrs{activation};
  return b.defined() ? invoke(op, {x, w, b}, attrs) : invoke(op, {x, w}, attrs);
}

}  // namespace

Tensor dense(const Tensor& data, const Tensor& weight, const Tensor& bias,
             FusedActivation activation, bool flatten, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("dense", data);
  detail::expect_tensor("dense", weight, "weight");
  if (amp::narrows({&data, &weight, &bias})) [[unlikely]]
    return dense(amp::narrow(data), amp::narrow(weight), amp::narrow(bias), activation, flatten);
  detail::expect_floating("dense", {{"data", &data}, {"weight", &weight}, {"bias", &bias}});
  DType d = promote(data.dtype(), weight.dtype());
  if (bias.defined()) d = promote(d, bias.dtype());
  if (data.dtype() != d || weight.dtype() != d || (bias.defined() && bias.dtype() != d))
    return dense(data.astype(d), weight.astype(d), bias.defined() ? bias.astype(d) : bias,
                 activation, flatten);
  const int rank = data.ndim();
  if (rank == 2 || rank == 0 || (rank == 1 && flatten))
    return fused(data, weight, bias, activation);

  const Shape s = data.shape();
  int64_t lead = 1, rest = 1;
  const int split = flatten ? 1 : rank - 1;
  for (int i = 0; i < rank; ++i) (i < split ? lead : rest) *= s[i];
  const Tensor y = fused(data.reshape(Shape{lead, rest}), weight, bias, activation);
  if (flatten) return y;
  int64_t dims[kMaxRank];
  for (int i = 0; i < split; ++i) dims[i] = s[i];
  dims[split] = y.shape()[1];
  return y.reshape(Shape(std::span<const int64_t>(dims, static_cast<size_t>(rank))));
} catch (const Error&) {
  rethrow_at(from);
}

void register_dense() {
  OpDef<DenseAttrs>("dense", {"data", "weight", "bias"})
      .inputs(2, 3)
      .infer<&dense_infer>()
      .gradient<&dense_gradient>(Keep::inputs)
      .keeps<&dense_keeps>()
      .fused_gradient<&dense_fused_gradient>()
      .samples<&dense_samples>();
  OpDef<DenseBackwardAttrs>("dense_backward", {"dy", "data", "weight", "y"})
      .inputs(3, 4)
      .outputs(3)
      .infer<&backward_infer>()
      .no_gradient("the first order only: with create_graph dense differentiates through matmul")
      .samples<&dense_backward_samples>();
}

}  // namespace locus
