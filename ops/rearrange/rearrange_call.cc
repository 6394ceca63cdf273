// The functions of ops/rearrange.h.
#include <locus/ops/rearrange.h>

#include <algorithm>
#include <cstdlib>

#include <locus/core/base/at_line.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/copy.h>
#include <locus/ops/rearrange/rearrange_parts.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

// shift modulo n, from 0 to n - 1.
int64_t modulo(int64_t shift, int64_t n) {
  if (n == 0) return 0;
  const int64_t r = shift % n;
  return r < 0 ? r + n : r;
}

Tensor roll_axes(const Tensor& x, std::span<const int64_t> shifts, std::span<const int> axes) {
  static const OpRef<Roll> op(Roll::kName);
  const size_t n = std::max(shifts.size(), axes.size());
  if (axes.empty() || shifts.empty() || (shifts.size() != n && shifts.size() != 1) ||
      (axes.size() != n && axes.size() != 1))
    throw ValueError("roll: ", describe(x), ": expected one shift, or one for each axis; got ",
                     shifts.size(), " shifts and ", axes.size(), " axes");
  // The axes in memory's order: the result has this order, too, as a copy has.
  const View& v = x.impl().view;
  int order[kMaxRank], place[kMaxRank];
  for (int a = 0; a < x.ndim(); ++a) order[a] = a;
  if (!x.contiguous())
    std::stable_sort(order, order + x.ndim(),
                     [&](int a, int b) { return std::abs(v.stride[a]) > std::abs(v.stride[b]); });
  for (int a = 0; a < x.ndim(); ++a) place[order[a]] = a;
  const auto axes_of = [&](const int* all) {
    return std::span<const int>(all, static_cast<size_t>(x.ndim()));
  };
  Roll r;
  for (size_t i = 0; i < n; ++i) {
    const int axis = detail::axis_of(x, axes[axes.size() == 1 ? 0 : i], "roll");
    const int64_t length = x.shape()[axis];
    const int64_t by = modulo(shifts[shifts.size() == 1 ? 0 : i], length);
    int64_t& shift = r.shift[place[axis]];
    shift = shift < length - by ? shift + by : shift - (length - by);
  }
  if (std::is_sorted(order, order + x.ndim())) return invoke(op, {x}, r);
  return transpose(invoke(op, {transpose(x, axes_of(order))}, r), axes_of(place));
}

Tensor triangle(const char* name, const Tensor& x, int64_t k, bool upper) {
  static const OpRef<Triangle> op(Triangle::kName);
  detail::expect_tensor(name, x);
  if (x.ndim() == 0)
    throw ShapeError(name, ": ", describe(x), ": expected a matrix, or a batch of matrices");
  const Tensor m = x.ndim() > 1 ? x : broadcast_to(x, {x.shape()[0], x.shape()[0]});
  const int64_t rows = m.shape()[m.ndim() - 2], columns = m.shape()[m.ndim() - 1];
  return invoke(op, {m}, Triangle{{}, std::clamp(k, -rows, columns), upper});
}

}  // namespace

Tensor pad(const Tensor& x, const PadWidths& widths, const PadOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<Pad> op(Pad::kName);
  detail::expect_tensor("pad", x);
  const std::span<const PadWidth> list = widths.list();
  const size_t rank = static_cast<size_t>(x.ndim());
  if (list.size() != 1 && list.size() != rank)
    throw ShapeError("pad: ", describe(x), ": expected widths for 1 or ", rank, " axes, got ",
                     list.size());
  if (o.mode > PadMode::wrap)
    throw ValueError("pad: mode ", static_cast<int>(o.mode),
                     "; expected PadMode::constant, edge, reflect, symmetric or wrap");
  Pad pad;
  for (size_t i = 0; i < rank; ++i) {
    const PadWidth& w = list[list.size() == 1 ? 0 : i];
    pad.before[i] = w.before;
    pad.after[i] = w.after;
  }
  pad.rule = static_cast<PadRule>(o.mode);
  if (o.mode == PadMode::constant) pad.value = o.constant_values;
  return invoke(op, {x}, pad);
} catch (const Error&) {
  detail::rethrow_as("pad", from);
}

Tensor roll(const Tensor& x, int64_t shift, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("roll", x);
  const int axis = 0;
  const Tensor flat = detail::reshape_exact(x, {x.size()});
  return detail::reshape_exact(roll_axes(flat, {&shift, 1}, {&axis, 1}), x.shape());
} catch (const Error&) {
  detail::rethrow_as("roll", from);
}
Tensor roll(const Tensor& x, int64_t shift, int64_t axis, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("roll", x);
  const int along = detail::axis_of(x, axis, "roll");
  return roll_axes(x, {&shift, 1}, {&along, 1});
} catch (const Error&) {
  detail::rethrow_as("roll", from);
}
Tensor roll(const Tensor& x, int64_t shift, std::initializer_list<int> axes, Caller from) {
  return roll(x, {shift}, axes, from);
}
Tensor roll(const Tensor& x, std::span<const int64_t> shifts, std::span<const int> axes,
            Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("roll", x);
  return roll_axes(x, shifts, axes);
} catch (const Error&) {
  detail::rethrow_as("roll", from);
}
Tensor roll(const Tensor& x, std::initializer_list<int64_t> shifts, std::initializer_list<int> axes,
            Caller from) {
  return roll(x, std::span<const int64_t>(shifts.begin(), shifts.size()),
              std::span<const int>(axes.begin(), axes.size()), from);
}

Tensor tril(const Tensor& x, int64_t k, Caller from) try {
  const UserLine user_line(from);
  return triangle("tril", x, k, false);
} catch (const Error&) {
  detail::rethrow_as("tril", from);
}
Tensor triu(const Tensor& x, int64_t k, Caller from) try {
  const UserLine user_line(from);
  return triangle("triu", x, k, true);
} catch (const Error&) {
  detail::rethrow_as("triu", from);
}

Tensor diag(const Tensor& x, int64_t k, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<EmbedDiagonal> op(EmbedDiagonal::kName);
  detail::expect_tensor("diag", x);
  if (x.ndim() == 2) return detail::called_as("diag", "diagonal", [&] { return diagonal(x, k); });
  if (x.ndim() != 1) throw ShapeError("diag: ", describe(x), ": expected a tensor of 1 or 2 axes");
  int64_t n = 0, elements = 0;
  if (__builtin_add_overflow(k < 0 ? -(k + 1) : k, x.size() + (k < 0 ? 1 : 0), &n) ||
      __builtin_mul_overflow(n, n, &elements))
    throw ShapeError("diag: ", describe(x), ": expected a matrix whose elements 63 bits count; ",
                     "got k ", k);
  return invoke(op, {x}, {{k, 0, 1}, make_meta(x.dtype(), Shape{n, n})});
} catch (const Error&) {
  detail::rethrow_as("diag", from);
}

Tensors meshgrid(const Tensors& xs, const MeshgridOptions& o, Caller from) try {
  const UserLine user_line(from);
  const int n = static_cast<int>(xs.size());
  if (n > kMaxRank) throw ShapeError("meshgrid: expected at most 8 tensors, got ", n);
  if (o.indexing > Indexing::ij)
    throw ValueError("meshgrid: indexing ", static_cast<int>(o.indexing),
                     "; expected Indexing::xy or Indexing::ij");
  const auto axis_of = [&](int i) {
    return o.indexing == Indexing::xy && n > 1 && i < 2 ? 1 - i : i;
  };
  int64_t lengths[kMaxRank];
  for (int i = 0; i < n; ++i) {
    const Tensor& x = xs[static_cast<size_t>(i)];
    detail::expect_tensor("meshgrid", x, "an operand");
    detail::expect_together("meshgrid", "xs[0]", xs[0], text_of("xs[", i, "]"), x);
    lengths[axis_of(i)] = x.size();
  }
  const Shape shape(lengths, n);
  Tensors grid;
  for (int i = 0; i < n; ++i) {
    const Tensor& x = xs[static_cast<size_t>(i)];
    int64_t own[kMaxRank];
    std::fill_n(own, n, 1);
    own[axis_of(i)] = x.size();
    const Tensor all = broadcast_to(detail::reshape_exact(x, Shape(own, n)), shape);
    const Tensor dense = contiguous(all);
    grid.push_back(dense.shares_memory_with(x) ? copy(dense) : dense);
  }
  return grid;
} catch (const Error&) {
  detail::rethrow_as("meshgrid", from);
}

}  // namespace locus
