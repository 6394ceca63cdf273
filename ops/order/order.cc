#include <locus/ops/order.h>

#include <algorithm>
#include <utility>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/core/tape/tape.h>
#include <locus/ops/call_check.h>
#include <locus/ops/create.h>
#include <locus/ops/index.h>
#include <locus/ops/index/take_walk.h>
#include <locus/ops/join.h>
#include <locus/ops/order/order_kernel.h>
#include <locus/ops/view.h>

namespace locus {

namespace {

// Shape inference

int64_t length_of(const Meta& m, int axis) {
  if (axis < 0 || axis >= m.rank)
    throw ShapeError("expected at least one axis, and axis in [0, ", m.rank, "), got ", axis);
  return m.shape[axis];
}

DType infer_sort(std::span<const Meta> in, const SortAttrs& a, std::span<Meta> out) {
  length_of(in[0], a.axis);
  out[0] = in[0];
  return in[0].dtype;
}
// Indices that kernels sort have 32 bits.
void expect_places(const Meta& m, int axis) {
  if (m.shape[axis] >= int64_t{1} << 32)
    throw ValueError("expected fewer than 2^32 elements along axis ", axis, ", got ",
                     m.shape[axis]);
}
DType infer_argsort(std::span<const Meta> in, const SortAttrs& a, std::span<Meta> out) {
  infer_sort(in, a, out);
  expect_places(in[0], a.axis);
  out[0].dtype = i64;
  return in[0].dtype;
}

DType infer_topk(std::span<const Meta> in, const TopkAttrs& a, std::span<Meta> out) {
  const int64_t n = length_of(in[0], a.axis);
  if (a.k < 0 || a.k > n)
    throw ValueError("expected k from 0 to the length of axis ", a.axis, ", ", n, ", got ", a.k);
  expect_places(in[0], a.axis);
  out[0] = in[0];
  out[0].shape[a.axis] = a.k;
  out[1] = out[0];
  out[1].dtype = i64;
  return in[0].dtype;
}

DType infer_partition(std::span<const Meta> in, const PartitionAttrs& a, std::span<Meta> out) {
  const int64_t n = length_of(in[0], a.axis);
  expect_places(in[0], a.axis);
  if (a.n < 1 || a.n > kMaxKth) throw ValueError("expected 1 to ", kMaxKth, " positions");
  for (int i = 0; i < a.n; ++i)
    if (a.kth[i] < 0 || a.kth[i] >= n)
      throw ValueError("expected kth from 0 to ", n - 1, ", got ", a.kth[i]);
  out[0] = in[0];
  return in[0].dtype;
}
DType infer_argpartition(std::span<const Meta> in, const PartitionAttrs& a, std::span<Meta> out) {
  infer_partition(in, a, out);
  out[0].dtype = i64;
  return in[0].dtype;
}

DType infer_select(std::span<const Meta> in, const PartitionAttrs& a, std::span<Meta> out) {
  infer_partition(in, a, out);
  for (int i = 1; i < a.n; ++i)
    if (a.kth[i] <= a.kth[i - 1]) throw ValueError("expected rising positions");
  out[0].shape[a.axis] = a.n;
  return in[0].dtype;
}

// Puts each element at its id in zeros. The ids of a row are distinct.
DType infer_scatter(std::span<const Meta> in, const ScatterAttrs& a, std::span<Meta> out) {
  const Meta &data = in[0], &ids = in[1];
  length_of(data, a.axis);
  if (a.length < 0) throw ShapeError("expected length >= 0, got ", a.length);
  if (ids.dtype != i64) throw DTypeError("expected ids of dtype i64, got ", name(ids.dtype));
  if (Shape(ids) != Shape(data)) throw ShapeError("expected ids of dout's shape");
  if (a.length == 0 && ids.size() > 0)
    throw IndexError("no index is inside an axis of length 0; expected no ids");
  out[0] = data;
  out[0].shape[a.axis] = a.length;
  return data.dtype;
}

// Gradients

Tensor gather(const Tensor& x, const Tensor& ids, int axis) {
  static const OpRef<TakeAttrs> op("take");
  return invoke(op, {x, ids}, {.axes = {static_cast<int8_t>(axis)}, .along = 1});
}
Tensor scatter(const Tensor& dy, const Tensor& ids, int axis, int64_t length) {
  static const OpRef<ScatterAttrs> op("order_scatter");
  return invoke(op, {dy, ids}, {axis, length});
}

// The gradient of x, whose elements at `ids` have the gradients dy.
Tensor moved_back(const Saved& saved, const Tensor& dy, const Tensor& ids, int axis) {
  return scatter(dy, ids, axis, saved.in_meta(0).shape[axis]);
}

Tensors sort_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<SortAttrs> op("argsort");
  const SortAttrs& a = saved.attrs<SortAttrs>();
  return {moved_back(saved, dout[0], invoke(op, {saved.in(0)}, a), a.axis)};
}
Tensors partition_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<PartitionAttrs> op("argpartition");
  const PartitionAttrs& a = saved.attrs<PartitionAttrs>();
  return {moved_back(saved, dout[0], invoke(op, {saved.in(0)}, a), a.axis)};
}
Tensors select_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<PartitionAttrs> op("argpartition");
  const PartitionAttrs& a = saved.attrs<PartitionAttrs>();
  const Tensor all = invoke(op, {saved.in(0)}, a);
  Tensors ids;
  for (int i = 0; i < a.n; ++i)
    ids.push_back(slice_axis(all, a.axis, Slice(a.kth[i], a.kth[i] + 1)));
  return {moved_back(saved, dout[0], concat(ids, {.axis = a.axis}), a.axis)};
}
Tensors topk_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {moved_back(saved, dout[0], saved.out(1), saved.attrs<TopkAttrs>().axis)};
}
Tensors scatter_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {gather(dout[0], saved.in(1), saved.attrs<ScatterAttrs>().axis), {}};
}

// Samples

struct Rows {
  Shape shape;
  int axis;
};
// Rows that are sorted by ranks and by digits, and along inner axes.
std::vector<Rows> sample_rows() {
  return {{{7}, 0}, {{3, 5}, 1}, {{5, 3}, 0}, {{2, 4, 3}, 1}, {{2, 70}, 1}, {{60, 2}, 0}};
}
template <class A>
Samples over_rows(Context c, DType d, const auto& attrs) {
  Samples all;
  for (const Rows& r : sample_rows())
    for (const A& a : attrs(r)) all.push_back(Sample({sample_values(c, d, r.shape)}, a));
  return all;
}
Samples sort_samples(Context c, DType d) {
  return over_rows<SortAttrs>(c, d, [](const Rows& r) {
    return std::vector<SortAttrs>{{r.axis, 0}, {r.axis, 1}};
  });
}
Samples topk_samples(Context c, DType d) {
  return over_rows<TopkAttrs>(c, d, [](const Rows& r) {
    return std::vector<TopkAttrs>{{r.axis, 1, 2}, {r.axis, 0, 3}, {r.axis, 1, r.shape[r.axis]}};
  });
}
Samples partition_samples(Context c, DType d) {
  return over_rows<PartitionAttrs>(c, d, [](const Rows& r) {
    const int64_t last = r.shape[r.axis] - 1;
    return std::vector<PartitionAttrs>{
        {r.axis, 1, {1}}, {r.axis, 1, {last / 2}}, {r.axis, 3, {last, 0, last / 2}}};
  });
}
Samples select_samples(Context c, DType d) {
  return over_rows<PartitionAttrs>(c, d, [](const Rows& r) {
    const int64_t last = r.shape[r.axis] - 1;
    return std::vector<PartitionAttrs>{
        {r.axis, 1, {last / 2}}, {r.axis, 2, {last / 2, last / 2 + 1}}, {r.axis, 3, {0, 1, last}}};
  });
}
Tensor sample_ids(Context c) { return array({{2, 0, 1}, {0, 2, 3}}, {c, i64}); }
Samples scatter_samples(Context c, DType d) {
  return {Sample({sample_values(c, d, {2, 3}), sample_ids(c)}, ScatterAttrs{1, 4}),
          Sample({sample_values(c, d, {3, 2}), sample_ids(c).T()}, ScatterAttrs{0, 6})};
}

// x, or x flattened, and the axis.
struct Data {
  Tensor x;
  int axis = 0;

  Data(const Tensor& given, const std::optional<int64_t>& along, const char* op) {
    detail::expect_tensor(op, given);
    x = along ? given : detail::reshape_exact(given, Shape{given.size()});
    if (along) axis = detail::axis_of(given, *along, op);
  }
};

TopkAttrs all_of(const Data& data, bool descending) {
  return {data.axis, descending, data.x.shape()[data.axis]};
}

PartitionAttrs partition_attrs(const Data& data, const Kth& kth, const char* op) {
  const int64_t n = data.x.shape()[data.axis];
  PartitionAttrs a{data.axis, static_cast<int32_t>(kth.list().size())};
  if (kth.list().empty()) throw ValueError(op, ": no kth; expected one position or more");
  int i = 0;
  for (int64_t k : kth.list()) {
    if (k < -n || k >= n)
      throw ValueError(op, ": kth ", k, " is out of bounds for axis ", data.axis, " of ",
                       describe(data.x), "; expected ",
                       n == 0 ? "an axis with elements" : text_of(-n, " to ", n - 1));
    if (i < kMaxKth) a.kth[i++] = k < 0 ? k + n : k;
  }
  return a;
}

}  // namespace

Tensor sort(const Tensor& data, const SortOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<SortAttrs> op("sort");
  static const OpRef<TopkAttrs> with_indices("topk");
  const Data d(data, o.axis, "sort");
  // The gradient needs the indices.
  if (autograd::is_recording() && needs_grad(d.x.impl())) {
    const Ref in[] = {d.x};
    return invoke_all(with_indices, in, all_of(d, o.descending))[0];
  }
  return invoke(op, {d.x}, {d.axis, o.descending});
} catch (const Error&) {
  detail::rethrow_as("sort", from);
}

Tensor argsort(const Tensor& data, const SortOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<SortAttrs> op("argsort");
  const Data d(data, o.axis, "argsort");
  return invoke(op, {d.x}, {d.axis, o.descending});
} catch (const Error&) {
  detail::rethrow_as("argsort", from);
}

Tensor lexsort(const Tensors& keys, const LexsortOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<SortAttrs> op("argsort");
  if (keys.empty()) throw ValueError("lexsort: no keys; expected one or more");
  for (const Tensor& key : keys) {
    detail::expect_tensor("lexsort", key, "key");
    if (!mix(key.context(), keys[0].context()))
      throw ContextMismatch("lexsort: operands live on different contexts: ", describe(keys[0]),
                            ", ", describe(key), "; move one first: key.as_in_context(",
                            keys[0].context(), ")");
    if (key.shape() != keys[0].shape())
      throw ShapeError("lexsort: keys ", describe(keys[0]), " and ", describe(key),
                       ": expected keys of one shape");
  }
  const int axis = detail::axis_of(keys[0], o.axis, "lexsort");
  Tensor ids = invoke(op, {keys[0]}, {axis, false});
  for (size_t i = 1; i < keys.size(); ++i)
    ids = gather(ids, invoke(op, {gather(keys[i].detach(), ids, axis)}, {axis, false}), axis);
  return ids;
} catch (const Error&) {
  detail::rethrow_as("lexsort", from);
}

Tensors detail::entries_as_keys(const Tensor& x) {
  expect_tensor("lexsort", x, "keys");
  if (x.ndim() < 2)
    throw ShapeError("lexsort: keys ", describe(x),
                     ": expected two axes or more, the first of which counts the keys");
  Tensors keys;
  for (int64_t i = 0; i < x.shape()[0]; ++i) keys.push_back(x[i]);
  return keys;
}

Topk topk(const Tensor& data, int64_t k, const TopkOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<TopkAttrs> op("topk");
  const Data d(data, o.axis, "topk");
  const Ref in[] = {d.x};
  Tensors both = invoke_all(op, in, TopkAttrs{d.axis, o.largest, k});
  return {std::move(both[0]), std::move(both[1])};
} catch (const Error&) {
  detail::rethrow_as("topk", from);
}

Tensor partition(const Tensor& data, const Kth& kth, const PartitionOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<PartitionAttrs> op("partition");
  const Data d(data, o.axis, "partition");
  const PartitionAttrs a = partition_attrs(d, kth, "partition");
  if (a.n > kMaxKth) return sort(d.x, {.axis = d.axis}, from);
  return invoke(op, {d.x}, a);
} catch (const Error&) {
  detail::rethrow_as("partition", from);
}

Tensor detail::order_select(const Tensor& x, std::span<const int64_t> kth, int axis) {
  static const OpRef<PartitionAttrs> op("order_select");
  const auto n = static_cast<int64_t>(kth.size());
  if (n > kMaxKth)
    return take(sort(x, {.axis = axis}), array(kth, {n}, {x.context(), i64}), {axis});
  PartitionAttrs a{axis, static_cast<int32_t>(n)};
  std::ranges::copy(kth, a.kth);
  return invoke(op, {x}, a);
}

Tensor argpartition(const Tensor& data, const Kth& kth, const PartitionOptions& o,
                    Caller from) try {
  const UserLine user_line(from);
  static const OpRef<PartitionAttrs> op("argpartition");
  const Data d(data, o.axis, "argpartition");
  const PartitionAttrs a = partition_attrs(d, kth, "argpartition");
  if (a.n > kMaxKth) return argsort(d.x, {.axis = d.axis}, from);
  return invoke(op, {d.x}, a);
} catch (const Error&) {
  detail::rethrow_as("argpartition", from);
}

void register_order() {
  const char* positions = "positions have none";
  OpDef<SortAttrs>("sort", {"data"})
      .infer<&infer_sort>()
      .gradient<&sort_gradient>(Keep::inputs)
      .samples<&sort_samples>();
  OpDef<SortAttrs>("argsort", {"data"})
      .infer<&infer_argsort>()
      .no_gradient(positions)
      .samples<&sort_samples>();
  OpDef<TopkAttrs>("topk", {"data"})
      .outputs(2)
      .infer<&infer_topk>()
      .gradient<&topk_gradient>(keep_output(1))
      .samples<&topk_samples>();
  OpDef<PartitionAttrs>("partition", {"data"})
      .infer<&infer_partition>()
      .gradient<&partition_gradient>(Keep::inputs)
      .samples<&partition_samples>();
  OpDef<PartitionAttrs>("argpartition", {"data"})
      .infer<&infer_argpartition>()
      .no_gradient(positions)
      .samples<&partition_samples>();
  OpDef<PartitionAttrs>("order_select", {"data"})
      .infer<&infer_select>()
      .gradient<&select_gradient>(Keep::inputs)
      .samples<&select_samples>();
  OpDef<ScatterAttrs>("order_scatter", {"dout", "ids"})
      .infer<&infer_scatter>()
      .gradient<&scatter_gradient>(keep_input(1))
      .samples<&scatter_samples>();
}

}  // namespace locus
