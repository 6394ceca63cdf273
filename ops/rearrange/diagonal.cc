// The view "diagonal", and its adjoint.
#include <algorithm>

#include <locus/core/base/at_line.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/create.h>
#include <locus/ops/rearrange/rearrange_parts.h>
#include <locus/ops/view.h>

namespace locus {

Meta detail::diagonal_meta(const Meta& m, const DiagonalAttrs& a) {
  const auto lacks = [&](int axis) { return axis < 0 || axis >= m.rank; };
  if (lacks(a.row) || lacks(a.column) || a.row == a.column)
    throw ShapeError("expected two of the ", static_cast<int>(m.rank), " axes, got ", a.row,
                     " and ", a.column);
  const int64_t rows = m.shape[a.row], columns = m.shape[a.column];
  // Whether the diagonal begins in the matrix; -offset might not fit.
  const bool begins = a.offset < columns && a.offset > -rows;
  const int64_t below = a.offset < 0 && begins ? -a.offset : 0;
  const int64_t beside = a.offset > 0 && begins ? a.offset : 0;
  Meta out = without_axis(m, std::max(a.row, a.column));
  out = without_axis(out, std::min(a.row, a.column));
  return with_axis(out, out.rank, begins ? std::min(rows - below, columns - beside) : 0);
}

namespace {

View diagonal_view(const View& in, const DiagonalAttrs& a) {
  return diagonal_of(in, detail::diagonal_meta(in.meta, a), a);
}

Tensors diagonal_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<EmbedDiagonal> op(EmbedDiagonal::kName);
  return {invoke(op, {dout[0]}, {saved.attrs<DiagonalAttrs>(), saved.in_meta(0)})};
}

Samples diagonal_samples(Context c, DType d) {
  return {Sample({sample_values(c, d, {3, 4})}, DiagonalAttrs{}),
          Sample({sample_values(c, d, {4, 2, 3})}, DiagonalAttrs{-1, 0, 2}),
          Sample({sample_values(c, d, {2, 3, 4})}, DiagonalAttrs{1, 2, 1})};
}

DType infer_embedding(std::span<const Meta> in, const EmbedDiagonal& e, std::span<Meta> out) {
  out[0] = e.base;
  out[0].dtype = in[0].dtype;
  const Shape expected(detail::diagonal_meta(out[0], e.diagonal));
  if (expected != Shape(in[0]))
    throw ShapeError("expected the shape of a diagonal of ", Shape(out[0]), ", ", expected);
  return in[0].dtype;
}

Tensors embedding_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<DiagonalAttrs> op("diagonal");
  return {invoke(op, {dout[0]}, saved.attrs<EmbedDiagonal>().diagonal)};
}

Samples embedding_samples(Context c, DType d) {
  const auto one = [&](const Shape& shape, const DiagonalAttrs& a, const Shape& base) {
    return Sample({sample_values(c, d, shape)}, EmbedDiagonal{a, make_meta(d, base)});
  };
  return {one({3}, {}, {3, 3}), one({2, 3}, {1, 2, 0}, {4, 2, 5}),
          one({3, 2}, {-1, 0, 2}, {3, 3, 4})};
}

}  // namespace

Tensor diagonal(const Tensor& x, int64_t offset, int64_t axis1, int64_t axis2, Caller from) try {
  detail::expect_tensor("diagonal", x);
  static const OpRef<DiagonalAttrs> op("diagonal");
  const int row = detail::axis_of(x, axis1, "diagonal"),
            column = detail::axis_of(x, axis2, "diagonal");
  if (row == column)
    throw ShapeError("diagonal: ", describe(x), ": expected two different axes, got axis1 ", axis1,
                     " and axis2 ", axis2);
  return invoke(op, {x}, {offset, row, column});
} catch (const Error&) {
  detail::rethrow_as("diagonal", from);
}

void register_diagonal() {
  OpDef<DiagonalAttrs>("diagonal", {"data"})
      .view<&diagonal_view>()
      .gradient<&diagonal_gradient>(Keep::none)
      .samples<&diagonal_samples>();
  OpDef<EmbedDiagonal>(EmbedDiagonal::kName, {"data"})
      .infer<&infer_embedding>()
      .layout(Layout::rows)
      .gradient<&embedding_gradient>(Keep::none)
      .samples<&embedding_samples>();
}

}  // namespace locus
