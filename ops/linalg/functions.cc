#include <locus/ops/linalg.h>

#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/linalg/matrices.h>
#include <locus/ops/linalg/operands.h>
#include <locus/ops/matmul.h>
#include <locus/ops/rearrange.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

using namespace linalg;

constexpr const char* kSingular = " is singular";

}  // namespace

Tensor cholesky(const Tensor& operand, const CholeskyOptions& o, Caller from) try {
  const UserLine user_line(from);
  const Tensor a = prepare_square_matrices("cholesky", operand);
  const Tensors l = cholesky_op(o.upper ? transpose_matrices(a) : a);
  if (o.check) expect_success("cholesky", operand, l[1], " is not positive definite", from);
  return o.upper ? transpose_matrices(l[0]) : l[0];
} catch (const Error&) {
  detail::rethrow_as("cholesky", from);
}

Tensor solve(const Tensor& a, const Tensor& b, const CheckOptions& o, Caller from) try {
  const UserLine user_line(from);
  const LinearSystem s("solve", a, b);
  const Tensors x = solve_op(s.a, s.b);
  if (o.check) expect_success("solve", a, x[1], kSingular, from);
  return s.restore(x[0]);
} catch (const Error&) {
  detail::rethrow_as("solve", from);
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, const TriangularOptions& o,
                        Caller from) try {
  const UserLine user_line(from);
  const LinearSystem s("solve_triangular", a, b);
  const Tensors x = solve_triangular_op(s.a, s.b, {o.upper, o.transpose, o.unit_diagonal});
  if (o.check && !o.unit_diagonal) expect_success("solve_triangular", a, x[1], kSingular, from);
  return s.restore(x[0]);
} catch (const Error&) {
  detail::rethrow_as("solve_triangular", from);
}

Tensor inv(const Tensor& operand, const CheckOptions& o, Caller from) try {
  const UserLine user_line(from);
  const Tensor a = prepare_square_matrices("inv", operand, "; pinv() takes other shapes");
  const Tensors x = invert_op(a);
  if (o.check) expect_success("inv", operand, x[1], kSingular, from);
  return x[0];
} catch (const Error&) {
  detail::rethrow_as("inv", from);
}

Lu lu(const Tensor& operand, Caller from) try {
  const UserLine user_line(from);
  const Tensor a = prepare_matrices("lu", operand);
  const Tensors f = factor_lu_op(a);
  const int64_t m = a.shape()[-2], n = a.shape()[-1], k = std::min(m, n);
  const TensorOptions like{a.context(), a.dtype()};
  // Row order[i] of a is row i of l u: column i of p has its one there.
  const Tensor p = (expand_dims(f[1], -2) == expand_dims(arange(m, {a.context(), i64}), -1));
  const Tensor below = tril(slice_axis(f[0], -1, Slice(0, k)), -1);
  return {p.astype(a.dtype()), k == 0 ? below : below + eye(m, k, 0, like),
          triu(slice_axis(f[0], -2, Slice(0, k)))};
} catch (const Error&) {
  detail::rethrow_as("lu", from);
}

Tensor det(const Tensor& operand, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<> op("det");
  return invoke(op, {prepare_square_matrices("det", operand)});
} catch (const Error&) {
  detail::rethrow_as("det", from);
}

Slogdet slogdet(const Tensor& operand, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<> op("slogdet");
  const Tensor a = prepare_square_matrices("slogdet", operand);
  const Ref in[] = {a};
  const Tensors y = invoke_all(op, in);
  return {y[0], y[1]};
} catch (const Error&) {
  detail::rethrow_as("slogdet", from);
}

}  // namespace locus
