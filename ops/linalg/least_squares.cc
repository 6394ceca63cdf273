// pinv and lstsq: function ops. Their gradients are exact for equal singular values, too, because
// they need no gradients of singular vectors.
#include <locus/core/error.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/linalg/least_squares.h>
#include <locus/ops/linalg/matrices.h>
#include <locus/ops/linalg/spectral.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus {

namespace linalg {

Tensors pinv_op(const Tensor& a, double rcond) {
  static const OpRef<RcondAttrs> op("pinv");
  const Ref in[] = {a};
  return invoke_all(op, in, RcondAttrs{rcond});
}
Tensors lstsq_op(const Tensor& a, const Tensor& b, double rcond) {
  static const OpRef<RcondAttrs> op("lstsq");
  const Ref in[] = {a, b};
  return invoke_all(op, in, RcondAttrs{rcond});
}
Tensor exceeds_cutoff(const Tensor& s, double rcond) {
  if (s.size() == 0) return s > 0;
  return s > max(s, {.axis = -1, .keepdims = true}) * rcond;
}

}  // namespace linalg

namespace {

using namespace linalg;

void pinv_function(std::span<const Ref> in, const RcondAttrs& attrs, std::span<Tensor> out) {
  const Tensors f = svd_op(*in[0].tensor_, false);
  const Tensor &u = f[0], &s = f[1], &vh = f[2];
  const Tensor v =
      scale_columns(transpose_matrices(vh), invert_where(exceeds_cutoff(s, attrs.rcond), s));
  store_result(out[0], matmul(v, u, {.transpose_b = true}));
  store_result(out[1], f[3]);
}

// The part of the gradient of a from the gradient dp of p = pinv(a):
//   -p' dp p' + (1 - a p) dp' p p' + p' p dp' (1 - p a)
// a p and p a first: they neither overflow nor underflow.
Tensor backpropagate_pinv(const Tensor& a, const Tensor& p, const Tensor& dp) {
  const Tensor pt = transpose_matrices(p), dpt = transpose_matrices(dp);
  const Tensor left = matmul(matmul(dpt, p), pt), right = matmul(pt, matmul(p, dpt));
  return left - matmul(matmul(a, p), left) + right - matmul(right, matmul(p, a)) -
         matmul(matmul(pt, dp), pt);
}
Tensors pinv_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {backpropagate_pinv(saved.in(0), saved.out(0), dout[0])};
}

void expect_system(const Tensor& a, const Tensor& b) {
  detail::expect_together("lstsq", "a", a, "b", b);
  const Shape x = a.shape(), y = b.shape();
  bool fits = x.rank() >= 2 && x.rank() == y.rank();
  for (int i = 0; fits && i + 1 < x.rank(); ++i) fits = x[i] == y[i];
  if (!fits)
    throw ShapeError("lstsq: a ", describe(a), ", b ", describe(b),
                     ": expected b of a's batch and number of rows");
}

// {x, rank, s, failed}
void lstsq_function(std::span<const Ref> in, const RcondAttrs& attrs, std::span<Tensor> out) {
  expect_system(*in[0].tensor_, *in[1].tensor_);
  const Tensors f = svd_op(*in[0].tensor_, false);
  const Tensor &u = f[0], &s = f[1], &vh = f[2];
  const Tensor counts = exceeds_cutoff(s, attrs.rcond);
  const Tensor parts = matmul(u, *in[1].tensor_, {.transpose_a = true});
  store_result(out[0],
               matmul(vh, parts * expand_dims(invert_where(counts, s), -1), {.transpose_a = true}));
  store_result(out[1], sum(counts, {.axis = -1}));
  store_result(out[2], s);
  store_result(out[3], f[3]);
}
Tensors lstsq_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const Tensor &a = saved.in(0), &b = saved.in(1), &dx = dout[0], &ds = dout[2];
  Tensor da, db;
  if (dx.defined()) {
    const Tensor p = pinv_op(a, saved.attrs<RcondAttrs>().rcond)[0];
    if (saved.needs(0)) da = backpropagate_pinv(a, p, matmul(dx, b, {.transpose_b = true}));
    if (saved.needs(1)) db = matmul(p, dx, {.transpose_a = true});
  }
  if (ds.defined() && saved.needs(0)) {
    const Tensor slope = backpropagate_singular_values(a, ds);
    da = da.defined() ? da + slope : slope;
  }
  return {da, db};
}

Samples pinv_samples(Context c, DType d) {
  if (d != f32 && d != f64) return {};
  Samples all;
  for (const double rcond : {1e-5, .25})  // the second drops singular values of 1 beside 9
    for (const Shape& shape : {Shape{3, 3}, Shape{2, 4, 3}, Shape{2, 3}}) {
      // The gradient counts values that are dropped as 0.
      Sample s(Tensors{sample_separated_matrices(c, d, shape, .25)}, RcondAttrs{rcond});
      s.finite = {0};
      s.differentiable = rcond < .1;
      all.push_back(s);
    }
  return all;
}
Samples lstsq_samples(Context c, DType d) {
  Samples all = pinv_samples(c, d);
  for (Sample& s : all) {
    Meta right = make_meta(d, s.inputs[0].shape());
    right.shape[right.rank - 1] = 2;
    s.inputs.push_back(sample_values(c, d, Shape(right), -1, 1, 1));
    s.finite = {0, 1};
  }
  return all;
}

}  // namespace

void register_least_squares() {
  OpDef<RcondAttrs>("pinv", {"a"})
      .outputs(2)
      .function<&pinv_function>()
      .gradient<&pinv_gradient>(keep_input(0) | keep_output(0))
      .samples<&pinv_samples>()
      .no_capture("it calls svd: cuSOLVER waits on the host while it iterates for one matrix");
  OpDef<RcondAttrs>("lstsq", {"a", "b"})
      .outputs(4)
      .function<&lstsq_function>()
      .gradient<&lstsq_gradient>(keep_input(0) | keep_input(1))
      .samples<&lstsq_samples>()
      .no_capture("it calls svd: cuSOLVER waits on the host while it iterates for one matrix");
}

}  // namespace locus
