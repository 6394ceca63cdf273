#include <locus/ops/join.h>

#include <algorithm>

#include <locus/core/op.h>
#include <locus/devices/cpu.h>
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
      throw ShapeError("expected equal ranks and equal lengths on every axis but " +
                       std::to_string(a.axis));
    if (m.dtype != in[0].dtype) throw DTypeError("expected equal dtypes; cast one first");
    length += m.shape[a.axis];
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

Samples concat_samples(Context c, DType d) {
  const auto v = [&](const Shape& s, int variant) {
    return sample_values(c, d, s, -2, 2, variant);
  };
  return {Sample({v({2, 3}, 0), v({2, 4}, 1), v({2, 1}, 2)}, ConcatAttrs{1}),
          Sample({v({3, 2, 5}, 0), v({1, 2, 5}, 1)}, ConcatAttrs{0}),
          Sample({v({7}, 0)}, ConcatAttrs{0}),
          Sample({v({2, 0, 3}, 0), v({2, 2, 3}, 1)}, ConcatAttrs{1})};
}

// x seen at `shape`, in memory of its own when that repeats elements.
Tensor merged(const Tensor& x, const Shape& broadcast, const Shape& shape) {
  return detail::reshape_exact(broadcast_to(x, broadcast), shape);
}

}  // namespace

Tensor concat(const Tensors& data, const ConcatOptions& options) {
  static const Op& op = get_op("concat");
  if (data.empty()) throw ShapeError("concat: expected at least one tensor");
  DType dtype = data[0].dtype();
  for (const Tensor& t : data) dtype = promote(dtype, t.dtype());
  Tensors casts;
  casts.reserve(data.size());
  std::vector<Ref> refs;
  refs.reserve(data.size());
  for (const Tensor& t : data) {
    if (t.dtype() == dtype) {
      refs.emplace_back(t);
    } else {
      casts.push_back(cast(t, dtype));
      refs.emplace_back(casts.back());
    }
  }
  return invoke(op, std::span<const Ref>(refs),
                ConcatAttrs{normalize_axis(options.axis, data[0].ndim(), "concat")});
}

Tensor stack(const Tensors& data, const StackOptions& options) {
  if (data.empty()) throw ShapeError("stack: expected at least one tensor");
  const int axis = normalize_axis(options.axis, data[0].ndim() + 1, "stack");
  Tensors expanded;
  for (const Tensor& t : data) {
    if (t.shape() != data[0].shape())
      throw ShapeError("stack: expected tensors of equal shapes, got " + describe(data[0]) +
                       " and " + describe(t));
    expanded.push_back(expand_dims(t, axis));
  }
  return concat(expanded, {axis});
}

Tensors split(const Tensor& x, int64_t sections, const SplitOptions& options) {
  const int axis = normalize_axis(options.axis, x.ndim(), "split");
  const int64_t n = x.shape()[axis];
  if (sections < 1 || n % sections != 0)
    throw ShapeError("split: " + describe(x) + ": axis " + std::to_string(axis) + " of length " +
                     std::to_string(n) + " cannot be split into " + std::to_string(sections) +
                     " equal parts; expected a divisor");
  const int64_t length = n / sections;
  Tensors parts;
  for (int64_t i = 0; i < sections; ++i) {
    parts.push_back(slice_axis(x, axis, Slice(i * length, (i + 1) * length)));
    if (options.squeeze_axis) parts.back() = squeeze(parts.back(), axis);
  }
  return parts;
}

Tensor tile(const Tensor& x, const Shape& reps) {
  Tensor t = x;
  while (t.ndim() < reps.rank()) t = expand_dims(t, 0);
  const int lead = t.ndim() - reps.rank();
  bool copied = false;
  for (int i = 0; i < reps.rank(); ++i) {
    const int64_t n = reps[i];
    if (n < 0) throw ShapeError("tile: expected repetitions >= 0, got " + to_string(reps));
    if (n == 1) continue;
    const int axis = lead + i;
    const Shape s = t.shape();
    std::vector<int64_t> wide(s.begin(), s.end()), result(wide);
    wide.insert(wide.begin() + axis, n);
    result[static_cast<size_t>(axis)] *= n;
    t = merged(expand_dims(t, axis), Shape(std::span<const int64_t>(wide)),
               Shape(std::span<const int64_t>(result)));
    copied = !t.shares_memory_with(x);
  }
  return copied ? t : copy(t);
}

Tensor repeat(const Tensor& x, int64_t n, int axis) {
  const int at = normalize_axis(axis, x.ndim(), "repeat");
  if (n < 0) throw ShapeError("repeat: expected n >= 0, got " + std::to_string(n));
  const Shape s = x.shape();
  std::vector<int64_t> wide(s.begin(), s.end()), result(wide);
  wide.insert(wide.begin() + at + 1, n);
  result[static_cast<size_t>(at)] *= n;
  const Tensor t = merged(expand_dims(x, at + 1), Shape(std::span<const int64_t>(wide)),
                          Shape(std::span<const int64_t>(result)));
  return t.shares_memory_with(x) ? copy(t) : t;
}

void register_join() {
  OpDef<ConcatAttrs>("concat")
      .inputs(1, Op::kAny)
      .infer<&concat_infer>()
      .layout(Layout::rows)
      .gradient<&concat_gradient>(Keep::none)
      .samples<&concat_samples>();
}

}  // namespace locus
