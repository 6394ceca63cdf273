#include <locus/ops/join.h>

#include <algorithm>

#include <locus/core/base/at_line.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/devices/cpu.h>
#include <locus/ops/call_check.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/join/join_kernel.h>
#include <locus/ops/view.h>

namespace locus {

namespace {

DType concat_infer(std::span<const Meta> in, const ConcatAttrs& a, std::span<Meta> out) {
  out[0] = in[0];
  int64_t length = 0;
  for (const Meta& m : in) {
    bool fits = m.rank == in[0].rank && a.axis < m.rank;
    for (int i = 0; fits && i < m.rank; ++i) fits = i == a.axis || m.shape[i] == in[0].shape[i];
    if (!fits)
      throw ShapeError("expected equal ranks and equal lengths on every axis but ", a.axis);
    if (m.dtype != in[0].dtype) throw DTypeError("expected equal dtypes; cast one first");
    if (__builtin_add_overflow(length, m.shape[a.axis], &length))
      throw ShapeError("the lengths of axis ", a.axis, " add up past 2^63");
  }
  out[0].shape[a.axis] = length;
  return in[0].dtype;
}

Tensors concat_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const int axis = saved.attrs<ConcatAttrs>().axis;
  Tensors grads(static_cast<size_t>(saved.n_in()));
  int64_t begin = 0;
  for (int i = 0; i < saved.n_in(); ++i) {
    const int64_t end = begin + saved.in_meta(i).shape[axis];
    if (saved.needs(i))
      grads[static_cast<size_t>(i)] = slice_axis(dout[0], axis, Slice(begin, end));
    begin = end;
  }
  return grads;
}

DType stack_infer(std::span<const Meta> in, const ConcatAttrs& a, std::span<Meta> out) {
  const Meta& first = in[0];
  if (a.axis > first.rank) throw ShapeError("expected axis in [0, ", first.rank, "]");
  for (const Meta& m : in) {
    if (Shape(m) != Shape(first)) throw ShapeError("expected tensors of equal shapes");
    if (m.dtype != first.dtype) throw DTypeError("expected equal dtypes; cast one first");
  }
  out[0] = with_axis(first, a.axis, static_cast<int64_t>(in.size()));
  return first.dtype;
}

Tensors stack_gradient(const Saved& saved, std::span<const Tensor> dout) {
  std::vector<Index> at(static_cast<size_t>(saved.attrs<ConcatAttrs>().axis), Slice());
  Tensors grads(static_cast<size_t>(saved.n_in()));
  for (int i = 0; i < saved.n_in(); ++i) {
    if (!saved.needs(i)) continue;
    at.push_back(i);
    grads[static_cast<size_t>(i)] = detail::basic_index(dout[0], at);
    at.pop_back();
  }
  return grads;
}

auto values_of(Context c, DType d) {
  return [=](const Shape& s, int variant) { return sample_values(c, d, s, -2, 2, variant); };
}

Samples concat_samples(Context c, DType d) {
  const auto v = values_of(c, d);
  return {Sample({v({2, 3}, 0), v({2, 4}, 1), v({2, 1}, 2)}, ConcatAttrs{1}),
          Sample({v({3, 2, 5}, 0), v({1, 2, 5}, 1)}, ConcatAttrs{0}),
          Sample({v({7}, 0)}, ConcatAttrs{0}),
          Sample({v({2, 0, 3}, 0), v({2, 2, 3}, 1)}, ConcatAttrs{1})};
}

Samples stack_samples(Context c, DType d) {
  const auto v = values_of(c, d);
  return {Sample({v({2, 3}, 0), v({2, 3}, 1), v({2, 3}, 2)}, ConcatAttrs{1}),
          Sample({v({4}, 0), v({4}, 1)}, ConcatAttrs{0}), Sample({v({}, 0)}, ConcatAttrs{0})};
}

// Invokes op on the operands, cast to promote()'s dtype.
Tensor join(const Op& op, const Tensors& data, int axis, int new_axes) {
  if (data.empty()) throw ShapeError(op.name, ": expected at least one tensor");
  for (const Tensor& t : data) detail::expect_tensor(op.name.c_str(), t, "an operand");
  DType dtype = data[0].dtype();
  for (const Tensor& t : data) dtype = promote(dtype, t.dtype());
  Tensors casts;
  casts.reserve(data.size());
  std::vector<Ref> refs;
  refs.reserve(data.size());
  for (const Tensor& t : data)
    refs.emplace_back(t.dtype() == dtype ? t : casts.emplace_back(cast(t, dtype)));
  return invoke(op, refs, ConcatAttrs{detail::axis_of(data[0], axis, op.name, new_axes)});
}

}  // namespace

Tensor concat(const Tensors& data, const ConcatOptions& options, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<ConcatAttrs> op("concat");
  return join(op, data, options.axis, 0);
} catch (const Error&) {
  detail::rethrow_as("concat", from);
}
Tensor stack(const Tensors& data, const StackOptions& options, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<ConcatAttrs> op("stack");
  return join(op, data, options.axis, 1);
} catch (const Error&) {
  detail::rethrow_as("stack", from);
}

void register_join() {
  OpDef<ConcatAttrs>("concat")
      .inputs(1, Op::kAny)
      .infer<&concat_infer>()
      .layout(Layout::rows)
      .gradient<&concat_gradient>(Keep::none)
      .samples<&concat_samples>();
  OpDef<ConcatAttrs>("stack")
      .inputs(1, Op::kAny)
      .infer<&stack_infer>()
      .layout(Layout::rows)
      .gradient<&stack_gradient>(Keep::none)
      .samples<&stack_samples>();
}

}  // namespace locus
