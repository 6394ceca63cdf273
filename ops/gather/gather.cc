// The ops index_add and index_put. All other functions of ops/gather.h are made of ops.
#include <locus/core/op.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/index/index_parts.h>
#include <locus/ops/view.h>

namespace locus {

namespace {

std::vector<Ref> with_ids(std::initializer_list<Ref> first, const Saved& saved) {
  std::vector<Ref> all(first);
  for (int i = 2; i < saved.n_in(); ++i) all.emplace_back(saved.in(i));
  return all;
}

// Row numbers that kernels sort have 32 bits.
DType scatter_infer(std::span<const Meta> in, const TakeAttrs& a, std::span<Meta> out) {
  const DType d = detail::put_infer(in, a, out);
  if (const int64_t n = in[2].size(); n >= int64_t{1} << 32)
    throw ValueError("expected fewer than 2^32 indices, got ", n);
  return d;
}

Tensor taken_by(const Tensor& x, const Saved& saved) {
  static const OpRef<TakeAttrs> op("take");
  return invoke(op, with_ids({x}, saved), saved.attrs<TakeAttrs>());
}

Tensors index_add_gradient(const Saved& saved, std::span<const Tensor> dout) {
  Tensors grads(static_cast<size_t>(saved.n_in()));
  grads[0] = dout[0];
  if (saved.needs(1)) grads[1] = taken_by(dout[0], saved);
  return grads;
}

// 1 for each value that stays, 0 for those that a later value replaced.
Tensor stays(const Saved& saved) {
  static const OpRef<TakeAttrs> put("index_put");
  const TensorOptions number{saved.in_context(0), i64};
  const Tensor order = detail::reshape_exact(
      arange(static_cast<double>(saved.in_meta(1).size()), number), saved.in_shape(1));
  const Tensor marks = detail::broadcast_zeros(saved.in_shape(0), saved.in_context(0), i64);
  return taken_by(invoke(put, with_ids({marks, order}, saved), saved.attrs<TakeAttrs>()), saved) ==
         order;
}

Tensors index_put_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<TakeAttrs> put("index_put");
  Tensors grads(static_cast<size_t>(saved.n_in()));
  if (saved.needs(0)) {
    const Tensor none =
        detail::broadcast_zeros(saved.in_shape(1), dout[0].context(), dout[0].dtype());
    grads[0] = invoke(put, with_ids({dout[0], none}, saved), saved.attrs<TakeAttrs>());
  }
  if (saved.needs(1)) grads[1] = where(stays(saved), taken_by(dout[0], saved), 0);
  return grads;
}

Samples scatter_samples(Context c, DType d) {
  const auto v = [&](const Shape& s, int variant) {
    return sample_values(c, d, s, -2, 2, variant);
  };
  return {Sample({v({5, 3}, 0), v({4, 3}, 1), array({4, 0, -1, 4}, c)}, TakeAttrs{}),
          Sample({v({2, 4}, 0), v({2, 3}, 1), array({3, 0, -1}, {c, i32})}, TakeAttrs{1, {1}, 1}),
          Sample({v({2, 4, 3}, 0), v({2, 2, 2, 3}, 1), array({{3, 1}, {1, 1}}, {c, i32})},
                 TakeAttrs{1, {1}, 1}),
          Sample({v({2, 3, 4}, 0), v({2, 3, 2}, 1), array({3, 3}, c)}, TakeAttrs{1, {2}, 2}),
          Sample({v({5}, 0), v({3}, 1), array({9, 4, 2}, c)}, TakeAttrs{1, {0}, 0, 1}),
          Sample({v({5}, 0), v({3}, 1), array({8, -2, 1}, c)}, TakeAttrs{1, {0}, 0, 2}),
          Sample({v({3, 4}, 0), v({3}, 1), array({1, 2, 1}, c), array({3, 3, -1}, c)},
                 TakeAttrs{2, {0, 1}}),
          Sample({v({2, 3}, 0), v({2, 4}, 1), array({0, 2, -1, 0, 1, 1, 1, 0}, c).reshape({2, 4})},
                 TakeAttrs{1, {1}, 0, 0, 1})};
}

}  // namespace

void register_gather() {
  OpDef<TakeAttrs>("index_add", {"x", "values", "indices"})
      .inputs(3, Op::kAny)
      .infer<&scatter_infer>()
      .layout(Layout::rows)
      .over_input(0)
      .gradient<&index_add_gradient>(keep_inputs_from(2))
      .samples<&scatter_samples>();
  OpDef<TakeAttrs>("index_put", {"x", "values", "indices"})
      .inputs(3, Op::kAny)
      .infer<&scatter_infer>()
      .layout(Layout::rows)
      .over_input(0)
      .gradient<&index_put_gradient>(keep_inputs_from(2))
      .samples<&scatter_samples>();
}

}  // namespace locus
