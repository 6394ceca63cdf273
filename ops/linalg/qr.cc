// QR decompositions: the ops qr and qr_r, and the function.
#include <algorithm>

#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>
#include <locus/ops/linalg.h>
#include <locus/ops/linalg/infer.h>
#include <locus/ops/linalg/matrices.h>
#include <locus/ops/linalg/operands.h>
#include <locus/ops/linalg/qr_kernel.h>
#include <locus/ops/matmul.h>
#include <locus/ops/rearrange.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

using namespace linalg;

Qr qr_op(const Tensor& a, bool complete = false) {
  static const OpRef<QrAttrs> op("qr");
  const Ref in[] = {a};
  const Tensors y = invoke_all(op, in, QrAttrs{complete});
  return {y[0], y[1]};
}

// x with other lengths of its last two axes.
Meta resize_matrices(const Meta& x, int64_t rows, int64_t columns) {
  Meta m = x;
  m.shape[x.rank - 2] = rows;
  m.shape[x.rank - 1] = columns;
  return m;
}

DType infer_qr(std::span<const Meta> in, const QrAttrs& attrs, std::span<Meta> out) {
  expect_matrices(in[0], "a");
  const QrSizes s(MatrixBatch(in[0]), attrs.complete, true);
  out[0] = resize_matrices(in[0], s.m, s.columns);
  out[1] = resize_matrices(in[0], s.rows, s.n);
  return in[0].dtype;
}
DType infer_r(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  expect_matrices(in[0], "a");
  const QrSizes s(MatrixBatch(in[0]), false, false);
  out[0] = resize_matrices(in[0], s.rows, s.n);
  return in[0].dtype;
}

// Walter and Lehmann, Algorithmic differentiation of linear algebra functions (2018).

// The gradient of a if r is n x n: (dq + q s) r'^-1. s is the symmetric matrix with the lower
// triangle of r dr' - dq' q.
Tensor backpropagate_tall(const Qr& f, const Tensor& dq, const Tensor& dr) {
  Tensor s;
  if (dr.defined()) s = matmul(f.r, dr, {.transpose_b = true});
  if (dq.defined()) {
    const Tensor product = matmul(dq, f.q, {.transpose_a = true});
    s = s.defined() ? s - product : -product;
  }
  Tensor sum = matmul(f.q, tril(s) + transpose_matrices(tril(s, -1)));
  if (dq.defined()) sum = sum + dq;
  return transpose_matrices(
      solve_triangular_op(f.r, transpose_matrices(sum), {.upper = true})[0]);  // (r^-1 sum')'
}

// The gradient of a = (x y) if x is m x m: r is (u v), with x = q u and v = q' y. So q has the
// further gradient y dv', and y has the gradient q dv.
Tensor backpropagate_wide(const Qr& f, Tensor dq, const Tensor& dr) {
  const int64_t m = f.r.shape()[-2], n = f.r.shape()[-1];
  const auto left = [&](const Tensor& x) { return slice_axis(x, -1, Slice(0, m)); };
  const auto right = [&](const Tensor& x) { return slice_axis(x, -1, Slice(m, n)); };
  const Tensor all = dr.defined() ? dr : zeros_like(f.r), dv = right(all);
  const Tensor y = matmul(f.q, right(f.r)), through = matmul(y, dv, {.transpose_b = true});
  dq = dq.defined() ? dq + through : through;
  const Tensor dx = backpropagate_tall({f.q, left(f.r)}, dq, left(all));
  return concat({dx, matmul(f.q, dv)}, {.axis = -1});
}

Tensor backpropagate_qr(const Qr& f, const Tensor& dq, const Tensor& dr) {
  const int64_t rows = f.r.shape()[-2], n = f.r.shape()[-1];
  return rows < n ? backpropagate_wide(f, dq, dr) : backpropagate_tall(f, dq, dr);
}

Keep qr_keeps(const QrAttrs& attrs) { return attrs.complete ? Keep::both : Keep::outputs; }
Tensors qr_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const Shape shape = saved.in_shape(0);
  const int64_t m = shape[-2], n = shape[-1];
  if (!saved.attrs<QrAttrs>().complete || m <= n)
    return {backpropagate_qr({saved.out(0), saved.out(1)}, dout[0], dout[1])};
  if (dout[0].defined())
    throw ValueError(
        "qr: a ", shape, ", mode complete: q has no gradient, because its last ", m - n,
        " columns are not unique; expected matrices with at least as many columns as rows, "
        "or mode reduced");
  return {backpropagate_qr(qr_op(saved.in(0)), {}, slice_axis(dout[1], -2, Slice(0, n)))};
}

Tensors r_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {backpropagate_qr(qr_op(saved.in(0)), {}, dout[0])};
}

// Samples

constexpr double kDiagonal = 3;  // the first columns are far from dependent

Samples make_samples(Context c, DType d, const auto& make_sample) {
  Samples all;
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 4, 3}, Shape{3, 5}}) {
    Sample s = make_sample(Tensors{sample_matrices(c, d, shape, kDiagonal)});
    s.finite = {0};
    all.push_back(s);
  }
  return all;
}
Samples qr_samples(Context c, DType d) {
  Samples all = make_samples(c, d, [](const Tensors& in) { return Sample(in, QrAttrs{}); });
  // No tall matrices: the last columns of a complete q are not unique.
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 3, 4}}) {
    Sample s(Tensors{sample_matrices(c, d, shape, kDiagonal)}, QrAttrs{.complete = true});
    s.finite = {0};
    all.push_back(s);
  }
  return all;
}
Samples r_samples(Context c, DType d) {
  return make_samples(c, d, [](const Tensors& in) { return Sample(in); });
}

}  // namespace

Qr qr(const Tensor& operand, QrMode mode, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<> of_r("qr_r");
  const Tensor a = prepare_matrices("qr", operand);
  if (mode > QrMode::r)
    throw ValueError("qr: mode ", static_cast<int>(mode),
                     "; expected QrMode::reduced, complete or r");
  if (mode == QrMode::r) return {{}, invoke(of_r, {a})};
  return qr_op(a, mode == QrMode::complete);
} catch (const Error&) {
  detail::rethrow_as("qr", from);
}

void register_qr() {
  OpDef<QrAttrs>("qr", {"a"})
      .outputs(2)
      .infer<&infer_qr>()
      .keeps<&qr_keeps>()
      .gradient<&qr_gradient>(Keep::none)
      .samples<&qr_samples>();
  OpDef<>("qr_r", {"a"})
      .infer<&infer_r>()
      .gradient<&r_gradient>(Keep::inputs)
      .samples<&r_samples>();
}

}  // namespace locus
