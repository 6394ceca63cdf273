#include <locus/ops/index.h>

#include <algorithm>

#include <locus/core/memory/storage.h>
#include <locus/core/op.h>
#include <locus/devices/cpu.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/index/index_kernel.h>
#include <locus/ops/index/index_parts.h>
#include <locus/ops/view.h>

namespace locus {

namespace {

using detail::check_ids;
using detail::expect_shape;
using detail::kIdDTypes;
using detail::taken;

DType take_infer(std::span<const Meta> in, const TakeAttrs& a, std::span<Meta> out) {
  check_ids(in.subspan(1), in[0], a);
  out[0] = taken(in[0], in[1], a);
  return in[0].dtype;
}

Tensors take_gradient(const Saved& saved, std::span<const Tensor> dout) {
  std::vector<Ref> ids;
  for (int i = 1; i < saved.n_in(); ++i) ids.emplace_back(saved.in(i));
  Tensors grads(static_cast<size_t>(saved.n_in()));
  grads[0] = detail::add_to_zeros(saved.in_shape(0), dout[0], ids, saved.attrs<TakeAttrs>(),
                                  saved.place(0));
  return grads;
}

void check_picks(const Meta& ids, const Meta& picks, int64_t length) {
  if (!is_id_dtype(ids.dtype)) throw DTypeError(kIdDTypes);
  if (ids.size() != picks.size())
    throw ShapeError("expected one index for each place of the other axes, shape ", Shape(picks));
  if (length == 0 && ids.size() > 0)
    throw IndexError("cannot pick from an axis of length 0; expected no ids");
}

DType pick_infer(std::span<const Meta> in, const PickAttrs& a, std::span<Meta> out) {
  if (in[0].rank <= a.axis) throw ShapeError("expected data with more axes");
  out[0] = without_axis(in[0], a.axis);
  if (a.keepdims) out[0] = with_axis(out[0], a.axis, 1);
  check_picks(in[1], out[0], in[0].shape[a.axis]);
  return in[0].dtype;
}

DType pick_grad_infer(std::span<const Meta> in, const PickAttrs& a, std::span<Meta> out) {
  if (a.keepdims && in[0].shape[a.axis] != 1)
    throw ShapeError("expected length 1 at axis ", a.axis);
  out[0] = with_axis(a.keepdims ? without_axis(in[0], a.axis) : in[0], a.axis, a.length);
  check_picks(in[1], in[0], a.length);
  return in[0].dtype;
}

Tensors pick_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<PickAttrs> op("pick_grad");
  PickAttrs a = saved.attrs<PickAttrs>();
  a.length = saved.in_meta(0).shape[a.axis];
  return {invoke(op, {dout[0], saved.in(1)}, a), {}};
}

Tensors pick_grad_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<PickAttrs> op("pick");
  return {invoke(op, {dout[0], saved.in(1)}, saved.attrs<PickAttrs>()), {}};
}

DType one_hot_infer(std::span<const Meta> in, const OneHotAttrs& a, std::span<Meta> out) {
  if (!is_id_dtype(in[0].dtype)) throw DTypeError(kIdDTypes);
  out[0] = with_axis(in[0], in[0].rank, a.depth);
  for (double v : {a.on, a.off}) detail::check_number("", v, a.dtype);
  return out[0].dtype = a.dtype;
}

void check_mask(const Meta& mask, const Meta* offsets, int64_t count) {
  if (mask.dtype != bool_) throw DTypeError("expected a mask in bool");
  if (!offsets) return;
  if (offsets->dtype != i64) throw DTypeError("expected the mask_offsets of the mask, in i64");
  const Shape wanted{mask_tiles(mask.size()) + 1};
  if (Shape(*offsets) != wanted || count < 0 || count > mask.size())
    throw ShapeError("expected the mask_offsets of the mask, of shape ", wanted,
                     ", and their last number as count");
}

DType mask_offsets_infer(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  check_mask(in[0], nullptr, 0);
  out[0] = make_meta(i64, Shape{mask_tiles(in[0].size()) + 1});
  return in[0].dtype;
}

DType mask_indices_infer(std::span<const Meta> in, const MaskAttrs& a, std::span<Meta> out) {
  check_mask(in[0], &in[1], a.count);
  out[0] = make_meta(i64, Shape{a.count});
  return in[0].dtype;
}

DType mask_select_infer(std::span<const Meta> in, const MaskAttrs& a, std::span<Meta> out) {
  check_mask(in[1], &in[2], a.count);
  expect_shape(in[1], "a mask", Shape(in[0]));
  out[0] = make_meta(in[0].dtype, Shape{a.count});
  return in[0].dtype;
}

DType mask_select_grad_infer(std::span<const Meta> in, const MaskAttrs& a, std::span<Meta> out) {
  check_mask(in[1], &in[2], a.count);
  expect_shape(in[0], "dout", Shape{a.count});
  out[0] = in[1];
  return out[0].dtype = in[0].dtype;
}

// These two are linear, and each is the other's gradient.
Tensors mask_select_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<MaskAttrs> op("mask_select_grad");
  return {invoke(op, {dout[0], saved.in(1), saved.in(2)}, saved.attrs<MaskAttrs>()), {}, {}};
}
Tensors mask_select_grad_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<MaskAttrs> op("mask_select");
  return {invoke(op, {dout[0], saved.in(1), saved.in(2)}, saved.attrs<MaskAttrs>()), {}, {}};
}

DType mask_fill_infer(std::span<const Meta> in, const MaskFillAttrs&, std::span<Meta> out) {
  check_mask(in[1], nullptr, 0);
  expect_shape(in[1], "a mask", Shape(in[0]));
  out[0] = in[0];
  return in[0].dtype;
}

Tensor along_ids(Context c) {
  return array({0, 3, 3, 0, -1, 1, 2, 2, -4, 1, 2, 1}, c).reshape({2, 3, 2});
}

Samples take_samples(Context c, DType d) {
  const Tensor rows = array({1, 2, 1}, c), columns = array({3, 0, 3}, c);
  return {Sample({sample_values(c, d, {5, 3}), array({4, 0, 4, -1}, c)}, TakeAttrs{}),
          Sample({sample_values(c, d, {2, 4, 3}), array({{3, 1, 1}, {0, -4, 2}}, {c, i32})},
                 TakeAttrs{1, {1}, 1}),
          Sample({sample_values(c, d, {7}), array({9, -3, 2}, c)}, TakeAttrs{1, {0}, 0, 1}),
          Sample({sample_values(c, d, {7}), array({9, -3, 2}, c)}, TakeAttrs{1, {0}, 0, 2}),
          Sample({sample_values(c, d, {3, 4}), rows, columns}, TakeAttrs{2, {0, 1}}),
          Sample({sample_values(c, d, {2, 4, 2}), along_ids(c)}, TakeAttrs{1, {1}, 0, 0, 1})};
}

// Distinct places: of two values for one place, either may stay.
Samples put_samples(Context c, DType d) {
  const auto v = [&](const Shape& s, int variant) {
    return sample_values(c, d, s, -2, 2, variant);
  };
  return {
      Sample({v({5, 3}, 0), v({2, 3}, 1), array({4, 0}, c)}, TakeAttrs{}),
      Sample({v({2, 4}, 0), v({2, 3}, 1), array({3, 0, -2}, {c, i32})}, TakeAttrs{1, {1}, 1}),
      Sample({v({5}, 0), v({3}, 1), array({9, -4, 2}, c)}, TakeAttrs{1, {0}, 0, 1}),
      Sample({v({5}, 0), v({3}, 1), array({8, -5, 1}, c)}, TakeAttrs{1, {0}, 0, 2}),
      Sample({v({3, 4}, 0), v({2}, 1), array({1, 2}, c), array({3, 3}, c)}, TakeAttrs{2, {0, 1}}),
      Sample({v({2, 3}, 0), v({2, 2}, 1), array({{2, 0}, {1, -1}}, c)},
             TakeAttrs{1, {1}, 0, 0, 1})};
}

Samples pick_samples(Context c, DType d) {
  return {Sample({sample_values(c, d, {3, 4}), array({1, 3, -4}, c)}, PickAttrs{1}),
          Sample({sample_values(c, d, {3, 4}), array({9, 3, -4}, c)}, PickAttrs{1, 1}),
          Sample({sample_values(c, d, {3, 4}), array({9, 3, -3}, c)}, PickAttrs{1, 2}),
          Sample({sample_values(c, d, {3, 2}), array({2, 0}, {c, i32})}, PickAttrs{0, 0, 1})};
}

Samples pick_grad_samples(Context c, DType d) {
  return {Sample({sample_values(c, d, {3}), array({1, 3, 0}, c)}, PickAttrs{1, 0, 0, 4}),
          Sample({sample_values(c, d, {3}), array({9, 3, -4}, c)}, PickAttrs{1, 1, 0, 4}),
          Sample({sample_values(c, d, {3}), array({9, 3, -3}, c)}, PickAttrs{1, 2, 0, 4}),
          Sample({sample_values(c, d, {1, 2}), array({2, 0}, {c, i32})}, PickAttrs{0, 0, 1, 3})};
}

Samples one_hot_samples(Context c, DType d) {
  return {Sample({array({1, 0, 3, -1, 4}, c)}, OneHotAttrs{4, 1, 0, d}),
          Sample({array({{1}, {0}}, {c, i32})}, OneHotAttrs{3, 2, -1, d == u8 ? i32 : d}),
          Sample({array({1, 2}, c)}, OneHotAttrs{3, 5, 2, d == i32 ? f32 : i32})};
}

// Masks and their offsets: one tile, and two tiles.
std::vector<Tensors> sample_masks(Context c) {
  static const OpRef<> op("mask_offsets");
  std::vector<Tensors> all;
  for (const Shape& s : {Shape{3, 5}, Shape{kMaskTile + 100}}) {
    std::vector<int64_t> bits(static_cast<size_t>(s.size()));
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = i * i % 7 == 2;
    const Tensor mask = cast(array(bits, s, {c, i64}), bool_);
    all.push_back({mask, invoke(op, {mask})});
  }
  return all;
}
MaskAttrs count_of(const Tensors& m) { return {m[1][-1].item<int64_t>()}; }

// A sample per mask. `inputs` makes its inputs from mask and offsets.
Samples over_masks(Context c, const auto& inputs) {
  Samples s;
  for (const Tensors& m : sample_masks(c)) s.emplace_back(inputs(m), count_of(m));
  return s;
}
Samples mask_offsets_samples(Context c, DType) {
  Samples s;
  for (const Tensors& m : sample_masks(c)) s.push_back({Tensors{m[0]}});
  return s;
}
Samples mask_indices_samples(Context c, DType) {
  return over_masks(c, [](const Tensors& m) { return m; });
}
Samples mask_select_samples(Context c, DType d) {
  return over_masks(c, [&](const Tensors& m) {
    return Tensors{sample_values(c, d, m[0].shape()), m[0], m[1]};
  });
}
Samples mask_select_grad_samples(Context c, DType d) {
  return over_masks(c, [&](const Tensors& m) {
    return Tensors{sample_values(c, d, {count_of(m).count}), m[0], m[1]};
  });
}

Samples mask_fill_samples(Context c, DType d) {
  return {Sample({sample_values(c, d, {3, 5}), sample_masks(c)[0][0]}, MaskFillAttrs{1}),
          Sample({sample_values(c, d, {3, 5}), sample_masks(c)[0][0]},
                 MaskFillAttrs{is_floating(d) ? Scalar(.3) : Scalar(0)})};
}

}  // namespace

void register_index() {
  OpDef<TakeAttrs>("take", {"data", "ids"})
      .inputs(2, Op::kAny)
      .infer<&take_infer>()
      .layout(Layout::rows)
      .gradient<&take_gradient>(keep_inputs_from(1))
      .samples<&take_samples>();
  OpDef<TakeAttrs>("put", {"target", "values", "ids"})
      .inputs(3, Op::kAny)
      .infer<&detail::put_infer>()
      .layout(Layout::rows)
      .in_place()
      .no_gradient("writes in place")
      .samples<&put_samples>();
  OpDef<PickAttrs>("pick", {"data", "ids"})
      .infer<&pick_infer>()
      .gradient<&pick_gradient>(keep_input(1))
      .samples<&pick_samples>();
  OpDef<PickAttrs>("pick_grad", {"dout", "ids"})
      .infer<&pick_grad_infer>()
      .gradient<&pick_grad_gradient>(keep_input(1))
      .samples<&pick_grad_samples>();
  OpDef<OneHotAttrs>("one_hot", {"ids"})
      .infer<&one_hot_infer>()
      .no_gradient("its input is an index")
      .samples<&one_hot_samples>();
  const char* by_data =
      "how many elements a mask selects depends on its data, and the host reads it";
  OpDef<>("mask_offsets", {"mask"})
      .no_capture(by_data)
      .infer<&mask_offsets_infer>()
      .no_gradient("its input is a mask")
      .samples<&mask_offsets_samples>();
  OpDef<MaskAttrs>("mask_indices", {"mask", "offsets"})
      .no_capture(by_data)
      .infer<&mask_indices_infer>()
      .no_gradient("its input is a mask")
      .samples<&mask_indices_samples>();
  OpDef<MaskAttrs>("mask_select", {"data", "mask", "offsets"})
      .no_capture(by_data)
      .infer<&mask_select_infer>()
      .gradient<&mask_select_gradient>(Keep::inputs)
      .samples<&mask_select_samples>();
  OpDef<MaskAttrs>("mask_select_grad", {"dout", "mask", "offsets"})
      .no_capture(by_data)
      .infer<&mask_select_grad_infer>()
      .gradient<&mask_select_grad_gradient>(Keep::inputs)
      .samples<&mask_select_grad_samples>();
  OpDef<MaskFillAttrs>("mask_fill", {"target", "mask"})
      .infer<&mask_fill_infer>()
      .layout(Layout::rows)
      .in_place()
      .no_gradient("writes in place")
      .samples<&mask_fill_samples>();
}

}  // namespace locus
