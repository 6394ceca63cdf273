#include <locus/ops/index/index_parts.h>

#include <string>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/view.h>

namespace locus::detail {

void check_ids(std::span<const Meta> ids, const Meta& data, const TakeAttrs& a) {
  if (static_cast<int>(ids.size()) != a.n_axes)
    throw ShapeError("expected ", a.n_axes, " index tensors, got ", ids.size());
  for (const Meta& m : ids) {
    if (!is_id_dtype(m.dtype) || m.dtype != ids[0].dtype) throw DTypeError(kIdDTypes);
    if (Shape(m) != Shape(ids[0])) throw ShapeError("expected ids of equal shapes");
  }
  for (int k = 0; k < a.n_axes; ++k) {
    if (a.axes[k] >= data.rank)
      throw ShapeError("expected data with more than ", a.axes[k], " axes");
    if (data.shape[a.axes[k]] == 0 && ids[0].size() > 0)
      throw IndexError("cannot take from axis ", a.axes[k], " of length 0; expected no ids");
  }
}

void expect_shape(const Meta& m, const char* what, const Shape& wanted) {
  if (Shape(m) != wanted) throw ShapeError("expected ", what, " of shape ", wanted);
}

void throw_out_of_bounds(const char* op, int64_t index, DType d, int axis, int64_t size) {
  const std::string text = is_exact(index, d) ? std::to_string(index)
                           : index == kNaN    ? "nan"
                                              : "past 64 bits";
  throw IndexError(op, ": index ", text, " is out of bounds for axis ", axis, " with size ", size,
                   "; expected ", -size, " to ", size - 1);
}

Tensor integer_ids(const char* op, const Tensor& ids) {
  if (is_id_dtype(ids.dtype())) return ids;
  if (ids.dtype() == bool_)
    throw DTypeError(op, ": ids ", describe(ids), ": expected integers; write x[mask] for a mask");
  return cast(ids, f32);
}

Meta taken(const Meta& data, const Meta& ids, const TakeAttrs& a) {
  Meta m = data;
  if (a.along) {
    m.shape[a.axes[0]] = ids.shape[a.axes[0]];
    if (Shape(ids) != Shape(m)) throw ShapeError("expected ids of shape ", Shape(m));
    return m;
  }
  for (int k = a.n_axes; k-- > 0;) m = without_axis(m, a.axes[k]);
  if (m.rank + ids.rank > kMaxRank)
    throw ShapeError("expected a result of at most 8 axes, got ", m.rank + ids.rank);
  for (int i = 0; i < ids.rank; ++i) m = with_axis(m, a.at + i, ids.shape[i]);
  return m;
}

DType put_infer(std::span<const Meta> in, const TakeAttrs& a, std::span<Meta> out) {
  check_ids(in.subspan(2), in[0], a);
  expect_shape(in[1], "values", Shape(taken(in[0], in[2], a)));
  if (in[1].dtype != in[0].dtype) throw DTypeError("expected values of the target's dtype");
  out[0] = in[0];
  return in[0].dtype;
}

Tensor broadcast_zeros(const Shape& shape, Context c, DType d) {
  return broadcast_to(zeros(Shape{}, {c, d}), shape);
}

Tensor add_to_zeros(const Shape& shape, const Tensor& values, std::span<const Ref> ids,
                    const TakeAttrs& a, Tensor place) {
  static const OpRef<TakeAttrs> add("index_add");
  static const OpRef<FillAttrs> fill("fill");
  const Context c = values.context();
  const DType d = values.dtype();
  // A recorded call may not write over an operand.
  const bool recorded = autograd::is_recording();
  Tensor x = recorded ? broadcast_zeros(shape, c, d) : place;
  if (!x.defined()) x = empty(shape, {c, d});
  if (!recorded) invoke_into(fill, {}, {x}, FillAttrs{0, make_meta(d, shape)});
  std::vector<Ref> refs{x, values};
  refs.insert(refs.end(), ids.begin(), ids.end());
  return invoke(add, refs, a, recorded ? std::move(place) : x);
}

}  // namespace locus::detail
