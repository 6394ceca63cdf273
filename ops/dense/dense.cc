#include <locus/ops/dense.h>

#include <string>

#include <locus/core/autograd.h>
#include <locus/core/op.h>
#include <locus/devices/cpu.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>

namespace locus {

namespace {

std::string text(const Meta& m) { return to_string(Shape(m)); }

DType one_dtype(std::span<const Meta> in) {
  for (const Meta& m : in)
    if (m.dtype != in[0].dtype)
      throw DTypeError(std::string("expected one dtype, got ") + name(in[0].dtype) + " and " +
                       name(m.dtype) + "; cast one with astype()");
  return in[0].dtype;
}

DType dense_infer(std::span<const Meta> in, const DenseAttrs&, std::span<Meta> out) {
  if (in.size() != 2 && in.size() != 3)
    throw ShapeError("expected data, weight and perhaps bias, got " + std::to_string(in.size()) +
                     " operands");
  const Meta &x = in[0], &w = in[1];
  if (x.rank != 2 || w.rank != 2 || x.shape[1] != w.shape[1])
    throw ShapeError("expected data (N,in) and weight (out,in) with one `in`, got data " + text(x) +
                     " and weight " + text(w));
  if (in.size() == 3 && (in[2].rank != 1 || in[2].shape[0] != w.shape[0]))
    throw ShapeError("expected bias (" + std::to_string(w.shape[0]) + ",) for weight " + text(w) +
                     ", got " + text(in[2]));
  const int64_t shape[] = {x.shape[0], w.shape[0]};
  out[0] = make_meta(x.dtype, shape);
  return one_dtype(in);
}

DType backward_infer(std::span<const Meta> in, const DenseBackwardAttrs& attrs,
                     std::span<Meta> out) {
  const size_t expected = attrs.relu ? 4 : 3;
  if (in.size() != expected)
    throw ShapeError("expected " + std::to_string(expected) + " operands, got " +
                     std::to_string(in.size()));
  const Meta &dy = in[0], &x = in[1], &w = in[2];
  const bool fits = dy.rank == 2 && x.rank == 2 && w.rank == 2 && dy.shape[0] == x.shape[0] &&
                    dy.shape[1] == w.shape[0] && x.shape[1] == w.shape[1];
  if (!fits)
    throw ShapeError("expected dy (N,out), data (N,in) and weight (out,in), got " + text(dy) +
                     ", " + text(x) + " and " + text(w));
  if (attrs.relu && Shape(in[3]) != Shape(dy))
    throw ShapeError("expected y to be like dy " + text(dy) + ", got " + text(in[3]));
  const int64_t none[] = {0};
  const Meta empty = make_meta(dy.dtype, none);
  out[0] = attrs.data ? x : empty;
  out[1] = attrs.weight ? w : empty;
  out[2] = attrs.bias ? make_meta(dy.dtype, std::span(dy.shape + 1, 1)) : empty;
  return one_dtype(in);
}

Tensors dense_backward(const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor* y,
                       const DenseBackwardAttrs& attrs) {
  static const Op& op = get_op("dense_backward");
  if (y != nullptr) {
    const Ref in[] = {dy, x, w, *y};
    return invoke_all(op, in, attrs);
  }
  const Ref in[] = {dy, x, w};
  return invoke_all(op, in, attrs);
}

Tensor sum_rows(const Tensor& dz) {
  static const Op& op = get_op("sum_to");
  const int64_t units[] = {dz.shape()[1]};
  SumToAttrs attrs;
  attrs.target = make_meta(dz.dtype(), units);
  return invoke(op, {dz}, attrs);
}

Tensors dense_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const Tensor &x = saved.in(0), &w = saved.in(1);
  const bool relu = saved.attrs<DenseAttrs>().activation == Activation::relu;
  const bool bias = saved.n_in() == 3 && saved.needs(2);
  Tensors gradients(static_cast<size_t>(saved.n_in()));
  if (autograd::is_recording()) {
    static const Op& relu_grad = get_op("relu_grad");
    const Tensor dz = relu ? invoke(relu_grad, {dout[0], saved.out()}) : dout[0];
    if (saved.needs(0)) gradients[0] = matmul(dz, w, MatmulAttrs{});
    if (saved.needs(1)) gradients[1] = matmul(dz, x, MatmulAttrs{true, false});
    if (bias) gradients[2] = sum_rows(dz);
    return gradients;
  }
  DenseBackwardAttrs attrs;
  attrs.relu = relu;
  attrs.data = saved.needs(0);
  attrs.weight = saved.needs(1);
  attrs.bias = bias;
  Tensors found = dense_backward(dout[0], x, w, relu ? &saved.out() : nullptr, attrs);
  if (attrs.data) gradients[0] = std::move(found[0]);
  if (attrs.weight) gradients[1] = std::move(found[1]);
  if (attrs.bias) gradients[2] = std::move(found[2]);
  return gradients;
}

// With relu, sums that are far from the kink: above it for every unit, or below.
Samples dense_samples(Context c, DType d) {
  const auto x = [&](const Shape& s, double low, double high, int variant) {
    return sample_values(c, d, s, low, high, variant);
  };
  const DenseAttrs linear, relu{Activation::relu};
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

Tensor fused(const Tensor& x, const Tensor& w, const Tensor& b, Activation activation) {
  static const Op& op = get_op("dense");
  const DenseAttrs attrs{activation};
  return b.defined() ? invoke(op, {x, w, b}, attrs) : invoke(op, {x, w}, attrs);
}

}  // namespace

Tensor dense(const Tensor& data, const Tensor& weight, const Tensor& bias, Activation activation,
             bool flatten) {
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
}

void register_dense() {
  OpDef<DenseAttrs>("dense", {"data", "weight", "bias"})
      .inputs(2, 3)
      .infer<&dense_infer>()
      .gradient<&dense_gradient>(Keep::both)
      .samples<&dense_samples>();
  OpDef<DenseBackwardAttrs>("dense_backward", {"dy", "data", "weight", "y"})
      .inputs(3, 4)
      .outputs(3)
      .infer<&backward_infer>()
      .no_gradient("the first order only: with create_graph dense differentiates through matmul")
      .samples<&dense_backward_samples>();
}

}  // namespace locus
