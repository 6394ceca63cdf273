// unravel_index and ravel_multi_index.
#include <locus/core/base/at_line.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/index.h>
#include <locus/ops/index/flat_index_kernel.h>
#include <locus/ops/view.h>

namespace locus {

void detail::throw_outside(const char* op, int64_t index, int axis, int64_t size) {
  throw IndexError(op, ": index ", index, " is out of bounds for axis ", axis, " with size ", size,
                   "; expected 0 to ", size - 1);
}

namespace {

DType unravel_infer(std::span<const Meta> in, const UnravelAttrs& a, std::span<Meta> out) {
  if (in[0].rank != 1) throw ShapeError("expected a tensor of one axis");
  const int64_t n = in[0].shape[0], axes = a.shape.rank;
  if (axes == 0 && n > 0) throw ShapeError("expected a shape with axes");
  out[0] = make_meta(i64, a.axes_last ? Shape{n, axes} : Shape{axes, n});
  return in[0].dtype;
}

DType ravel_infer(std::span<const Meta> in, const RavelAttrs& a, std::span<Meta> out) {
  if (static_cast<int>(in.size()) != a.shape.rank)
    throw ShapeError("expected one tensor for each axis of shape ", Shape(a.shape), ", got ",
                     in.size());
  for (const Meta& m : in)
    if (Shape(m) != Shape(in[0])) throw ShapeError("expected tensors of equal shapes");
  out[0] = make_meta(i64, Shape(in[0]));
  return one_dtype(in);
}

Samples unravel_samples(Context c, DType) {
  return {Sample({array({0, 7, 23, 11}, c)}, UnravelAttrs{make_meta(i64, Shape{2, 3, 4})}),
          Sample({array({9, 4}, c)}, UnravelAttrs{make_meta(i64, Shape{2, 5})}),
          Sample({array({9, 4, 5}, c)}, UnravelAttrs{make_meta(i64, Shape{2, 5}), 1})};
}

Samples ravel_samples(Context c, DType) {
  const Tensor rows = array({1, 0, 2}, c), columns = array({3, -1, 9}, c);
  const Meta shape = make_meta(i64, Shape{3, 4});
  return {Sample({rows, array({3, 0, 2}, c)}, RavelAttrs{shape}),
          Sample({rows, columns}, RavelAttrs{shape, 1}),
          Sample({columns}, RavelAttrs{make_meta(i64, Shape{5}), 2})};
}

// ids in i64. Floats and masks are a DTypeError.
Tensor whole_ids(const char* op, const Tensor& ids) {
  if (!is_integer(ids.dtype()))
    throw DTypeError(op, ": ids ", describe(ids), ": expected integers");
  return ids.dtype() == i64 ? ids : cast(ids, i64);
}

void check_shape(const char* op, const Shape& shape) {
  int64_t size = 1;
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] < 0 || __builtin_mul_overflow(size, shape[i], &size))
      throw ShapeError(op, ": expected lengths >= 0 whose product 63 bits count, got shape ",
                       shape);
}

}  // namespace

Tensors unravel_index(const Tensor& ids, const Shape& shape, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<UnravelAttrs> op("unravel_index");
  detail::expect_tensor("unravel_index", ids, "ids");
  check_shape("unravel_index", shape);
  const Tensor flat = detail::reshape_exact(whole_ids("unravel_index", ids), {ids.size()});
  const Tensor parts = invoke(op, {flat}, UnravelAttrs{make_meta(i64, shape)});
  Tensors out;
  for (int i = 0; i < shape.rank(); ++i)
    out.push_back(detail::reshape_exact(parts[i], ids.shape()));
  return out;
} catch (const Error&) {
  detail::rethrow_as("unravel_index", from);
}

Tensor ravel_multi_index(const Tensors& ids, const Shape& shape, IndexMode mode, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<RavelAttrs> op("ravel_multi_index");
  check_shape("ravel_multi_index", shape);
  if (mode > IndexMode::wrap)
    throw ValueError("ravel_multi_index: mode ", static_cast<int>(mode),
                     "; expected IndexMode::raise, IndexMode::clip or IndexMode::wrap");
  if (ids.empty()) throw ShapeError("ravel_multi_index: expected at least one tensor");
  for (const Tensor& t : ids) detail::expect_tensor("ravel_multi_index", t, "an operand");
  const Shape common = detail::broadcast_all("ravel_multi_index", "ids", ids);
  Tensors same;
  for (const Tensor& t : ids) {
    same.push_back(whole_ids("ravel_multi_index", t));
    if (t.shape() != common) same.back() = broadcast_to(same.back(), common);
  }
  const std::vector<Ref> refs(same.begin(), same.end());
  return invoke(op, refs, RavelAttrs{make_meta(i64, shape), static_cast<uint8_t>(mode)});
} catch (const Error&) {
  detail::rethrow_as("ravel_multi_index", from);
}

void register_flat_index() {
  OpDef<UnravelAttrs>("unravel_index", {"flat"})
      .infer<&unravel_infer>()
      .no_gradient("its input is an index")
      .samples<&unravel_samples>();
  OpDef<RavelAttrs>("ravel_multi_index")
      .inputs(1, kMaxRank)
      .infer<&ravel_infer>()
      .no_gradient("its inputs are indices")
      .samples<&ravel_samples>();
}

}  // namespace locus
