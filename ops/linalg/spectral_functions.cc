// Functions of eigenvalues and singular values: checks of operands and results.
#include <cmath>
#include <limits>

#include <locus/core/amp.h>
#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/call_check.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/linalg.h>
#include <locus/ops/linalg/least_squares.h>
#include <locus/ops/linalg/matrices.h>
#include <locus/ops/linalg/operands.h>
#include <locus/ops/linalg/spectral.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

using namespace linalg;

constexpr const char* kFailed = " is not finite, or the iteration did not converge";
constexpr double kInf = std::numeric_limits<double>::infinity();

void expect_tolerance(const char* who, const char* what, const std::optional<double>& tolerance) {
  if (tolerance && !(*tolerance >= 0))
    throw ValueError(who, ": ", what, " is ", *tolerance, "; expected 0 or more");
}
double choose_rcond(const char* who, const char* what, const std::optional<double>& rcond,
                    const Tensor& a) {
  expect_tolerance(who, what, rcond);
  return rcond ? *rcond : default_rcond(a);
}

Tensor take_first(const Tensor& s) { return squeeze(slice_axis(s, -1, Slice(0, 1)), -1); }
Tensor take_last(const Tensor& s) {
  return squeeze(slice_axis(s, -1, Slice(-1, std::nullopt)), -1);
}

void expect_elements(const char* who, const char* what, const Tensor& a) {
  if (a.shape()[-1] == 0 || a.shape()[-2] == 0)
    throw ShapeError(who, ": ", what, " ", describe(a),
                     ": expected matrices with at least 1 row and 1 column");
}

void expect_order(const char* who, const char* what, const MatrixOrd& ord) {
  const double p = std::abs(ord.number());
  if (ord.is_number() ? p == 1 || p == 2 || p == kInf : ord.text() == "fro" || ord.text() == "nuc")
    return;
  throw ValueError(who, ": ", what, " is ",
                   ord.is_number() ? text_of(ord.number()) : text_of('"', ord.text(), '"'),
                   "; expected \"fro\", \"nuc\", 1, -1, 2, -2, inf or -inf");
}

// The norms of matrices `a`, by an order that expect_order() accepts.
Tensor compute_norms(const char* who, const char* what, const Tensor& a, const MatrixOrd& ord) {
  if (ord.text() == "fro") return norm(a, {.axis = {-2, -1}});
  if (ord.text() == "nuc") return sum(svdvals_op(a)[0], {.axis = -1});
  expect_elements(who, what, a);
  const double p = std::abs(ord.number());
  const bool largest = ord.number() > 0;
  if (p == 2) {
    const Tensor s = svdvals_op(a)[0];
    return largest ? take_first(s) : take_last(s);
  }
  const Tensor sums = sum(abs(a), {.axis = p == 1 ? -2 : -1});
  return largest ? max(sums, {.axis = -1}) : min(sums, {.axis = -1});
}

}  // namespace

Eigh eigh(const Tensor& operand, const EighOptions& o, Caller from) try {
  const UserLine user_line(from);
  const Tensors f = eigh_op(prepare_square_matrices("eigh", operand), o.upper);
  if (o.check) expect_success("eigh", operand, f[2], kFailed, from);
  return {f[0], f[1]};
} catch (const Error&) {
  detail::rethrow_as("eigh", from);
}

Tensor eigvalsh(const Tensor& operand, const EighOptions& o, Caller from) try {
  const UserLine user_line(from);
  const Tensors f = eigvalsh_op(prepare_square_matrices("eigvalsh", operand), o.upper);
  if (o.check) expect_success("eigvalsh", operand, f[1], kFailed, from);
  return f[0];
} catch (const Error&) {
  detail::rethrow_as("eigvalsh", from);
}

Svd svd(const Tensor& operand, const SvdOptions& o, Caller from) try {
  const UserLine user_line(from);
  const Tensor a = prepare_matrices("svd", operand);
  const bool square = a.shape()[-1] == a.shape()[-2];
  const Tensors f = svd_op(a, o.full_matrices && !square);
  if (o.check) expect_success("svd", operand, f[3], kFailed, from);
  return {f[0], f[1], f[2]};
} catch (const Error&) {
  detail::rethrow_as("svd", from);
}

Tensor svdvals(const Tensor& operand, const CheckOptions& o, Caller from) try {
  const UserLine user_line(from);
  const Tensors f = svdvals_op(prepare_matrices("svdvals", operand));
  if (o.check) expect_success("svdvals", operand, f[1], kFailed, from);
  return f[0];
} catch (const Error&) {
  detail::rethrow_as("svdvals", from);
}

Tensor pinv(const Tensor& operand, const RcondOptions& o, Caller from) try {
  const UserLine user_line(from);
  const Tensor a = prepare_matrices("pinv", operand);
  const Tensors f = pinv_op(a, choose_rcond("pinv", "rcond", o.rcond, a));
  if (o.check) expect_success("pinv", operand, f[1], kFailed, from);
  return f[0];
} catch (const Error&) {
  detail::rethrow_as("pinv", from);
}

Lstsq lstsq(const Tensor& a, const Tensor& b, const RcondOptions& o, Caller from) try {
  const UserLine user_line(from);
  const amp::Scope full_precision(std::nullopt);
  const LinearSystem s("lstsq", a, b, false);
  const int64_t m = s.a.shape()[-2], n = s.a.shape()[-1];
  const Tensors f = lstsq_op(s.a, s.b, choose_rcond("lstsq", "rcond", o.rcond, s.a));
  if (o.check) expect_success("lstsq", a, f[3], kFailed, from);
  const Tensor &x = f[0], &rank = f[1];
  const Tensor full_rank = rank == n;
  Tensor residuals;
  if (m <= n || (o.check && !all(full_rank).item<bool>(from))) {
    residuals = zeros({0}, {x.context(), x.dtype()});
  } else {
    residuals = sum(square(s.b - matmul(s.a, x)), {.axis = -2});
    if (!o.check)
      residuals =
          where(expand_dims(full_rank, -1), residuals, std::numeric_limits<double>::quiet_NaN());
  }
  return {s.restore(x), residuals, rank, f[2]};
} catch (const Error&) {
  detail::rethrow_as("lstsq", from);
}

Tensor matrix_rank(const Tensor& operand, const RankOptions& o, Caller from) try {
  const UserLine user_line(from);
  const Tensor a = prepare_matrices("matrix_rank", operand);
  if (o.tol && o.rtol)
    throw ValueError("matrix_rank: tol is ", *o.tol, ", rtol is ", *o.rtol, "; pass one of them");
  expect_tolerance("matrix_rank", "tol", o.tol);
  const double rtol = choose_rcond("matrix_rank", "rtol", o.rtol, a);
  const Tensors f = svdvals_op(a);
  if (o.check)
    expect_success("matrix_rank", operand, f[1], kFailed, from,
                   {.on_failure = "{.check = false} gives 0 there instead"});
  return sum(o.tol ? f[0] > *o.tol : exceeds_cutoff(f[0], rtol), {.axis = -1});
} catch (const Error&) {
  detail::rethrow_as("matrix_rank", from);
}

Tensor matrix_norm(const Tensor& operand, const MatrixNormOptions& o, Caller from) try {
  const UserLine user_line(from);
  const Tensor x = prepare_matrices("matrix_norm", operand, "x");
  expect_order("matrix_norm", "ord", o.ord);
  const Tensor y = compute_norms("matrix_norm", "x", x, o.ord);
  return o.keepdims ? expand_dims(expand_dims(y, -1), -1) : y;
} catch (const Error&) {
  detail::rethrow_as("matrix_norm", from);
}

Tensor cond(const Tensor& operand, const MatrixOrd& p, Caller from) try {
  const UserLine user_line(from);
  expect_order("cond", "p", p);
  const bool by_singular_values = p.is_number() && std::abs(p.number()) == 2;
  const Tensor a = by_singular_values
                       ? prepare_matrices("cond", operand)
                       : prepare_square_matrices("cond", operand, "; p = 2 takes other shapes");
  expect_elements("cond", "a", a);
  if (by_singular_values) {
    const Tensor s = svdvals_op(a)[0], largest = take_first(s), smallest = take_last(s);
    if (p.number() > 0)
      return where(smallest == 0, kInf, largest / where(smallest == 0, 1, smallest));
    return where(largest == 0, kInf, smallest / where(largest == 0, 1, largest));
  }
  const Tensors inverse = invert_op(a);
  const Tensor a_norm = compute_norms("cond", "a", a, p);
  const Tensor product = a_norm * compute_norms("cond", "a", inverse[0], p);
  // The inverse of a matrix that is almost singular overflows: its norm may be NaN.
  const Tensor no_inverse = logical_or(inverse[1], isnan(product));
  return where(logical_and(no_inverse, logical_not(isnan(a_norm))), kInf, product);
} catch (const Error&) {
  detail::rethrow_as("cond", from);
}

}  // namespace locus
