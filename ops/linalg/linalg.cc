// The ops of linear algebra. Functions that check their results: functions.cc.
#include <algorithm>
#include <utility>

#include <locus/core/autograd.h>
#include <locus/core/op.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/gather.h>
#include <locus/ops/join.h>
#include <locus/ops/linalg/infer.h>
#include <locus/ops/linalg/linalg_kernel.h>
#include <locus/ops/linalg/matrices.h>
#include <locus/ops/matmul.h>
#include <locus/ops/order.h>
#include <locus/ops/rearrange.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus {

namespace linalg {

Tensors solve_op(const Tensor& a, const Tensor& b, bool transpose) {
  static const OpRef<SolveAttrs> op("solve");
  const Ref in[] = {a, b};
  return invoke_all(op, in, SolveAttrs{transpose});
}
Tensors solve_triangular_op(const Tensor& a, const Tensor& b, const TriangularAttrs& t) {
  static const OpRef<TriangularAttrs> op("solve_triangular");
  const Ref in[] = {a, b};
  return invoke_all(op, in, t);
}
Tensors invert_op(const Tensor& a, bool transpose) {
  return solve_op(a, broadcast_to(identity_like(a), a.shape()), transpose);
}
Tensors cholesky_op(const Tensor& a) {
  static const OpRef<> op("cholesky");
  const Ref in[] = {a};
  return invoke_all(op, in);
}
Tensors factor_lu_op(const Tensor& a) {
  static const OpRef<> op("lu_factor");
  const Ref in[] = {a};
  return invoke_all(op, in);
}
Tensor transpose_matrices(const Tensor& x) { return swapaxes(x, -1, -2); }
Tensor symmetrize(const Tensor& x) { return (x + transpose_matrices(x)) * .5; }
Tensor identity_like(const Tensor& x) { return eye(x.shape()[-1], 0, 0, {x.context(), x.dtype()}); }
Tensor invert_where(const Tensor& condition, const Tensor& x) {
  return where(condition, 1 / where(condition, x, 1), 0);
}
void store_result(Tensor& out, const Tensor& result) {
  if (out.defined())
    result.copyto(out);
  else
    out = result;
}
Tensor sample_matrices(Context c, DType d, const Shape& shape, double diagonal) {
  return sample_values(c, d, shape, -1, 1) + eye(shape[-2], shape[-1], 0, {c, d}) * diagonal;
}
Tensor sample_separated_matrices(Context c, DType d, const Shape& shape, double size) {
  const int64_t m = shape[-2], n = shape[-1];
  const TensorOptions like{c, d};
  const Tensor steps = expand_dims(arange(m, like), -1) + 1;
  return sample_values(c, d, shape, -1, 1) * size + eye(m, n, 0, like) * steps * steps;
}

}  // namespace linalg

namespace {

using namespace linalg;

DType infer_cholesky(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  expect_square(in[0], "a");
  out[0] = in[0];
  out[1] = drop_last_axes(in[0], bool_);
  return in[0].dtype;
}

DType infer_systems(std::span<const Meta> in, std::span<Meta> out) {
  expect_square(in[0], "a");
  expect_matrices(in[1], "b");
  if (in[1].dtype != in[0].dtype) throw DTypeError("expected b of a's dtype");
  Meta wanted = in[0];
  wanted.shape[wanted.rank - 1] = in[1].shape[in[1].rank - 1];
  if (Shape(wanted) != Shape(in[1])) throw ShapeError("expected b of shape ", Shape(wanted));
  out[0] = in[1];
  out[1] = drop_last_axes(in[0], bool_);
  return in[0].dtype;
}
DType infer_solve(std::span<const Meta> in, const SolveAttrs&, std::span<Meta> out) {
  return infer_systems(in, out);
}
DType infer_triangular(std::span<const Meta> in, const TriangularAttrs&, std::span<Meta> out) {
  return infer_systems(in, out);
}

// Packed factors, the order of the rows, and the order's sign.
DType infer_lu(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  expect_matrices(in[0], "a");
  out[0] = in[0];
  out[1] = drop_last_axes(in[0], i64, 1);
  out[2] = drop_last_axes(in[0], in[0].dtype);
  return in[0].dtype;
}

// Murray, Differentiation of the Cholesky decomposition (2016), equation 10.
Tensors cholesky_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const Tensor& l = saved.out(0);
  const TriangularAttrs transposed{.transpose = true};
  const Tensor s = tril(matmul(l, dout[0], {.transpose_a = true}));
  const Tensor half = s - triu(s) * .5;  // half of the diagonal
  const Tensor left = solve_triangular_op(l, half, transposed)[0];
  return {symmetrize(solve_triangular_op(l, transpose_matrices(left), transposed)[0])};
}

Tensors solve_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const bool transpose = saved.attrs<SolveAttrs>().transpose;
  const Tensor& x = saved.out(0);
  const Tensor db = solve_op(saved.in(0), dout[0], !transpose)[0];
  const MatmulAttrs outer{.transpose_b = true};
  return {saved.needs(0) ? -(transpose ? matmul(x, db, outer) : matmul(db, x, outer)) : Tensor(),
          db};
}

Tensors triangular_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const TriangularAttrs& t = saved.attrs<TriangularAttrs>();
  const Tensor& x = saved.out(0);
  const Tensor db =
      solve_triangular_op(saved.in(0), dout[0], {t.upper, !t.transpose, t.unit_diagonal})[0];
  if (!saved.needs(0)) return {Tensor(), db};
  const MatmulAttrs outer{.transpose_b = true};
  const Tensor da = -(t.transpose ? matmul(x, db, outer) : matmul(db, x, outer));
  const int k = t.unit_diagonal ? 1 : 0;
  return {t.upper ? triu(da, k) : tril(da, -k), db};
}

// With a1 = l1 u1 for the square part and k = min(m, n), the rows below are l2 = a2 u1^-1, the
// columns on the right u2 = l1^-1 a2. Their gradients pass through these; what is left is the
// gradient of a square a1: l1'^-1 (tril(l1' dl1, -1) + triu(du1 u1')) u1'^-1.
Tensors lu_gradient(const Saved& saved, std::span<const Tensor> dout) {
  if (!dout[0].defined()) return {Tensor()};
  const Tensor &packed = saved.out(0), &order = saved.out(1);
  const int64_t m = packed.shape()[-2], n = packed.shape()[-1];
  const int64_t k = std::min(m, n);
  const Slice first(0, k), below(k, m), right(k, n);
  const auto part = [](const Tensor& x, const Slice& rows, const Slice& columns) {
    return slice_axis(slice_axis(x, -2, rows), -1, columns);
  };
  const Tensor square = part(packed, first, first), d = part(dout[0], first, first);
  const Tensor u = triu(square);
  Tensor dl = tril(d, -1), du = triu(d), outer_gradient;
  const TriangularAttrs lower{.transpose = true, .unit_diagonal = true}, upper{.upper = true};
  if (m > k) {  // dl2 u1'^-1 = (u1^-1 dl2')'
    const Tensor dl2 = part(dout[0], below, first), l2 = part(packed, below, first);
    outer_gradient = transpose_matrices(solve_triangular_op(u, transpose_matrices(dl2), upper)[0]);
    du = du - triu(matmul(l2, outer_gradient, {.transpose_a = true}));
  } else if (n > k) {
    const Tensor du2 = part(dout[0], first, right), u2 = part(packed, first, right);
    outer_gradient = solve_triangular_op(square, du2, lower)[0];
    dl = dl - tril(matmul(outer_gradient, u2, {.transpose_b = true}), -1);
  }
  const Tensor l = tril(square, -1) + identity_like(square);
  const Tensor middle =
      tril(matmul(l, dl, {.transpose_a = true}), -1) + triu(matmul(du, u, {.transpose_b = true}));
  const Tensor left = solve_triangular_op(square, middle, lower)[0];
  Tensor da = transpose_matrices(solve_triangular_op(u, transpose_matrices(left), upper)[0]);
  if (outer_gradient.defined()) da = concat({da, outer_gradient}, {.axis = m > k ? -2 : -1});
  const Tensor places = argsort(order);
  return {take_along_axis(da, expand_dims(places, -1), {.axis = -2})};
}

// Determinants: function ops, whose gradient is that of the inverse.

// The elements on the diagonal of u, and the sign of the order of the rows.
std::pair<Tensor, Tensor> find_pivots(const Tensor& a) {
  const Tensors f = factor_lu_op(a);
  return {diagonal(f[0], 0, -2, -1), f[2]};
}
void det_function(std::span<const Ref> in, const NoAttrs&, std::span<Tensor> out) {
  const auto [u, order] = find_pivots(*in[0].tensor_);
  const Tensor signs = prod(sign(u), {.axis = -1});  // 0 if a pivot is 0: the others may overflow
  store_result(out[0], where(signs == 0, 0, prod(u, {.axis = -1}) * order));
}
void slogdet_function(std::span<const Ref> in, const NoAttrs&, std::span<Tensor> out) {
  const auto [u, order] = find_pivots(*in[0].tensor_);
  store_result(out[0], prod(sign(u), {.axis = -1}) * order);
  store_result(out[1], sum(log(abs(u)), {.axis = -1}));
}
// dy times the transposed inverse of a.
Tensor multiply_by_transposed_inverse(const Tensor& a, const Tensor& dy) {
  return invert_op(a, true)[0] * expand_dims(expand_dims(dy, -1), -1);
}
Tensors det_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {multiply_by_transposed_inverse(saved.in(0), dout[0] * saved.out(0))};
}
Tensors slogdet_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {dout[1].defined() ? multiply_by_transposed_inverse(saved.in(0), dout[1]) : Tensor()};
}

// Samples

// The diagonal of n x n matrices is about n + 1.
Tensor sample_square_matrices(Context c, DType d, const Shape& shape) {
  return sample_matrices(c, d, shape, static_cast<double>(shape[-1] + 1));
}

Samples cholesky_samples(Context c, DType d) {
  Samples all;
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 5, 5}, Shape{1, 1}}) {
    // Differences of one element would leave the symmetric matrices.
    Sample s(Tensors{symmetrize(sample_square_matrices(c, d, shape))});
    s.differentiable = false;
    s.finite = {0};
    all.push_back(s);
  }
  return all;
}

template <class Attrs>
Samples system_samples(Context c, DType d, std::initializer_list<Attrs> attrs) {
  Samples all;
  for (const Attrs& a : attrs)
    for (const auto& [shape, columns] : {std::pair{Shape{3, 3}, 1}, {Shape{2, 4, 4}, 3}}) {
      Meta right = make_meta(d, shape);
      right.shape[right.rank - 1] = columns;
      Sample s({sample_square_matrices(c, d, shape), sample_values(c, d, Shape(right))}, a);
      s.finite = {0, 1};
      all.push_back(s);
    }
  return all;
}
Samples solve_samples(Context c, DType d) {
  return system_samples<SolveAttrs>(c, d, {{false}, {true}});
}
Samples triangular_samples(Context c, DType d) {
  return system_samples<TriangularAttrs>(
      c, d,
      {{false, false, false}, {true, false, false}, {false, true, true}, {true, true, false}});
}

Samples lu_samples(Context c, DType d) {
  Samples all;
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 4, 3}, Shape{3, 5}}) {
    const int64_t m = shape[-2], n = shape[-1];
    const Tensor one = eye(m, n, 0, {c, d});  // pivots that no difference exchanges
    Sample s(Tensors{sample_values(c, d, shape, -1, 1) + flip(one, 0) * 5});
    s.finite = {0};
    all.push_back(s);
  }
  return all;
}

Samples det_samples(Context c, DType d) {
  if (d != f32 && d != f64) return {};
  Samples all;
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 4, 4}}) {
    Sample s(Tensors{sample_square_matrices(c, d, shape)});
    s.finite = {0};
    all.push_back(s);
  }
  return all;
}

}  // namespace

void register_linalg() {
  OpDef<>("cholesky", {"a"})
      .outputs(2)
      .infer<&infer_cholesky>()
      .gradient<&cholesky_gradient>(keep_output(0))
      .samples<&cholesky_samples>();
  OpDef<SolveAttrs>("solve", {"a", "b"})
      .outputs(2)
      .infer<&infer_solve>()
      .gradient<&solve_gradient>(keep_input(0) | keep_output(0))
      .samples<&solve_samples>();
  OpDef<TriangularAttrs>("solve_triangular", {"a", "b"})
      .outputs(2)
      .infer<&infer_triangular>()
      .gradient<&triangular_gradient>(keep_input(0) | keep_output(0))
      .samples<&triangular_samples>();
  OpDef<>("lu_factor", {"a"})
      .outputs(3)
      .infer<&infer_lu>()
      .gradient<&lu_gradient>(keep_output(0) | keep_output(1))
      .samples<&lu_samples>();
  OpDef<>("det", {"a"})
      .function<&det_function>()
      .gradient<&det_gradient>(keep_input(0) | keep_output(0))
      .samples<&det_samples>();
  OpDef<>("slogdet", {"a"})
      .outputs(2)
      .function<&slogdet_function>()
      .gradient<&slogdet_gradient>(keep_input(0))
      .samples<&det_samples>();
}

}  // namespace locus
