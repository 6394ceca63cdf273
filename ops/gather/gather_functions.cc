// The functions that take index tensors. Functions of masks: masked.cc.
#include <locus/core/base/at_line.h>
#include <locus/core/call/named_calls.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/gather.h>

#include <cmath>

#include <locus/ops/index/index_parts.h>
#include <locus/ops/view.h>

namespace locus {

namespace {

// Calls f, which calls `op`, under the name of the function that the user called.
auto named(const char* who, const char* op, const auto& f) {
  return detail::called_as(who, op, [&] { return detail::with_indices(who, "indices", f); });
}

uint8_t checked(const char* who, IndexMode mode) {
  if (mode > IndexMode::wrap)
    throw ValueError(who, ": mode ", static_cast<int>(mode),
                     "; expected IndexMode::raise, IndexMode::clip or IndexMode::wrap");
  return static_cast<uint8_t>(mode);
}

void expect_integers(const char* who, const Tensor& indices) {
  const DType d = indices.dtype();
  if (is_floating(d))
    throw DTypeError(who, ": indices ", describe(indices), ": expected integers, got ", name(d),
                     "; cast them: indices.astype(i64)");
  if (d == bool_)
    throw DTypeError(who, ": indices ", describe(indices),
                     ": expected integers, got a mask; nonzero(mask) gives its positions");
}

// The operand as a tensor of x's dtype.
Tensor values_for(const char* who, const Tensor& x, const Operand& values) {
  if (values.is_scalar()) {
    check_fits(who, x.dtype(), values.scalar());
    return full(Shape{}, values.scalar(), {x.context(), x.dtype()});
  }
  detail::expect_tensor(who, values.tensor(), "values");
  return values.tensor().dtype() == x.dtype() ? values.tensor() : cast(values.tensor(), x.dtype());
}

Tensor spread(const char* who, const char* what, const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (!broadcasts_to(x.shape(), shape))
    throw ShapeError(who, ": ", what, " ", describe(x), ": expected a shape that broadcasts to ",
                     shape);
  return broadcast_to(x, shape);
}

Shape with_length(const Shape& s, int axis, int64_t length) {
  Meta m = make_meta(f32, s);
  m.shape[axis] = length;
  return Shape(m);
}

// x and indices of an op along an axis, and the axis.
struct AlongAxis {
  Tensor x;
  int axis = 0;

  AlongAxis(const char* who, const Tensor& data, const Tensor& indices,
            std::optional<int64_t> along) {
    detail::expect_tensor(who, data);
    detail::expect_tensor(who, indices, "indices");
    expect_integers(who, indices);
    x = along ? data : detail::reshape_exact(data, {data.size()});
    if (along) axis = detail::axis_of(x, *along, who);
    if (indices.ndim() != x.ndim())
      throw ShapeError(who, ": data ", describe(data), ", indices ", describe(indices),
                       ": expected indices of ", x.ndim(), " axes",
                       along ? "" : " for data that counts as flattened");
  }
  TakeAttrs attrs(uint8_t mode) const { return {1, {static_cast<int8_t>(axis)}, 0, mode, 1}; }
};

}  // namespace

Tensor take_along_axis(const Tensor& x, const Tensor& indices, const AlongAxisOptions& o,
                       Caller from) try {
  const UserLine user_line(from);
  static const OpRef<TakeAttrs> op("take");
  const char* const who = "take_along_axis";
  const AlongAxis a(who, x, indices, o.axis);
  Meta common = make_meta(f32, a.x.shape());
  for (int i = 0; i < common.rank; ++i) {
    const int64_t n = common.shape[i], m = indices.shape()[i];
    if (i != a.axis && n != m && n != 1 && m != 1)
      throw ShapeError(who, ": data ", describe(x), ", indices ", describe(indices), ": lengths ",
                       n, " and ", m, " at axis ", i, "; expected equal ones, or 1");
    if (n == 1 || i == a.axis) common.shape[i] = m;
  }
  const Shape shape(common);
  const Tensor data = spread(who, "data", a.x, with_length(shape, a.axis, a.x.shape()[a.axis]));
  return named(who, "take", [&] {
    return invoke(op, {data, spread(who, "indices", indices, shape)},
                  a.attrs(checked(who, o.mode)));
  });
} catch (const Error&) {
  detail::rethrow_as("take_along_axis", from);
}

Tensor put_along_axis(const Tensor& x, const Tensor& indices, const Operand& values,
                      const PutAlongAxisOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<TakeAttrs> op("index_put");
  const char* const who = "put_along_axis";
  const AlongAxis a(who, x, indices, o.axis);
  const Shape shape = with_length(a.x.shape(), a.axis, indices.shape()[a.axis]);
  const Tensor ids = spread(who, "indices", indices, shape);
  const Tensor v = spread(who, "values", values_for(who, x, values), shape);
  const Tensor y = named(who, "index_put", [&] {
    return invoke(op, {a.x, v, ids}, a.attrs(checked(who, o.mode)), o.inplace ? a.x : Tensor());
  });
  if (!o.inplace) return detail::reshape_exact(y, x.shape());
  if (!y.shares_memory_with(x)) detail::reshape_exact(y, x.shape()).copyto(x);
  return x;
} catch (const Error&) {
  detail::rethrow_as("put_along_axis", from);
}

namespace {

// Indices (M, ...) as M index tensors of one op, for the first M axes of a tensor of this rank.
struct Coordinates {
  Tensors ids;
  TakeAttrs attrs;

  Coordinates(const char* who, const Tensor& indices, int rank, IndexMode mode) {
    detail::expect_tensor(who, indices, "indices");
    expect_integers(who, indices);
    const int64_t n = indices.ndim() > 0 ? indices.shape()[0] : 0;
    if (n < 1 || n > rank)
      throw ShapeError(who, ": indices ", describe(indices), ": expected shape (M, ...) with 1 to ",
                       rank, " coordinates along the first axis");
    attrs.n_axes = static_cast<int8_t>(n);
    attrs.mode = checked(who, mode);
    for (int k = 0; k < n; ++k) {
      attrs.axes[k] = static_cast<int8_t>(k);
      ids.push_back(indices[k]);
    }
  }
  std::vector<Ref> refs(std::initializer_list<Ref> first) const {
    std::vector<Ref> all(first);
    all.insert(all.end(), ids.begin(), ids.end());
    return all;
  }
};

}  // namespace

Tensor gather_nd(const Tensor& x, const Tensor& indices, const GatherOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<TakeAttrs> op("take");
  detail::expect_tensor("gather_nd", x);
  const Coordinates c("gather_nd", indices, x.ndim(), o.mode);
  return named("gather_nd", "take", [&] { return invoke(op, c.refs({x}), c.attrs); });
} catch (const Error&) {
  detail::rethrow_as("gather_nd", from);
}

Tensor scatter_nd(const Tensor& values, const Tensor& indices, const Shape& shape,
                  const ScatterOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<TakeAttrs> put("index_put"), add("index_add");
  const char* const who = "scatter_nd";
  detail::expect_tensor(who, values, "values");
  const Meta whole = make_meta(values.dtype(), shape);
  const Coordinates c(who, indices, whole.rank, o.mode);
  Meta wanted = whole;
  for (int k = 0; k < c.attrs.n_axes; ++k) wanted = without_axis(wanted, 0);
  for (int i = c.ids[0].ndim(); i-- > 0;) wanted = with_axis(wanted, 0, c.ids[0].shape()[i]);
  if (values.shape() != Shape(wanted))
    throw ShapeError(who, ": values ", describe(values), ", indices ", describe(indices),
                     ": expected values of shape ", Shape(wanted), " for a result of shape ",
                     shape);
  const Tensor x = detail::broadcast_zeros(shape, values.context(), values.dtype());
  const Op& op = o.accumulate ? add : put;
  return named(who, op.name.c_str(), [&] { return invoke(op, c.refs({x, values}), c.attrs); });
} catch (const Error&) {
  detail::rethrow_as("scatter_nd", from);
}

Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
                 const IndexAddOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<TakeAttrs> op("index_add");
  const char* const who = "index_add";
  detail::expect_tensor(who, x);
  detail::expect_tensor(who, index, "index");
  detail::expect_tensor(who, source, "source");
  expect_integers(who, index);
  const int at = detail::axis_of(x, axis, who);
  if (index.ndim() > 1)
    throw ShapeError(who, ": index ", describe(index), ": expected at most one axis");
  const Shape wanted = with_length(x.shape(), at, index.size());
  if (source.shape() != wanted)
    throw ShapeError(who, ": data ", describe(x), ", index ", describe(index), ", source ",
                     describe(source), ": expected a source of shape ", wanted);
  if (source.dtype() != x.dtype())
    throw DTypeError(who, ": data ", describe(x), ", source ", describe(source),
                     ": expected one dtype; cast the source: source.astype(", name(x.dtype()), ")");
  const double alpha = o.alpha.floating();
  if (!is_floating(x.dtype()) && alpha != std::trunc(alpha))
    throw ValueError(who, ": alpha ", alpha, " for data ", describe(x), ": expected an integer");
  check_fits(who, x.dtype(), o.alpha);
  Tensor values = source;
  if (alpha != 1) {
    values = source * full(Shape{}, o.alpha, {source.context(), source.dtype()});
    if (values.dtype() != x.dtype()) values = cast(values, x.dtype());
  }
  const Tensor ids = index.ndim() == 0 ? expand_dims(index, 0) : index;
  const TakeAttrs a{1, {static_cast<int8_t>(at)}, static_cast<int8_t>(at), checked(who, o.mode), 0};
  return invoke(op, {x, values, ids}, a, o.out);
} catch (const Error&) {
  detail::rethrow_as("index_add", from);
}

namespace {

// The positions of a mask that covers axes of x from `axis` on.
Tensors mask_positions(const char* who, const Tensor& x, int axis, const Tensor& mask,
                       Caller from) {
  const int n = mask.ndim();
  bool fits = n > 0 && axis + n <= x.ndim();
  for (int i = 0; fits && i < n; ++i) fits = mask.shape()[i] == x.shape()[axis + i];
  if (!fits)
    throw IndexError(who, ": mask ", describe(mask), " at axis ", axis, " of data ", describe(x),
                     ": expected the lengths of the axes that it covers");
  return nonzero(mask, from);
}

}  // namespace

Tensor index_put(const Tensor& x, const Tensors& indices, const Operand& values,
                 const IndexPutOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<TakeAttrs> put("index_put"), add("index_add");
  const char* const who = "index_put";
  detail::expect_tensor(who, x);
  TakeAttrs a{0, {}, 0, checked(who, o.mode), 0};
  Tensors ids;
  int axis = 0;
  bool adjacent = true;
  const auto index = [&](const Tensor& t) {
    adjacent = adjacent && (a.n_axes == 0 || a.axes[a.n_axes - 1] == axis - 1);
    if (axis >= x.ndim() || a.n_axes == kMaxRank)
      throw IndexError(who, ": more indices than axes for data ", describe(x),
                       "; expected at most ", x.ndim());
    a.axes[a.n_axes++] = static_cast<int8_t>(axis++);
    ids.push_back(t);
  };
  for (const Tensor& t : indices) {
    if (!t.defined()) {
      ++axis;
    } else if (t.dtype() == bool_) {
      for (const Tensor& positions : mask_positions(who, x, axis, t, from)) index(positions);
    } else {
      expect_integers(who, t);
      index(t);
    }
  }
  if (ids.empty())
    throw IndexError(who, ": data ", describe(x), ": expected at least one index tensor");
  a.at = adjacent ? a.axes[0] : int8_t{0};
  const Shape common = detail::broadcast_all(who, "indices", ids);
  DType dtype = ids[0].dtype();
  for (const Tensor& t : ids)
    if (t.dtype() != dtype) dtype = i64;
  Meta wanted = make_meta(x.dtype(), x.shape());
  for (int k = a.n_axes; k-- > 0;) wanted = without_axis(wanted, a.axes[k]);
  for (int i = 0; i < common.rank(); ++i) wanted = with_axis(wanted, a.at + i, common[i]);
  const Tensor v = spread(who, "values", values_for(who, x, values), Shape(wanted));
  for (Tensor& t : ids) {
    if (t.dtype() != dtype) t = cast(t, dtype);
    t = spread(who, "indices", t, common);
  }
  std::vector<Ref> refs{x, v};
  refs.insert(refs.end(), ids.begin(), ids.end());
  const auto call = [&](const Op& op) { return invoke(op, refs, a, o.out); };
  if (!o.accumulate) return call(put);
  return named(who, "index_add", [&] { return call(add); });
} catch (const Error&) {
  detail::rethrow_as("index_put", from);
}

}  // namespace locus
