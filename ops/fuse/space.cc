#include <locus/ops/fuse/space.h>

#include <algorithm>
#include <bit>

#include <locus/core/base/layout.h>

namespace locus::fusion {

using Form = Space::Form;

bool same_shape(const Meta& a, const Meta& b) {
  return a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape);
}

View broadcast_to(const View& v, const Meta& shape) {
  View wide = v;
  wide.meta.rank = shape.rank;
  for (int a = 0; a < shape.rank; ++a) {
    const int own = a - (shape.rank - v.meta.rank);
    wide.meta.shape[a] = shape.shape[a];
    wide.stride[a] = own < 0 || v.meta.shape[own] == 1 ? 0 : v.stride[own];
  }
  return wide;
}

std::optional<Form> Space::form_of(const Meta& m) const {
  if (same_shape(m, shape)) return Form::whole;
  const int outer = shape.rank - row_axes, common = std::min<int>(outer, m.rank);
  if (!std::equal(m.shape, m.shape + common, shape.shape)) return std::nullopt;
  if (m.rank == outer) return Form::squeezed;
  const bool ones =
      std::all_of(m.shape + common, m.shape + m.rank, [](int64_t length) { return length == 1; });
  if (m.rank == shape.rank && ones) return Form::kept;
  return std::nullopt;
}

View Space::place(View v, Form f) const {
  if (f == Form::squeezed)
    for (int a = 0; a < row_axes; ++a) {
      v.stride[v.meta.rank] = 0;
      v.meta.shape[v.meta.rank++] = 1;
    }
  return broadcast_to(v, shape);
}

int64_t Space::row_length() const {
  int64_t n = 1;
  for (int a = shape.rank - row_axes; a < shape.rank; ++a) n *= shape.shape[a];
  return n;
}

std::optional<int64_t> row_stride(const Space& space, const View& v) {
  int64_t stride = 0, length = 1;
  for (int a = space.shape.rank - 1; a >= space.shape.rank - space.row_axes; --a) {
    if (v.meta.shape[a] == 1) continue;
    if (length == 1)
      stride = v.stride[a];
    else if (v.stride[a] != stride * length)
      return std::nullopt;
    length *= v.meta.shape[a];
  }
  return stride;
}

Spaces::Spaces(const std::vector<Value>& values) : values_(values), of_(values.size()) {
  for (size_t i = 0; i < values.size(); ++i) of_[i] = space_of(values[i], static_cast<int>(i));
}

// A reduction's space is its operand's shape. Another value is in the space of the first operand
// that its kernel can compute.
const Space* Spaces::space_of(const Value& v, int index) {
  if (!v.computed()) return nullptr;
  if (v.kind == Value::Kind::reduction) {
    const Space own{v.from[0].view.meta, std::popcount(v.axes)};
    for (const auto& s : all_)
      if (same_shape(s->shape, own.shape) && s->row_axes == own.row_axes) return s.get();
    all_.push_back(std::make_unique<const Space>(own));
    return all_.back().get();
  }
  for (const Read& r : v.from) {
    const Space* const s = r.value < 0 ? nullptr : of(r.value);
    if (s && inlined(index, r, s)) return s;
  }
  return nullptr;
}

bool Spaces::inlined(int v, const Read& r, const Space* space) const {
  const Value &reader = values_[static_cast<size_t>(v)],
              &read = values_[static_cast<size_t>(r.value)];
  if (!reader.computed() || !read.computed()) return false;
  const Space* const from = of(r.value);
  if (!from) return is_broadcast(r.view, read.view);
  if (from != space) return false;
  const bool reduces = reader.kind == Value::Kind::reduction;
  const auto there = reduces ? Form::whole : space->form_of(reader.view.meta);
  if (!there) return false;
  const View a = space->place(r.view, *there),
             b = space->place(read.view, *space->form_of(read.view.meta));
  return a.data == b.data && same_layout(a, b);
}

}  // namespace locus::fusion
