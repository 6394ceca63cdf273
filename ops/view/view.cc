#include <locus/ops/view.h>

#include <algorithm>

#include <locus/core/base/at_line.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/devices/cpu.h>
#include <locus/ops/call_check.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/view/view_kernel.h>

namespace locus {

namespace {

// Finds strides that show `in` as `target`; false if there are none. Each group of axes of equal
// product must merge into one axis.
bool reshaped_strides(const View& in, const Meta& target, int64_t* stride) {
  row_major(target, stride);
  if (in.contiguous() || target.size() == 0) return true;
  int64_t shape[kMaxRank], from[kMaxRank];
  int rank = 0;
  for (int i = 0; i < in.meta.rank; ++i)
    if (in.meta.shape[i] != 1) {
      shape[rank] = in.meta.shape[i];
      from[rank++] = in.stride[i];
    }
  int i = 0, j = 0;
  while (i < rank || j < target.rank) {
    const int first_i = i, first_j = j;
    int64_t a = i < rank ? shape[i++] : 1, b = j < target.rank ? target.shape[j++] : 1;
    while (a != b) {
      if (a < b)
        a *= shape[i++];
      else
        b *= target.shape[j++];
    }
    for (int k = first_i; k + 1 < i; ++k)
      if (from[k] != from[k + 1] * shape[k + 1]) return false;
    int64_t s = i > first_i ? from[i - 1] : 1;
    for (int k = j - 1; k >= first_j; --k) {
      stride[k] = s;
      s *= target.shape[k];
    }
  }
  return true;
}

View reshape_view(const View& in, const ShapeAttrs& a) {
  if (in.meta.size() != a.target.size())
    throw ShapeError("expected ", a.target.size(), " elements for shape ", Shape(a.target));
  View v{in.data, a.target, {}};
  v.meta.dtype = in.meta.dtype;
  if (!reshaped_strides(in, v.meta, v.stride))
    throw ShapeError("its strides allow no view of shape ", Shape(a.target),
                     "; call reshape(), which copies then, or contiguous() first");
  return v;
}
View transpose_view(const View& in, const TransposeAttrs& a) {
  View v = in;
  for (int i = 0; i < in.meta.rank; ++i) {
    v.meta.shape[i] = in.meta.shape[a.axes[i]];
    v.stride[i] = in.stride[a.axes[i]];
  }
  return v;
}
View broadcast_to_view(const View& in, const ShapeAttrs& a) {
  if (!broadcasts_to(Shape(in.meta), Shape(a.target)))
    throw ShapeError("shape ", Shape(in.meta), " cannot be broadcast to shape ", Shape(a.target),
                     "; expected axes, from the last, of equal length or 1");
  return broadcast_view(in, a.target);
}
// Whether `length` elements from `begin`, `step` apart, lie in [0, n).
bool inside(int64_t begin, int64_t length, int64_t step, int64_t n) {
  const int64_t end = begin + (length - 1) * step;
  return length == 0 || (begin >= 0 && begin < n && end >= 0 && end < n);
}
View slice_view(const View& in, const SliceAttrs& a) {
  Meta m{in.meta.dtype, 0, {}};
  for (int i = 0; i < in.meta.rank; ++i) {
    if (!inside(a.begin[i], a.length[i], a.step[i], in.meta.shape[i]))
      throw IndexError(a.length[i], " elements from ", a.begin[i], " are out of bounds for axis ",
                       i, " with size ", in.meta.shape[i], "; expected a slice that lies in it");
    if (!(a.drop >> i & 1)) m.shape[m.rank++] = a.length[i];
  }
  return slice_of(in, m, a);
}

Tensors reshape_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {detail::reshape_exact(dout[0], saved.in_shape(0))};
}
Tensors transpose_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<TransposeAttrs> op("transpose");
  TransposeAttrs inverse;
  for (int8_t i = 0; i < saved.in_meta(0).rank; ++i)
    inverse.axes[saved.attrs<TransposeAttrs>().axes[i]] = i;
  return {invoke(op, {dout[0]}, inverse)};
}
Tensors broadcast_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<SumToAttrs> op("sum_to");
  return {invoke(op, {dout[0]}, SumToAttrs{make_meta(dout[0].dtype(), saved.in_shape(0))})};
}
Tensors slice_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<SliceGradAttrs> op("slice_grad");
  return {invoke(op, {dout[0]}, {saved.attrs<SliceAttrs>(), saved.in_meta(0)})};
}

DType slice_grad_infer(std::span<const Meta> in, const SliceGradAttrs& a, std::span<Meta> out) {
  int n = 0;
  bool fits = true;
  for (int i = 0; fits && i < a.base.rank; ++i) {
    const bool drop = a.drop >> i & 1;
    fits = drop || n < in[0].rank;
    if (fits) fits = inside(a.begin[i], drop ? 1 : in[0].shape[n++], a.step[i], a.base.shape[i]);
  }
  if (!fits || n != in[0].rank)
    throw ShapeError("expected the shape of a slice of ", Shape(a.base));
  out[0] = a.base;
  out[0].dtype = in[0].dtype;
  return in[0].dtype;
}
Tensors slice_grad_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<SliceAttrs> op("slice");
  const SliceGradAttrs& g = saved.attrs<SliceGradAttrs>();
  SliceAttrs a{g, {}};
  for (int i = 0, n = 0; i < g.base.rank; ++i)
    a.length[i] = g.drop >> i & 1 ? 1 : saved.in_meta(0).shape[n++];
  return {invoke(op, {dout[0]}, a)};
}

Samples reshape_samples(Context c, DType d) {
  return {Sample({sample_values(c, d, {4, 6})}, ShapeAttrs{make_meta(d, Shape{2, 12})}),
          Sample({sample_values(c, d, {5})}, ShapeAttrs{make_meta(d, Shape{1, 5, 1})})};
}
Samples transpose_samples(Context c, DType d) {
  return {Sample({sample_values(c, d, {3, 4})}, TransposeAttrs{{1, 0}}),
          Sample({sample_values(c, d, {2, 3, 4})}, TransposeAttrs{{2, 0, 1}})};
}
Samples broadcast_samples(Context c, DType d) {
  return {Sample({sample_values(c, d, {3, 1})}, ShapeAttrs{make_meta(d, Shape{2, 3, 4})}),
          Sample({sample_values(c, d, {})}, ShapeAttrs{make_meta(d, Shape{3})})};
}
Samples slice_samples(Context c, DType d) {
  return {
      Sample({sample_values(c, d, {6, 5})}, SliceAttrs{{{1, 4}, {2, -3}, 0}, {3, 2}}),
      Sample({sample_values(c, d, {3, 4, 2})}, SliceAttrs{{{0, 2, 0}, {1, 1, 1}, 2}, {3, 1, 2}})};
}
Samples slice_grad_samples(Context c, DType d) {
  const Meta a = make_meta(d, Shape{6, 5}), b = make_meta(d, Shape{3, 4, 2});
  return {Sample({sample_values(c, d, {3, 2})}, SliceGradAttrs{{{1, 4}, {2, -3}, 0}, a}),
          Sample({sample_values(c, d, {3, 2})}, SliceGradAttrs{{{0, 2, 0}, {1, 1, 1}, 2}, b})};
}

}  // namespace

Tensor detail::reshape_exact(const Tensor& x, const Shape& shape) {
  static const OpRef<ShapeAttrs> op("reshape");
  const ShapeAttrs a{make_meta(x.dtype(), shape)};
  const View& v = x.impl().view;
  int64_t stride[kMaxRank];
  if (x.contiguous() || reshaped_strides(v, a.target, stride)) return invoke(op, {x}, a);
  return invoke(op, {contiguous(x)}, a);
}

Tensor reshape(const Tensor& x, const Shape& shape, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("reshape", x);
  const Meta& m = x.impl().view.meta;
  const int64_t size = m.size();
  int64_t dims[kMaxRank], known = 1;
  int unknown = -1;
  const bool infers = std::find(shape.begin(), shape.end(), -1) != shape.end();
  for (int i = 0; i < shape.rank(); ++i) {
    int64_t n = shape[i];
    if (n == 0 && (size > 0 || infers)) {
      if (i >= m.rank)
        throw ShapeError("reshape: ", describe(x), ": 0 copies axis ", i,
                         ", which the tensor does not have; got shape ", shape);
      n = m.shape[i];
    }
    if (n < -1 || (n == -1 && unknown >= 0))
      throw ShapeError("reshape: ", describe(x), ": expected lengths >= 0 and at most one -1, got ",
                       shape);
    dims[i] = n;
    if (n == -1)
      unknown = i;
    else if (__builtin_mul_overflow(known, n, &known))
      known = INT64_MAX;
  }
  if (unknown >= 0) dims[unknown] = known > 0 && size % known == 0 ? size / known : 0;
  const Shape target(dims, shape.rank());
  if (target.size() != size || (unknown >= 0 && known == 0))
    throw ShapeError("reshape: ", describe(x), ": Cannot reshape array of size ", size,
                     " into shape ", shape, "; expected lengths whose product is the size");
  return detail::reshape_exact(x, target);
} catch (const Error&) {
  detail::rethrow_as("reshape", from);
}

Tensor flatten(const Tensor& x, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("flatten", x);
  const Shape s = x.shape();
  const int64_t n = s.rank() == 0 ? 1 : s[0];
  int64_t rest = 1;
  for (int i = 1; i < s.rank(); ++i) rest *= s[i];
  return detail::reshape_exact(x, {n, rest});
} catch (const Error&) {
  detail::rethrow_as("flatten", from);
}

Tensor transpose(const Tensor& x, std::span<const int> axes, Caller from) try {
  detail::expect_tensor("transpose", x);
  static const OpRef<TransposeAttrs> op("transpose");
  const int rank = x.ndim();
  TransposeAttrs a;
  if (axes.empty()) {
    for (int i = 0; i < rank; ++i) a.axes[i] = static_cast<int8_t>(rank - 1 - i);
    return invoke(op, {x}, a);
  }
  unsigned seen = 0;
  if (static_cast<int>(axes.size()) == rank)
    for (int i = 0; i < rank; ++i) {
      const int axis = detail::axis_of(x, axes[static_cast<size_t>(i)], "transpose");
      a.axes[i] = static_cast<int8_t>(axis);
      seen |= 1u << axis;
    }
  if (static_cast<int>(axes.size()) != rank || seen != (1u << rank) - 1)
    throw ShapeError("transpose: ", describe(x), ": expected each of its ", rank,
                     " axes once, got ", listed(axes));
  return invoke(op, {x}, a);
} catch (const Error&) {
  detail::rethrow_as("transpose", from);
}
Tensor transpose(const Tensor& x, std::initializer_list<int> axes, Caller from) {
  return transpose(x, std::span<const int>(axes.begin(), axes.size()), from);
}

Tensor swapaxes(const Tensor& x, int64_t a, int64_t b, Caller from) try {
  detail::expect_tensor("swapaxes", x);
  int axes[kMaxRank];
  const int rank = x.ndim();
  for (int i = 0; i < rank; ++i) axes[i] = i;
  std::swap(axes[detail::axis_of(x, a, "swapaxes")], axes[detail::axis_of(x, b, "swapaxes")]);
  return transpose(x, std::span<const int>(axes, static_cast<size_t>(rank)));
} catch (const Error&) {
  detail::rethrow_as("swapaxes", from);
}

Tensor expand_dims(const Tensor& x, int64_t axis, Caller from) try {
  detail::expect_tensor("expand_dims", x);
  const int at = detail::axis_of(x, axis, "expand_dims", 1);
  if (x.ndim() == kMaxRank)
    throw ShapeError("expand_dims: ", describe(x), ": expected fewer than 8 axes");
  return detail::reshape_exact(x, Shape(with_axis(x.impl().view.meta, at, 1)));
} catch (const Error&) {
  detail::rethrow_as("expand_dims", from);
}

Tensor squeeze(const Tensor& x, Caller from) try {
  detail::expect_tensor("squeeze", x);
  Meta m = x.impl().view.meta;
  for (int axis = m.rank; axis-- > 0;)
    if (m.shape[axis] == 1) m = without_axis(m, axis);
  return detail::reshape_exact(x, Shape(m));
} catch (const Error&) {
  detail::rethrow_as("squeeze", from);
}
Tensor squeeze(const Tensor& x, int64_t axis, Caller from) try {
  detail::expect_tensor("squeeze", x);
  const Meta& m = x.impl().view.meta;
  const int at = detail::axis_of(x, axis, "squeeze");
  if (m.shape[at] != 1)
    throw ShapeError("squeeze: ", describe(x), ": expected length 1 at axis ", axis, ", got ",
                     m.shape[at]);
  return detail::reshape_exact(x, Shape(without_axis(m, at)));
} catch (const Error&) {
  detail::rethrow_as("squeeze", from);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape, Caller from) try {
  detail::expect_tensor("broadcast_to", x);
  static const OpRef<ShapeAttrs> op("broadcast_to");
  return invoke(op, {x}, ShapeAttrs{make_meta(x.dtype(), shape)});
} catch (const Error&) {
  detail::rethrow_as("broadcast_to", from);
}

Tensor Tensor::reshape(const Shape& shape, Caller from) const {
  return locus::reshape(*this, shape, from);
}
Tensor Tensor::T(Caller from) const try {
  return ndim() < 2 ? *this : locus::transpose(*this, {});
} catch (const Error&) {
  rethrow_at(from);
}

Tensor Tensor::transpose(std::span<const int> axes, Caller from) const {
  return locus::transpose(*this, axes, from);
}
Tensor Tensor::transpose(std::initializer_list<int> axes, Caller from) const {
  return locus::transpose(*this, axes, from);
}
void register_view() {
  OpDef<ShapeAttrs>("reshape", {"data"})
      .view<&reshape_view>()
      .gradient<&reshape_gradient>(Keep::none)
      .samples<&reshape_samples>();
  OpDef<TransposeAttrs>("transpose", {"data"})
      .view<&transpose_view>()
      .gradient<&transpose_gradient>(Keep::none)
      .samples<&transpose_samples>();
  OpDef<ShapeAttrs>("broadcast_to", {"data"})
      .view<&broadcast_to_view>()
      .gradient<&broadcast_gradient>(Keep::none)
      .samples<&broadcast_samples>();
  OpDef<SliceAttrs>("slice", {"data"})
      .view<&slice_view>()
      .gradient<&slice_gradient>(Keep::none)
      .samples<&slice_samples>();
  OpDef<SliceGradAttrs>("slice_grad", {"dout"})
      .infer<&slice_grad_infer>()
      .layout(Layout::rows)
      .gradient<&slice_grad_gradient>(Keep::none)
      .samples<&slice_grad_samples>();
}

}  // namespace locus
