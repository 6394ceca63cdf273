// The ops of eigenvalues and singular values. Functions that check their results:
// spectral_functions.cc.
#include <algorithm>
#include <utility>

#include <locus/core/op.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/linalg/infer.h>
#include <locus/ops/linalg/matrices.h>
#include <locus/ops/linalg/spectral.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus {

namespace linalg {

Tensors eigh_op(const Tensor& a, bool upper) {
  static const OpRef<EighAttrs> op("eigh");
  const Ref in[] = {a};
  return invoke_all(op, in, EighAttrs{upper});
}
Tensors eigvalsh_op(const Tensor& a, bool upper) {
  static const OpRef<EighAttrs> op("eigvalsh");
  const Ref in[] = {a};
  return invoke_all(op, in, EighAttrs{upper});
}
Tensors svd_op(const Tensor& a, bool full_matrices) {
  static const OpRef<SvdAttrs> op("svd");
  const Ref in[] = {a};
  return invoke_all(op, in, SvdAttrs{full_matrices});
}
Tensors svdvals_op(const Tensor& a) {
  static const OpRef<> op("svdvals");
  const Ref in[] = {a};
  return invoke_all(op, in);
}
double epsilon_of(DType d) { return d == f64 ? 0x1p-52 : 0x1p-23; }
double default_rcond(const Tensor& a) {
  const int64_t m = a.shape()[-2], n = a.shape()[-1];
  return static_cast<double>(std::max(m, n)) * epsilon_of(a.dtype());
}
Tensor scale_columns(const Tensor& x, const Tensor& factors) {
  return x * expand_dims(factors, -2);
}
Tensor backpropagate_singular_values(const Tensor& a, const Tensor& ds) {
  const Tensors f = svd_op(a, false);
  return matmul(scale_columns(f[0], ds), f[2]);
}

}  // namespace linalg

namespace {

using namespace linalg;

// XsyevBatched and Xgesvd cannot be captured. The rotations of small matrices can, but an op is
// captured for all shapes or for none.
constexpr const char* kIterates = "cuSOLVER waits on the host while it iterates for one matrix";

DType infer_eigh(std::span<const Meta> in, const EighAttrs&, std::span<Meta> out) {
  expect_square(in[0], "a");
  out[0] = drop_last_axes(in[0], in[0].dtype, 1);
  out[1] = in[0];
  out[2] = drop_last_axes(in[0], bool_);
  return in[0].dtype;
}
DType infer_eigvalsh(std::span<const Meta> in, const EighAttrs&, std::span<Meta> out) {
  expect_square(in[0], "a");
  out[0] = drop_last_axes(in[0], in[0].dtype, 1);
  out[1] = drop_last_axes(in[0], bool_);
  return in[0].dtype;
}

int64_t min_length(const Meta& a) { return std::min(a.shape[a.rank - 2], a.shape[a.rank - 1]); }
// a's batch of vectors of min(m, n).
Meta infer_singular_values(const Meta& a) {
  Meta m = drop_last_axes(a, a.dtype, 1);
  m.shape[m.rank - 1] = min_length(a);
  return m;
}
DType infer_svd(std::span<const Meta> in, const SvdAttrs& attrs, std::span<Meta> out) {
  const Meta& a = in[0];
  expect_matrices(a, "a");
  const int row = a.rank - 2, column = a.rank - 1;
  out[0] = out[2] = a;
  out[0].shape[column] = attrs.full_matrices ? a.shape[row] : min_length(a);
  out[2].shape[row] = attrs.full_matrices ? a.shape[column] : min_length(a);
  out[1] = infer_singular_values(a);
  out[3] = drop_last_axes(a, bool_);
  return a.dtype;
}
DType infer_svdvals(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  expect_matrices(in[0], "a");
  out[0] = infer_singular_values(in[0]);
  out[1] = drop_last_axes(in[0], bool_);
  return in[0].dtype;
}

// x_j + y_i at (i, j).
Tensor outer_sum(const Tensor& x, const Tensor& y) {
  return expand_dims(x, -2) + expand_dims(y, -1);
}
// The largest number that counts as 0 beside the values of the last axis: (..., 1).
Tensor compute_rounding_limit(const Tensor& values, int64_t n) {
  const double scale = 8 * static_cast<double>(n) * epsilon_of(values.dtype());
  return max(abs(values), {.axis = -1, .keepdims = true}) * scale;
}
Tensor add_term(const Tensor& sum, const Tensor& x) { return sum.defined() ? sum + x : x; }
Tensor make_diagonal(const Tensor& x) { return identity_like(x) * expand_dims(x, -1); }
Tensor zeros_like_input(const Saved& saved, const Tensor& like) {
  return zeros(saved.in_shape(0), {like.context(), like.dtype()});
}

// v (diag(dw) + (v' dv) / (w_j - w_i)) v'.
Tensors eigh_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const Tensor &w = saved.out(0), &v = saved.out(1);
  if (w.size() == 0) return {zeros_like_input(saved, w)};
  Tensor middle;
  if (dout[1].defined()) {
    const Tensor gaps = outer_sum(w, -w);
    const Tensor limit = expand_dims(compute_rounding_limit(w, w.shape()[-1]), -1);
    middle = matmul(v, dout[1], {.transpose_a = true}) * invert_where(abs(gaps) > limit, gaps);
  }
  if (dout[0].defined()) middle = add_term(middle, make_diagonal(dout[0]));
  return {symmetrize(matmul(matmul(v, middle), v, {.transpose_b = true}))};
}

Tensors eigvalsh_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const Tensor v = eigh_op(saved.in(0), saved.attrs<EighAttrs>().upper)[1];
  return {symmetrize(matmul(scale_columns(v, dout[0]), v, {.transpose_b = true}))};
}

Tensors svdvals_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {backpropagate_singular_values(saved.in(0), dout[0])};
}

// With x = u' du - du' u and y = v' dv - dv' v, the part between u and v is
//   diag(ds) + ((x + y) / (s_j - s_i) + (x - y) / (s_j + s_i)) / 2.
// The parts of du and dv outside the spaces of u and v are divided by s.
Tensors svd_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const Meta& meta = saved.in_meta(0);
  const int64_t m = meta.shape[meta.rank - 2], n = meta.shape[meta.rank - 1];
  const Tensor &du = dout[0], &ds = dout[1], &dvh = dout[2];
  if (saved.attrs<SvdAttrs>().full_matrices && m != n) {
    if (du.defined() || dvh.defined())
      throw ValueError("svd: a of shape ", saved.in_shape(0),
                       ": the gradient of u and vh exists for reduced vectors only; call it with "
                       "{.full_matrices = false}");
    return {backpropagate_singular_values(saved.in(0), ds)};
  }
  const Tensor &u = saved.out(0), &s = saved.out(1), &vh = saved.out(2);
  if (s.size() == 0) return {zeros_like_input(saved, s)};
  const Tensor rounding_limit = compute_rounding_limit(s, std::max(m, n));
  const auto skew = [](const Tensor& x) { return x - transpose_matrices(x); };
  Tensor x, y, middle;
  if (du.defined()) x = matmul(u, du, {.transpose_a = true});
  if (dvh.defined()) y = matmul(vh, dvh, {.transpose_b = true});
  if (x.defined() || y.defined()) {
    const Tensor gaps = outer_sum(s, -s), sums = outer_sum(s, s);
    const Tensor limit = expand_dims(rounding_limit, -1);
    const Tensor by_gap = invert_where(abs(gaps) > limit, gaps);
    const Tensor by_sum = invert_where(sums > limit, sums);
    if (x.defined()) middle = skew(x) * (by_gap + by_sum);
    if (y.defined()) middle = add_term(middle, skew(y) * (by_gap - by_sum));
    middle = middle * .5;
  }
  if (ds.defined()) middle = add_term(middle, make_diagonal(ds));
  Tensor da = matmul(matmul(u, middle), vh);
  const Tensor inverse = invert_where(s > rounding_limit, s);
  if (x.defined() && m > n) da = da + matmul(scale_columns(du - matmul(u, x), inverse), vh);
  if (y.defined() && n > m)
    da = da + matmul(scale_columns(u, inverse), dvh - matmul(transpose_matrices(y), vh));
  return {da};
}
Keep svd_keeps(const SvdAttrs& attrs) {
  const Keep results = keep_output(0) | keep_output(1) | keep_output(2);
  return attrs.full_matrices ? results | keep_input(0) : results;
}

// Samples

constexpr double kSampleSize = .5;

Samples eigh_samples(Context c, DType d) {
  Samples all;
  for (const bool upper : {false, true})
    for (const Shape& shape : {Shape{3, 3}, Shape{2, 5, 5}, Shape{1, 1}}) {
      // Differences of one element would leave the symmetric matrices.
      Sample s(Tensors{symmetrize(sample_separated_matrices(c, d, shape, kSampleSize))},
               EighAttrs{upper});
      s.differentiable = false;
      s.finite = {0};
      all.push_back(s);
    }
  return all;
}
Samples svd_samples(Context c, DType d) {
  Samples all;
  for (const auto& [shape, full] : {std::pair{Shape{3, 3}, false},
                                    {Shape{2, 4, 3}, false},
                                    {Shape{3, 5}, false},
                                    {Shape{3, 2}, true},
                                    {Shape{4, 4}, true}}) {
    Sample s(Tensors{sample_separated_matrices(c, d, shape, kSampleSize)}, SvdAttrs{full});
    s.differentiable = !full;
    s.finite = {0};
    all.push_back(s);
  }
  return all;
}
Samples svdvals_samples(Context c, DType d) {
  Samples all;
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 4, 3}, Shape{3, 5}}) {
    Sample s(Tensors{sample_separated_matrices(c, d, shape, kSampleSize)});
    s.finite = {0};
    all.push_back(s);
  }
  return all;
}

}  // namespace

void register_spectral() {
  OpDef<EighAttrs>("eigh", {"a"})
      .outputs(3)
      .infer<&infer_eigh>()
      .gradient<&eigh_gradient>(keep_output(0) | keep_output(1))
      .samples<&eigh_samples>()
      .no_capture(kIterates);
  OpDef<EighAttrs>("eigvalsh", {"a"})
      .outputs(2)
      .infer<&infer_eigvalsh>()
      .gradient<&eigvalsh_gradient>(keep_input(0))
      .samples<&eigh_samples>()
      .no_capture(kIterates);
  OpDef<SvdAttrs>("svd", {"a"})
      .outputs(4)
      .infer<&infer_svd>()
      .gradient<&svd_gradient>(Keep::none)
      .keeps<&svd_keeps>()
      .samples<&svd_samples>()
      .no_capture(kIterates);
  OpDef<>("svdvals", {"a"})
      .outputs(2)
      .infer<&infer_svdvals>()
      .gradient<&svdvals_gradient>(keep_input(0))
      .samples<&svdvals_samples>()
      .no_capture(kIterates);
}

}  // namespace locus
