// take, pick, one_hot, nonzero, and Selection.
#include <algorithm>
#include <ostream>

#include <locus/core/base/at_line.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/index/counted.h>
#include <locus/ops/index/index_parts.h>
#include <locus/ops/view.h>

namespace locus {

struct SelectionAccess {
  const Tensor& base;
  const Tensors& ids;
  int at;
  Caller from;

  SelectionAccess(const Selection& s) : base(s.base_), ids(s.ids_), at(s.at_), from(s.from_) {}
  static Selection make(const Tensor& base, Tensors ids, int at, Caller from) {
    return {base, std::move(ids), at, from};
  }
};

namespace {

void check_mask(const Tensor& base, int axis, const Tensor& mask) {
  const Shape s = base.shape(), m = mask.shape();
  if (axis + m.rank() > s.rank())
    throw IndexError("too many indices for array: a mask of ", m.rank(), " axes for data ",
                     describe(base), "; expected at most ", s.rank() - axis);
  for (int i = 0; i < m.rank(); ++i)
    if (m[i] != s[axis + i])
      throw IndexError("index: data ", describe(base), ", mask ", describe(mask),
                       ": boolean index did not match indexed array along axis ", axis + i,
                       "; size of axis is ", s[axis + i],
                       " but size of corresponding boolean axis is ", m[i]);
}

// A selection as one take. Masks become positions; index tensors get one shape and dtype.
struct SelectionTake {
  Tensor base;
  Tensors ids;
  TakeAttrs attrs{0, {}, 0, 0};

  std::vector<Ref> refs(std::initializer_list<Ref> first) const {
    std::vector<Ref> all(first);
    all.insert(all.end(), ids.begin(), ids.end());
    return all;
  }
};

SelectionTake resolve(const SelectionAccess& s) {
  SelectionTake r{s.base, {}};
  int axis = 0;
  const auto add = [&](const Tensor& ids) {
    r.attrs.axes[r.attrs.n_axes++] = static_cast<int8_t>(axis++);
    r.ids.push_back(ids);
  };
  for (const Tensor& ids : s.ids) {
    if (!ids.defined()) {
      ++axis;
    } else if (ids.dtype() != bool_) {
      add(detail::integer_ids("index", ids));
    } else {
      check_mask(r.base, axis, ids);
      const Tensor flat = detail::CountedMask(ids, s.from).positions();
      const int n = ids.ndim();
      if (n == 0) r.base = expand_dims(r.base, axis);  // an axis of length 1, taken or not
      if (n <= 1) {
        add(flat);
      } else if (r.base.contiguous()) {  // the masked axes become one
        Meta merged = r.base.impl().view.meta;
        for (int i = 1; i < n; ++i) merged = without_axis(merged, axis + 1);
        merged.shape[axis] = ids.size();
        r.base = detail::reshape_exact(r.base, Shape(merged));
        add(flat);
      } else {
        const Tensor parts = detail::unravel(flat, ids.shape());
        for (int i = 0; i < n; ++i) add(parts[i]);
      }
    }
  }
  Shape common = r.ids[0].shape();
  DType dtype = r.ids[0].dtype();
  for (const Tensor& t : r.ids) {
    common = broadcast_shapes(common, t.shape());
    if (t.dtype() != dtype) dtype = is_floating(promote(dtype, t.dtype())) ? f64 : i64;
  }
  for (Tensor& t : r.ids) {
    if (t.dtype() != dtype) t = cast(t, dtype);
    if (t.shape() != common) t = broadcast_to(t, common);
  }
  r.attrs.at = static_cast<int8_t>(s.at);
  return r;
}

void put(SelectionTake r, const Tensor& given) {
  static const OpRef<TakeAttrs> op("put");
  for (Tensor& ids : r.ids)  // read while the target is written
    if (ids.shares_memory_with(r.base)) ids = copy(ids);
  const Shape wanted(detail::taken(r.base.impl().view.meta, r.ids[0].impl().view.meta, r.attrs));
  Tensor values = given.dtype() == r.base.dtype() ? given : cast(given, r.base.dtype());
  if (values.shares_memory_with(r.base)) values = copy(values);
  if (!broadcasts_to(values.shape(), wanted))
    throw ShapeError("shape mismatch: values ", describe(given),
                     " could not be broadcast to the indexed elements of shape ", wanted);
  if (values.shape() != wanted) values = broadcast_to(values, wanted);
  const Ref target(r.base);
  invoke_into(op, r.refs({target, values}), {&target, 1}, r.attrs);
}

// x[mask] = number: needs no positions and does not wait.
bool fill_mask(const SelectionAccess& s, const Scalar& value) {
  static const OpRef<MaskFillAttrs> op("mask_fill");
  int axis = -1, at = 0;
  Tensor mask;
  for (const Tensor& ids : s.ids) {
    if (ids.defined()) {
      if (mask.defined() || ids.dtype() != bool_) return false;
      mask = ids;
      axis = at;
    }
    ++at;
  }
  check_mask(s.base, axis, mask);
  check_fits("index", s.base.dtype(), value);
  const Shape shape = s.base.shape();
  if (mask.shape() != shape) {  // append axes of length 1; broadcast_to prepends others
    Meta wide = mask.impl().view.meta;
    while (wide.rank + axis < shape.rank()) wide = with_axis(wide, wide.rank, 1);
    mask = broadcast_to(detail::reshape_exact(mask, Shape(wide)), shape);
  }
  if (mask.shares_memory_with(s.base)) mask = copy(mask);  // read while the target is written
  invoke_into(op, {s.base, mask}, {s.base}, MaskFillAttrs{value});
  return true;
}

// x[...] op= values: gathers, changes, puts back.
void update(const Selection& s, const auto& change) try {
  const UserLine user_line(SelectionAccess(s).from);
  static const OpRef<TakeAttrs> op("take");
  const SelectionTake r = resolve(s);
  Tensor t = invoke(op, r.refs({r.base}), r.attrs);
  change(t);
  put(r, t);
} catch (const Error&) {
  rethrow_at(SelectionAccess(s).from);
}

Selection select(const Tensor& x, std::span<const Selector> items) try {
  std::vector<Index> basic;
  int covered = 0;
  Caller from;
  for (const Selector& item : items) {
    const bool mask = item.ids() && item.ids()->dtype() == bool_;
    const int n = mask ? item.ids()->ndim() : 1;
    for (int i = 0; i < n; ++i) basic.push_back(item.basic());
    const Index::Kind kind = item.basic().kind();
    covered += kind == Index::Kind::position || kind == Index::Kind::slice ? n : 0;
    if (!item.ids()) continue;
    if (!from.file) from = item.from();
    const Context a = x.context(), b = item.ids()->context();
    if (!mix(a, b))
      throw ContextMismatch("index: operands live on different contexts: data ", describe(x),
                            ", ids ", describe(*item.ids()), "; move one first: ids.as_in_context(",
                            a, ") or data.as_in_context(", b, ")");
  }
  Tensors ids;
  const int rest = x.ndim() - covered;
  bool plain = true;
  // If all indices (positions too) are adjacent: the number of the result's axes before them. Else
  // 0.
  int at = -1;
  bool ended = false;
  for (const Selector& item : items) {
    const Index::Kind kind = item.basic().kind();
    if (item.ids() || kind == Index::Kind::position) {
      at = ended ? 0 : at < 0 ? static_cast<int>(ids.size()) : at;
    } else {
      ended = at >= 0;
    }
    if (item.ids()) {
      ids.push_back(*item.ids());
      continue;
    }
    const Slice& slice = item.basic().slice();
    plain =
        plain && kind == Index::Kind::slice && !slice.start() && !slice.stop() && slice.step() == 1;
    if (kind == Index::Kind::slice || kind == Index::Kind::new_axis) ids.emplace_back();
    if (kind == Index::Kind::rest)
      for (int i = 0; i < rest; ++i) ids.emplace_back();
  }
  if (plain && covered <= x.ndim()) return SelectionAccess::make(x, std::move(ids), at, from);
  return SelectionAccess::make(detail::basic_index(x, basic), std::move(ids), at, from);
} catch (const Error&) {
  for (const Selector& item : items)
    if (item.ids()) rethrow_at(item.from());
  throw;
}

}  // namespace

Selection Tensor::operator[](At<Tensor> ids) const {
  const Selector item(ids.value, ids.from);
  return select(*this, {&item, 1});
}

Selection Tensor::operator()(const Selector& a, const Selector& b, const Selector& c,
                             const Selector& d, const Selector& e, const Selector& f,
                             const Selector& g, const Selector& h) const {
  const Selector items[] = {a, b, c, d, e, f, g, h};
  size_t n = 0;
  bool any = false;
  for (; n < std::size(items) && items[n].given(); ++n) any = any || items[n].ids();
  if (!any) throw IndexError("index: expected positions, slices and index tensors");
  return select(*this, {items, n});
}

Tensor::Tensor(const Selection& s) : Tensor(s.gather()) {}
Operand::Operand(const Selection& s, Caller from)
    : held_(s.gather()), tensor_(&held_), from_(from) {}

Tensor& Tensor::operator=(const Selection& values) && {
  return std::move(*this) = At<Tensor>(values.gather(), SelectionAccess(values).from);
}

Tensor Selection::gather() const try {
  const UserLine user_line(from_);
  static const OpRef<TakeAttrs> op("take");
  if (ids_.size() == 1 && ids_[0].dtype() == bool_ && ids_[0].shape() == base_.shape())
    return detail::CountedMask(ids_[0], from_).select(base_);
  const SelectionTake r = resolve(*this);
  return invoke(op, r.refs({r.base}), r.attrs);
} catch (const Error&) {
  rethrow_at(from_);
}

Selection& Selection::operator=(const Selection& values) try {
  const UserLine user_line(from_);
  put(resolve(*this), values.gather());
  return *this;
} catch (const Error&) {
  rethrow_at(from_);
}
void Selection::operator=(const Operand& values) && try {
  const UserLine user_line(from_);
  if (!values.is_scalar()) return put(resolve(*this), values.tensor());
  if (fill_mask(*this, values.scalar())) return;
  const SelectionTake r = resolve(*this);
  Tensor value = allocate(r.base.context(), make_meta(r.base.dtype(), Shape{}));
  std::move(value) = values.scalar();
  put(r, value);
} catch (const Error&) {
  rethrow_at(from_);
}
void Selection::operator+=(const Operand& values) && {
  update(*this, [&](Tensor& t) { t += values; });
}
void Selection::operator-=(const Operand& values) && {
  update(*this, [&](Tensor& t) { t -= values; });
}
void Selection::operator*=(const Operand& values) && {
  update(*this, [&](Tensor& t) { t *= values; });
}
void Selection::operator/=(const Operand& values) && {
  update(*this, [&](Tensor& t) { t /= values; });
}

std::ostream& operator<<(std::ostream& os, const Selection& s) {
  return os << At<Tensor>(s.gather(), SelectionAccess(s).from);
}

namespace {

uint8_t checked(const char* op, IndexMode mode) {
  if (mode > IndexMode::wrap)
    throw ValueError(op, ": mode ", static_cast<int>(mode),
                     "; expected IndexMode::raise, IndexMode::clip or IndexMode::wrap");
  return static_cast<uint8_t>(mode);
}

}  // namespace

Tensor take(const Tensor& x, const Tensor& ids, const TakeOptions& options, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("take", x);
  detail::expect_tensor("take", ids, "ids");
  static const OpRef<TakeAttrs> op("take");
  const int8_t axis = static_cast<int8_t>(detail::axis_of(x, options.axis, "take"));
  return invoke(op, {x, detail::integer_ids("take", ids)},
                TakeAttrs{1, {axis}, axis, checked("take", options.mode)});
} catch (const Error&) {
  detail::rethrow_as("take", from);
}
Tensor Tensor::take(const Tensor& ids, Caller from) const {
  return locus::take(*this, ids, {}, from);
}

Tensor pick(const Tensor& x, const Tensor& ids, const PickOptions& options, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("pick", x);
  detail::expect_tensor("pick", ids, "ids");
  static const OpRef<PickAttrs> op("pick");
  PickAttrs a;
  a.axis = static_cast<int8_t>(detail::axis_of(x, options.axis, "pick"));
  a.mode = checked("pick", options.mode);
  a.keepdims = options.keepdims;
  return invoke(op, {x, detail::integer_ids("pick", ids)}, a);
} catch (const Error&) {
  detail::rethrow_as("pick", from);
}

Tensor one_hot(const Tensor& ids, int64_t depth, const OneHotOptions& options, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("one_hot", ids, "ids");
  static const OpRef<OneHotAttrs> op("one_hot");
  if (depth < 0) throw ShapeError("one_hot: expected depth >= 0, got ", depth);
  return invoke(op, {detail::integer_ids("one_hot", ids)},
                OneHotAttrs{depth, options.on_value, options.off_value, options.dtype});
} catch (const Error&) {
  detail::rethrow_as("one_hot", from);
}

Tensors nonzero(const Tensor& x, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("nonzero", x);
  const Shape shape = x.ndim() == 0 ? Shape{1} : x.shape();
  const Tensor parts = detail::unravel(detail::CountedMask(x, from).positions(), shape);
  Tensors out;
  for (int i = 0; i < shape.rank(); ++i) out.push_back(parts[i]);
  return out;
} catch (const Error&) {
  detail::rethrow_as("nonzero", from);
}

}  // namespace locus
