#include <locus/ops/products.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/call_check.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>
#include <locus/ops/linalg/matrices.h>
#include <locus/ops/linalg/operands.h>
#include <locus/ops/products/contract.h>
#include <locus/ops/products/operands.h>
#include <locus/ops/rearrange.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>

namespace locus {

using detail::Labels, detail::check_operands, detail::expect_tensor, detail::reshape_exact;

namespace {

std::string describe_both(const Tensor& a, const Tensor& b) {
  return text_of("a ", describe(a), ", b ", describe(b));
}

// The product, summed over the pairs of axes axes_a[i] and axes_b[i].
Tensor contract_axes(const char* op, const Tensor& a, const Tensor& b,
                     const std::vector<int>& axes_a, const std::vector<int>& axes_b) {
  Labels labels_a, labels_b, kept;
  for (int i = 0; i < a.ndim(); ++i) labels_a.push_back(i);
  for (int i = 0; i < b.ndim(); ++i) labels_b.push_back(kMaxRank + i);
  for (size_t i = 0; i < axes_a.size(); ++i) {
    const int64_t n = a.shape()[axes_a[i]], other = b.shape()[axes_b[i]];
    if (n != other)
      throw ShapeError(op, ": ", describe_both(a, b), ": axis ", axes_a[i], " of a has length ", n,
                       ", and axis ", axes_b[i], " of b has length ", other,
                       "; expected equal lengths");
    labels_b[static_cast<size_t>(axes_b[i])] = axes_a[i];
  }
  for (int label : labels_a)
    if (!detail::contains(labels_b, label)) kept.push_back(label);
  for (int label : labels_b)
    if (!detail::contains(labels_a, label)) kept.push_back(label);
  if (kept.size() > static_cast<size_t>(kMaxRank))
    throw ShapeError(op, ": ", describe_both(a, b), ": the result has ", kept.size(),
                     " axes; expected at most ", kMaxRank);
  const Tensors operands = detail::promote_all({a, b});
  return detail::contract({operands[0], labels_a}, {operands[1], labels_b}, kept).x;
}

// The axes, counted from 0. Throws ShapeError if an axis is out of bounds or occurs twice.
std::vector<int> normalize_axes(const char* op, const Tensor& x, std::span<const int> axes,
                                const char* name) {
  std::vector<int> normalized;
  for (int axis : axes) {
    const int i = detail::axis_of(x, axis, op);
    if (std::ranges::find(normalized, i) != normalized.end())
      throw ShapeError(op, ": ", name, " has axis ", axis, " of ", describe(x),
                       " twice; expected different axes");
    normalized.push_back(i);
  }
  return normalized;
}

std::vector<int> list_axes(int begin, int end) {
  std::vector<int> axes;
  for (int i = begin; i < end; ++i) axes.push_back(i);
  return axes;
}

Tensor flatten_to_vector(const Tensor& x) { return reshape_exact(x, Shape{x.size()}); }

// x with leading axes of length 1 up to `rank` axes.
Tensor add_leading_axes(const Tensor& x, int rank) {
  std::vector<int64_t> lengths(static_cast<size_t>(rank - x.ndim()), 1);
  for (int64_t n : x.shape()) lengths.push_back(n);
  return reshape_exact(x, Shape(lengths));
}

// x repeated n times along the axis.
Tensor tile_axis(const Tensor& x, int64_t n, int axis) {
  std::vector<int64_t> times(static_cast<size_t>(x.ndim()), 1);
  times[static_cast<size_t>(axis)] = n;
  return tile(x, Shape(times));
}

// x with its vectors of length 3 moved to the last axis.
Tensor move_vectors_last(const char* name, const Tensor& x, int64_t axis) {
  const int at = detail::axis_of(x, axis, "cross");
  if (x.shape()[at] != 3)
    throw ShapeError("cross: ", name, " ", describe(x), ": vectors along axis ", at,
                     " have length ", x.shape()[at], "; expected vectors of 3");
  return moveaxis(x, at, -1);
}

void expect_square(const Tensor& x) {
  const Shape s = x.shape();
  if (s.rank() < 2 || s[-1] != s[-2])
    throw ShapeError("matrix_power: x ", describe(x),
                     ": expected square matrices in the last two axes");
}

// The inverses, whose power n is x to the power -n. matrix_power() has no option that turns the
// check off, so the error names two calls that do.
Tensor invert(const Tensor& x, uint64_t n, Caller from) {
  const Tensors inverse =
      linalg::invert_op(linalg::prepare_square_matrices("inv", x, "; pinv() takes other shapes"));
  const std::string advice = text_of("matrix_power(inv(x, {.check = false}), ", n,
                                     ") does not check, and gives NaN for singular matrices");
  linalg::expect_success("inv", x, inverse[1], " is singular", from, {advice, advice});
  return inverse[0];
}

}  // namespace

Tensor tensordot(const Tensor& a, const Tensor& b, int64_t axes, Caller from) try {
  const UserLine user_line(from);
  check_operands("tensordot", a, b);
  if (axes < 0) throw ValueError("tensordot: axes ", axes, "; expected 0 or more");
  if (axes > a.ndim() || axes > b.ndim())
    throw ShapeError("tensordot: ", describe_both(a, b), ": axes ", axes,
                     "; expected at most as many as the axes of a and of b");
  const int n = static_cast<int>(axes);
  return contract_axes("tensordot", a, b, list_axes(a.ndim() - n, a.ndim()), list_axes(0, n));
} catch (const Error&) {
  detail::rethrow_as("tensordot", from);
}

Tensor tensordot(const Tensor& a, const Tensor& b, std::span<const int> axes_a,
                 std::span<const int> axes_b, Caller from) try {
  const UserLine user_line(from);
  check_operands("tensordot", a, b);
  if (axes_a.size() != axes_b.size())
    throw ShapeError("tensordot: axes_a has ", axes_a.size(), " axes and axes_b ", axes_b.size(),
                     "; expected pairs");
  return contract_axes("tensordot", a, b, normalize_axes("tensordot", a, axes_a, "axes_a"),
                       normalize_axes("tensordot", b, axes_b, "axes_b"));
} catch (const Error&) {
  detail::rethrow_as("tensordot", from);
}
Tensor tensordot(const Tensor& a, const Tensor& b, std::initializer_list<int> axes_a,
                 std::initializer_list<int> axes_b, Caller from) {
  return tensordot(a, b, std::span(axes_a.begin(), axes_a.size()),
                   std::span(axes_b.begin(), axes_b.size()), from);
}

Tensor inner(const Tensor& a, const Tensor& b, Caller from) try {
  const UserLine user_line(from);
  check_operands("inner", a, b);
  if (a.ndim() == 0 || b.ndim() == 0) return contract_axes("inner", a, b, {}, {});
  return contract_axes("inner", a, b, {a.ndim() - 1}, {b.ndim() - 1});
} catch (const Error&) {
  detail::rethrow_as("inner", from);
}

Tensor vdot(const Tensor& a, const Tensor& b, Caller from) try {
  const UserLine user_line(from);
  check_operands("vdot", a, b);
  if (a.size() != b.size())
    throw ShapeError("vdot: ", describe_both(a, b), ": expected operands of one size");
  if (a.shape() != b.shape())
    return contract_axes("vdot", flatten_to_vector(a), flatten_to_vector(b), {0}, {0});
  const std::vector<int> axes = list_axes(0, a.ndim());
  return contract_axes("vdot", a, b, axes, axes);
} catch (const Error&) {
  detail::rethrow_as("vdot", from);
}

Tensor outer(const Tensor& a, const Tensor& b, Caller from) try {
  const UserLine user_line(from);
  check_operands("outer", a, b);
  return contract_axes("outer", flatten_to_vector(a), flatten_to_vector(b), {}, {});
} catch (const Error&) {
  detail::rethrow_as("outer", from);
}

Tensor kron(const Tensor& a, const Tensor& b, Caller from) try {
  const UserLine user_line(from);
  check_operands("kron", a, b);
  const Tensors operands = detail::promote_all({a, b});
  const int rank = std::max(a.ndim(), b.ndim());
  Tensor x = add_leading_axes(operands[0], rank), y = add_leading_axes(operands[1], rank);
  int axes = 0;  // of the broadcast product: two for a pair of lengths other than 1, else one
  for (int i = 0; i < rank; ++i) axes += x.shape()[i] != 1 && y.shape()[i] != 1 ? 2 : 1;
  std::vector<int64_t> lengths_x, lengths_y, result;
  for (int i = 0; i < rank; ++i) {
    const int64_t n = x.shape()[i], m = y.shape()[i];
    const int64_t joint = make_meta(x.dtype(), Shape{n, m}).size();  // throws if n * m overflows
    result.push_back(joint);
    if (n == 1 || m == 1) {
      lengths_x.push_back(n);
      lengths_y.push_back(m);
    } else if (axes > kMaxRank) {  // one axis of the product, along which both are copied
      x = repeat(x, m, i);
      y = tile_axis(y, n, i);
      lengths_x.push_back(joint);
      lengths_y.push_back(joint);
      --axes;
    } else {
      lengths_x.insert(lengths_x.end(), {n, 1});
      lengths_y.insert(lengths_y.end(), {1, m});
    }
  }
  return reshape_exact(reshape_exact(x, Shape(lengths_x)) * reshape_exact(y, Shape(lengths_y)),
                       Shape(result));
} catch (const Error&) {
  detail::rethrow_as("kron", from);
}

Tensor cross(const Tensor& a, const Tensor& b, const CrossOptions& o, Caller from) try {
  const UserLine user_line(from);
  check_operands("cross", a, b);
  const Tensors operands = detail::promote_all({a, b});
  if (operands[0].dtype() == bool_)
    throw DTypeError("cross: ", describe_both(a, b),
                     ": bool has no differences; expected numbers; cast one: a.astype(i8)");
  const Tensor x = move_vectors_last("a", operands[0], o.axis.value_or(o.axisa)),
               y = move_vectors_last("b", operands[1], o.axis.value_or(o.axisb));
  const int rank = detail::broadcast_all("cross", "vectors", {x, y}).rank();
  const int64_t axis = o.axis.value_or(o.axisc);
  if (axis < -rank || axis >= rank)
    throw ShapeError("cross: ", describe_both(a, b), ": axisc ", axis, "; expected ", -rank, " to ",
                     rank - 1);
  // Component i is x[i + 1] y[i + 2] - x[i + 2] y[i + 1], with indices modulo 3.
  const auto rotate = [](const Tensor& v) { return roll(v, -1, -1); };
  return moveaxis(rotate(x * rotate(y) - rotate(x) * y), -1, axis);
} catch (const Error&) {
  detail::rethrow_as("cross", from);
}

Tensor trace(const Tensor& x, int64_t offset, int64_t axis1, int64_t axis2, Caller from) try {
  const UserLine user_line(from);
  expect_tensor("trace", x);
  return sum(
      detail::called_as("trace", "diagonal", [&] { return diagonal(x, offset, axis1, axis2); }),
      {.axis = -1});
} catch (const Error&) {
  detail::rethrow_as("trace", from);
}

Tensor matrix_power(const Tensor& x, int64_t n, Caller from) try {
  const UserLine user_line(from);
  expect_tensor("matrix_power", x, "x");
  expect_square(x);
  if (n == 0)
    return copy(broadcast_to(eye(x.shape()[-1], 0, 0, {x.context(), x.dtype()}), x.shape()));
  const uint64_t exponent = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  Tensor power = n < 0 ? invert(x, exponent, from) : x, result;
  for (uint64_t bits = exponent;; bits /= 2) {
    if (bits % 2 != 0) result = result.defined() ? detail::multiply_matrices(result, power) : power;
    if (bits < 2) break;
    power = detail::multiply_matrices(power, power);
  }
  return result.is(x) ? copy(x) : result;
} catch (const Error&) {
  detail::rethrow_as("matrix_power", from);
}

}  // namespace locus
