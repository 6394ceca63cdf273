#include <locus/ops/pooling.h>

#include <algorithm>

#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/create.h>
#include <locus/ops/pooling/pooling_kernel.h>
#include <locus/ops/reduce.h>

namespace locus {
namespace {

int first_axis(const PoolingAttrs& a) { return a.channels_last ? 1 : 2; }

void check_rank(const Meta& x) {
  if (x.rank < 3 || x.rank > 5)
    throw ShapeError("expected data with 1 to 3 spatial axes, rank 3 to 5, got ", Shape(x));
}

int64_t pooled(int64_t n, const PoolingAttrs& a, int i) {
  const int axis = first_axis(a) + i;
  if (a.adaptive) {
    if (a.result[i] < 1 || n < 1)
      throw ShapeError("expected at least 1 element and 1 window along axis ", axis, ", got ", n,
                       " and ", a.result[i]);
    return a.result[i];
  }
  if (a.window[i] < 1 || a.stride[i] < 1 || a.padding[i] < 0 || a.padding[i] >= a.window[i])
    throw ValueError(
        "expected a window and a stride of at least 1, and 0 <= padding < window, got "
        "window ",
        a.window[i], ", stride ", a.stride[i], ", padding ", a.padding[i], " for spatial axis ", i);
  const int64_t length =
      n < 1 ? 0 : pooled_length(n, a.window[i], a.stride[i], a.padding[i], a.ceil_mode);
  if (length == 0)
    throw ShapeError("expected axis ", axis, " of the data, ", n, " long with ", a.padding[i],
                     " of padding on both sides, to be at least the window's ", a.window[i]);
  return length;
}

DType infer_pool(std::span<const Meta> in, const PoolingAttrs& a, std::span<Meta> out) {
  check_rank(in[0]);
  out[0] = in[0];
  for (int i = 0; i < in[0].rank - 2; ++i) {
    int64_t& length = out[0].shape[first_axis(a) + i];
    length = pooled(length, a, i);
  }
  return in[0].dtype;
}

// Throws unless data of shape x is pooled to y.
void check_result(const Meta& x, const Meta& y, const PoolingAttrs& a) {
  Meta expected[1];
  infer_pool({&x, 1}, a, expected);
  if (Shape(expected[0]) != Shape(y))
    throw ShapeError("expected dout ", Shape(expected[0]), ", what data ", Shape(x),
                     " is pooled to, got ", Shape(y));
}

DType infer_average_grad(std::span<const Meta> in, const PoolingAttrs& a, std::span<Meta> out) {
  check_rank(in[0]);
  out[0] = in[0];
  for (int i = 0; i < in[0].rank - 2; ++i) out[0].shape[first_axis(a) + i] = a.size[i];
  check_result(out[0], in[0], a);
  return in[0].dtype;
}

DType infer_max_grad(std::span<const Meta> in, const PoolingAttrs& a, std::span<Meta> out) {
  check_result(in[0], in[1], a);
  out[0] = in[0];
  return one_dtype(in);
}

DType infer_max_gather(std::span<const Meta> in, const PoolingAttrs& a, std::span<Meta> out) {
  if (Shape(in[0]) != Shape(in[1])) throw ShapeError("expected two tensors of one shape");
  infer_pool(in, a, out);
  return one_dtype(in);
}

// Gradients. All ops but max_pool are linear: avg_pool and avg_pool_grad are transposes of each
// other. So are max_pool_grad and max_pool_gather in their second operand.

struct Ops {
  OpRef<PoolingAttrs> max{"max_pool"}, max_grad{"max_pool_grad"}, max_gather{"max_pool_gather"},
      average{"avg_pool"}, average_grad{"avg_pool_grad"};
};
const Ops& ops() {
  static const Ops all;
  return all;
}

PoolingAttrs sized(PoolingAttrs a, const Meta& x) {
  for (int i = 0; i < x.rank - 2; ++i) a.size[i] = x.shape[first_axis(a) + i];
  return a;
}

Tensors average_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {
      invoke(ops().average_grad, {dout[0]}, sized(saved.attrs<PoolingAttrs>(), saved.in_meta(0)))};
}
Tensors average_grad_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {invoke(ops().average, {dout[0]}, saved.attrs<PoolingAttrs>())};
}
Tensors max_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {invoke(ops().max_grad, {saved.in(0), dout[0]}, saved.attrs<PoolingAttrs>())};
}
Tensors max_grad_gradient(const Saved& saved, std::span<const Tensor> dout) {
  if (!saved.needs(1)) return {Tensor(), Tensor()};
  return {Tensor(), invoke(ops().max_gather, {saved.in(0), dout[0]}, saved.attrs<PoolingAttrs>())};
}
Tensors max_gather_gradient(const Saved& saved, std::span<const Tensor> dout) {
  if (!saved.needs(1)) return {Tensor(), Tensor()};
  return {Tensor(), invoke(ops().max_grad, {saved.in(0), dout[0]}, saved.attrs<PoolingAttrs>())};
}

struct Case {
  Shape x;
  PoolingAttrs attrs;
};

std::vector<Case> cases(bool averages) {
  std::vector<Case> all;
  const auto add = [&](const Shape& x, const auto& change) {
    PoolingAttrs a;
    change(a);
    all.push_back({x, a});
  };
  add({2, 3, 8}, [](auto& a) { a.window[0] = a.stride[0] = 2; });
  add({2, 2, 5, 7}, [](auto& a) {
    a.window[0] = a.window[1] = 3, a.stride[0] = 2, a.padding[0] = a.padding[1] = 1;
  });
  add({1, 2, 6, 5}, [](auto& a) {
    a.window[0] = 3, a.window[1] = 2, a.stride[0] = a.stride[1] = 2, a.ceil_mode = true;
    a.padding[1] = 1, a.count_include_pad = false;
  });
  add({2, 4, 5, 3}, [](auto& a) {
    a.channels_last = true, a.window[0] = a.window[1] = 2, a.padding[0] = 1, a.stride[1] = 3;
  });
  add({1, 2, 3, 4, 4}, [](auto& a) {
    a.window[0] = 2, a.window[1] = 3, a.window[2] = 2, a.stride[2] = 2, a.padding[1] = 2;
  });
  if (!averages) return all;
  add({2, 2, 5, 7}, [](auto& a) { a.adaptive = true, a.result[0] = 3, a.result[1] = 4; });
  add({1, 4, 3, 2},
      [](auto& a) { a.channels_last = a.adaptive = true, a.result[0] = 2, a.result[1] = 5; });
  return all;
}

Shape result_of(const Case& k) {
  const Meta in[] = {make_meta(f32, k.x)};
  Meta out[1];
  infer_pool(in, k.attrs, out);
  return Shape(out[0]);
}

template <bool Averages>
Samples samples(Context c, DType d) {
  Samples all;
  for (const Case& k : cases(Averages)) all.push_back(Sample({sample_values(c, d, k.x)}, k.attrs));
  return all;
}
Samples average_grad_samples(Context c, DType d) {
  Samples all;
  for (const Case& k : cases(true))
    all.push_back(Sample({sample_values(c, d, result_of(k))}, sized(k.attrs, make_meta(d, k.x))));
  return all;
}
template <bool Grad>
Samples max_samples(Context c, DType d) {
  Samples all;
  for (const Case& k : cases(false))
    all.push_back(
        Sample({sample_values(c, d, k.x), sample_values(c, d, Grad ? result_of(k) : k.x, -2, 2, 1)},
               k.attrs));
  return all;
}

int axes_of(const Tensor& x, const char* op) {
  detail::expect_tensor(op, x);
  detail::expect_floating(op, {{"data", &x}});
  if (x.ndim() < 3 || x.ndim() > 5)
    throw ShapeError(op, ": expected data with 1 to 3 spatial axes, rank 3 to 5, got ", x.shape());
  return x.ndim() - 2;
}

// The spatial axes. ShapeError if one is empty.
Axes spatial_axes(const Tensor& x, bool channels_last, const char* op) {
  const int axes = axes_of(x, op), first = channels_last ? 1 : 2;
  for (int i = 0; i < axes; ++i)
    if (x.shape()[first + i] == 0)
      throw ShapeError(op, ": data ", describe(x), ": expected at least 1 element along axis ",
                       first + i);
  return axes == 1   ? Axes{first}
         : axes == 2 ? Axes{first, first + 1}
                     : Axes{first, first + 1, first + 2};
}

Tensor pool(const OpRef<PoolingAttrs>& op, const Tensor& x, const Extent& window,
            const PoolingOptions& o) {
  const std::string& who = static_cast<const Op&>(op).name;
  const int axes = axes_of(x, who.c_str());
  PoolingAttrs a;
  window.spread(axes, who, "window", a.window);
  o.strides.spread(axes, who, "strides", a.stride);
  for (int i = 0; i < axes; ++i)
    if (a.stride[i] == 0) a.stride[i] = a.window[i];
  o.padding.spread(axes, who, "padding", a.padding);
  a.channels_last = channels_last(o.layout, axes, who);
  a.ceil_mode = o.ceil_mode;
  a.count_include_pad = o.count_include_pad;
  return invoke(op, {x}, a);
}

}  // namespace

Tensor max_pool(const Tensor& x, const Extent& window, const PoolingOptions& o, Caller from) try {
  const UserLine user_line(from);
  return pool(ops().max, x, window, o);
} catch (const Error&) {
  rethrow_at(from);
}
Tensor avg_pool(const Tensor& x, const Extent& window, const PoolingOptions& o, Caller from) try {
  const UserLine user_line(from);
  return pool(ops().average, x, window, o);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor global_max_pool(const Tensor& x, std::string_view layout, Caller from) try {
  const UserLine user_line(from);
  const int axes = axes_of(x, "global_max_pool");
  PoolingAttrs a;
  a.channels_last = channels_last(layout, axes, "global_max_pool");
  int i = 0;
  const Axes spatial = spatial_axes(x, a.channels_last, "global_max_pool");
  for (const int axis : spatial.list()) a.window[i++] = x.shape()[axis];
  return detail::called_as("global_max_pool", "max_pool",
                           [&] { return invoke(ops().max, {x}, a); });
} catch (const Error&) {
  rethrow_at(from);
}
Tensor global_avg_pool(const Tensor& x, std::string_view layout, Caller from) try {
  const UserLine user_line(from);
  const bool last = channels_last(layout, axes_of(x, "global_avg_pool"), "global_avg_pool");
  const Axes axes = spatial_axes(x, last, "global_avg_pool");
  return mean(x, {.axis = axes, .keepdims = true});
} catch (const Error&) {
  rethrow_at(from);
}
Tensor adaptive_avg_pool(const Tensor& x, const Extent& size, std::string_view layout,
                         Caller from) try {
  const UserLine user_line(from);
  const int axes = axes_of(x, "adaptive_avg_pool");
  PoolingAttrs a;
  a.adaptive = true;
  size.spread(axes, "adaptive_avg_pool", "size", a.result);
  a.channels_last = channels_last(layout, axes, "adaptive_avg_pool");
  return detail::called_as("adaptive_avg_pool", "avg_pool",
                           [&] { return invoke(ops().average, {x}, a); });
} catch (const Error&) {
  rethrow_at(from);
}

void register_pooling() {
  OpDef<PoolingAttrs>("max_pool", {"data"})
      .infer<&infer_pool>()
      .gradient<&max_gradient>(Keep::inputs)
      .samples<&samples<false>>();
  OpDef<PoolingAttrs>("avg_pool", {"data"})
      .infer<&infer_pool>()
      .gradient<&average_gradient>(Keep::none)
      .samples<&samples<true>>();
  OpDef<PoolingAttrs>("avg_pool_grad", {"dout"})
      .infer<&infer_average_grad>()
      .gradient<&average_grad_gradient>(Keep::none)
      .samples<&average_grad_samples>();
  OpDef<PoolingAttrs>("max_pool_grad", {"data", "dout"})
      .infer<&infer_max_grad>()
      .gradient<&max_grad_gradient>(keep_input(0))
      .samples<&max_samples<true>>();
  OpDef<PoolingAttrs>("max_pool_gather", {"data", "other"})
      .infer<&infer_max_gather>()
      .gradient<&max_gather_gradient>(keep_input(0))
      .samples<&max_samples<false>>();
}

}  // namespace locus
