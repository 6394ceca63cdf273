// Inference, gradients and samples of the ops that add elements of an axis.
#include <locus/core/error.h>
#include <locus/core/op.h>
#include <locus/ops/create.h>
#include <locus/ops/rearrange/rearrange_parts.h>

namespace locus {
namespace {

// The result has `length` elements along the axis.
template <class M>
DType infer_axis(std::span<const Meta> in, const M& map, std::span<Meta> out) {
  const int axis = map.axis;
  if (axis < 0 || axis >= in[0].rank) throw ShapeError("expected data with axis ", axis);
  const int64_t n = in[0].shape[axis];
  if (map.length < 0 || (map.length == 0) != (n == 0))
    throw ShapeError("cannot make ", map.length, " elements of ", n, " along axis ", axis);
  out[0] = in[0];
  out[0].shape[axis] = map.length;
  return in[0].dtype;
}

DType infer_pad_grad(std::span<const Meta> in, const PadGrad& map, std::span<Meta> out) {
  infer_axis(in, map, out);
  if (map.rule == PadRule::constant || map.before < 0 ||
      map.before > in[0].shape[map.axis] - map.length)
    throw ValueError("expected the widths of a pad that repeats elements");
  return in[0].dtype;
}

template <class M>
DType infer_positions(std::span<const Meta> in, const M& map, std::span<Meta> out) {
  const DType d = infer_axis(in, map, out);
  detail::expect_positions(in[0].shape[map.axis], map.length, map.axis);
  return d;
}

Tensors pad_grad_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<Pad> op(Pad::kName);
  const PadGrad& map = saved.attrs<PadGrad>();
  Pad pad;
  pad.rule = map.rule;
  pad.before[map.axis] = map.before;
  pad.after[map.axis] = saved.in_meta(0).shape[map.axis] - map.before - map.length;
  return {invoke(op, {dout[0]}, pad)};
}

Tensors nearest_grad_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<Nearest> op(Nearest::kName);
  Nearest nearest;
  const Meta& m = saved.in_meta(0);
  for (int a = 0; a < m.rank; ++a) nearest.size[a] = m.shape[a];
  return {invoke(op, {dout[0]}, nearest)};
}

// Each is the other's gradient.
template <class Map, class Other>
Tensors linear_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<Other> op(std::is_same_v<Other, Linear> ? "resize_linear" : LinearGrad::kName);
  const Map& map = saved.attrs<Map>();
  Other other;
  other.length = saved.in_meta(0).shape[map.axis];
  other.axis = map.axis;
  other.align_corners = map.align_corners;
  return {invoke(op, {dout[0]}, other)};
}

DType infer_columns(std::span<const Meta> in, const Columns& c, std::span<Meta> out) {
  const int axes = in[0].rank / 2 - 1;
  bool fits = in[0].rank % 2 == 0 && axes >= 1 && axes <= 3;
  out[0] = Meta{in[0].dtype, static_cast<int8_t>(2 + axes), {in[0].shape[0], in[0].shape[1]}};
  for (int s = 0; fits && s < axes; ++s) {
    out[0].shape[2 + s] = c.size[s];
    fits = in[0].shape[2 + s] == c.kernel[s] &&
           in[0].shape[2 + axes + s] == detail::window_count(c.size[s], c, s);
  }
  if (!fits) throw ShapeError("expected the windows of a tensor of the result's shape");
  return in[0].dtype;
}

Tensors columns_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<Windows> op(Windows::kName);
  return {invoke(op, {dout[0]}, static_cast<const Windows&>(saved.attrs<Columns>()))};
}

Samples pad_grad_samples(Context c, DType d) {
  const Tensor x = sample_values(c, d, {2, 13}), y = sample_values(c, d, {9, 2});
  return {Sample({x}, PadGrad{4, 3, 1, PadRule::reflect}),
          Sample({x}, PadGrad{2, 4, 1, PadRule::symmetric}),
          Sample({y}, PadGrad{1, 2, 0, PadRule::wrap}),
          Sample({y}, PadGrad{3, 4, 0, PadRule::edge})};
}
Samples nearest_grad_samples(Context c, DType d) {
  return {Sample({sample_values(c, d, {2, 7})}, NearestGrad{3, 1}),
          Sample({sample_values(c, d, {3, 2})}, NearestGrad{5, 0})};
}
template <class Map>
Samples linear_samples(Context c, DType d) {
  Samples all;
  const auto add = [&](const Shape& shape, int64_t length, int axis, bool corners) {
    Map map;
    map.length = length;
    map.axis = axis;
    map.align_corners = corners;
    all.push_back(Sample({sample_values(c, d, shape)}, map));
  };
  add({2, 4}, 7, 1, false);
  add({5, 3}, 3, 0, false);
  add({2, 3, 2}, 5, 1, true);
  add({4}, 1, 0, true);
  return all;
}
Samples columns_samples(Context c, DType d) {
  return {Sample({sample_values(c, d, {2, 2, 2, 3, 5, 2})},
                 Columns{{{}, {2, 3}, {1, 2}, {2, 1}, {1, 0}}, {5, 6}}),
          Sample({sample_values(c, d, {1, 2, 3, 5})}, Columns{{{}, {3}, {2}, {1}, {2}}, {7}})};
}

}  // namespace

void register_resample() {
  OpDef<PadGrad>(PadGrad::kName, {"dout"})
      .infer<&infer_pad_grad>()
      .gradient<&pad_grad_gradient>(Keep::none)
      .samples<&pad_grad_samples>();
  OpDef<NearestGrad>(NearestGrad::kName, {"dout"})
      .infer<&infer_positions<NearestGrad>>()
      .gradient<&nearest_grad_gradient>(Keep::none)
      .samples<&nearest_grad_samples>();
  OpDef<Linear>("resize_linear", {"data"})
      .infer<&infer_positions<Linear>>()
      .gradient<&linear_gradient<Linear, LinearGrad>>(Keep::none)
      .samples<&linear_samples<Linear>>();
  OpDef<LinearGrad>(LinearGrad::kName, {"dout"})
      .infer<&infer_positions<LinearGrad>>()
      .gradient<&linear_gradient<LinearGrad, Linear>>(Keep::none)
      .samples<&linear_samples<LinearGrad>>();
  OpDef<Columns>(Columns::kName, {"columns"})
      .infer<&infer_columns>()
      .gradient<&columns_gradient>(Keep::none)
      .samples<&columns_samples>();
}

}  // namespace locus
