#include <locus/ops/softmax.h>

#include <string>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/devices/cpu.h>
#include <locus/ops/call_check.h>
#include <locus/ops/elementwise/call.h>
#include <locus/ops/reduce.h>
#include <locus/ops/softmax/softmax_kernel.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus {

void throw_label_out_of_range(int64_t label, DType d, int64_t row, int64_t classes) {
  throw IndexError(
      "softmax_cross_entropy: label ",
      is_exact(label, d) ? std::to_string(label) : "nan, with a fraction or past 64 bits",
      " of row ", row, " is out of range for ", classes, " classes; expected whole numbers in [0, ",
      classes, ")");
}

namespace {

// Shape inference

DType infer_softmax(std::span<const Meta> in, const SoftmaxAttrs& a, std::span<Meta> out) {
  if (a.axis < 0 || a.axis >= in[0].rank)
    throw ShapeError("expected at least one axis, and axis in [0, ", in[0].rank, "), got ", a.axis);
  const detail::Expect expect{in[0].dtype};
  expect(a.temperature > 0 && expect.holds(a.temperature) && expect.holds(1 / a.temperature),
         "temperature", a.temperature, "a number above 0 that the dtype holds, like its inverse");
  return (out[0] = in[0]).dtype;
}

bool same_shape(const Meta& a, const Meta& b) { return Shape(a) == Shape(b); }

DType infer_softmax_grad(std::span<const Meta> in, const SoftmaxAttrs& a, std::span<Meta> out) {
  if (!same_shape(in[0], in[1]) || in[0].dtype != in[1].dtype)
    throw ShapeError("expected two tensors of one shape and dtype");
  return infer_softmax(in, a, out);
}

Meta rows_of(const Meta& logits, const Meta& labels) {
  Meta rows = logits;
  rows.rank = static_cast<int8_t>(logits.rank - 1);
  if (logits.rank < 1 || !same_shape(rows, labels))
    throw ShapeError("expected labels of the shape of logits without its last axis, the classes");
  if (!is_id_dtype(labels.dtype))
    throw DTypeError("expected labels of dtype u8, i8, i32, i64, f32 or f64, got ",
                     name(labels.dtype));
  return rows;
}

DType infer_loss(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  out[0] = rows_of(in[0], in[1]);
  return in[0].dtype;
}

DType infer_loss_with_grad(std::span<const Meta> in, const NoAttrs& a, std::span<Meta> out) {
  out[1] = in[0];
  return infer_loss(in, a, out);
}

DType infer_loss_grad(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  if (!same_shape(rows_of(in[0], in[1]), in[2]) || in[2].dtype != in[0].dtype)
    throw ShapeError("expected dloss of the labels' shape and the logits' dtype");
  out[0] = in[0];
  return in[0].dtype;
}

// Gradients. With y = softmax(x / t): dx = y (dy - sum(y dy)) / t; with y = log_softmax(x / t): dx
// = (dy - exp(y) sum(dy)) / t. Each is a separate op, linear in dy.

template <formula::Name Of>
Tensors gradient_by(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<SoftmaxAttrs> op(Of.text);
  return {invoke(op, {saved.out(), dout[0]}, saved.attrs<SoftmaxAttrs>())};
}

using detail::widened;  // the formulas below have steps that leave the range of f16

Tensors softmax_grad_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<SoftmaxAttrs> op("softmax_grad");
  const SoftmaxAttrs& a = saved.attrs<SoftmaxAttrs>();
  const Tensor y = widened(saved.in(0)), dy = widened(saved.in(1)), g = widened(dout[0]);
  const ReduceOptions along{.axis = a.axis, .keepdims = true};
  Tensors result(2);
  if (saved.needs(0)) {
    const Tensor inner = g * (dy - sum(y * dy, along)) - dy * sum(g * y, along);
    result[0] = detail::as(inner * (1 / a.temperature), saved.in_dtype(0));
  }
  if (saved.needs(1)) result[1] = invoke(op, {saved.in(0), dout[0]}, a);
  return result;
}

Tensors log_softmax_grad_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const SoftmaxAttrs& a = saved.attrs<SoftmaxAttrs>();
  const Tensor y = widened(saved.in(0)), dy = widened(saved.in(1)),
               g = widened(dout[0]) * (1 / a.temperature);
  const ReduceOptions along{.axis = a.axis, .keepdims = true};
  const Tensor weighted = g * exp(y);
  Tensors result(2);
  if (saved.needs(0)) result[0] = detail::as(-(weighted * sum(dy, along)), saved.in_dtype(0));
  if (saved.needs(1)) result[1] = detail::as(g - sum(weighted, along), saved.in_dtype(1));
  return result;
}

Tensors loss_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<> op("softmax_cross_entropy_grad");
  return {invoke(op, {saved.in(0), saved.in(1), dout[0]}), Tensor()};
}

// Also of the second result, softmax(logits) - one_hot(labels), for create_graph.
Tensors loss_with_grad_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<SoftmaxAttrs> softmax_grad("softmax_grad");
  Tensor dx;
  if (dout[0].defined()) dx = loss_gradient(saved, dout)[0];
  if (!dout[1].defined()) return {dx, Tensor()};
  const Tensor& logits = saved.in(0);
  const Tensor wide =
      invoke(softmax_grad, {softmax(widened(logits)), widened(dout[1])}, {logits.ndim() - 1, 1});
  const Tensor more = detail::as(wide, logits.dtype());
  return {dx.defined() ? dx + more : more, Tensor()};
}

Tensors loss_with_grad_at_head(const Saved& saved, std::span<const Tensor>) {
  return {saved.out(1), Tensor()};
}

// dlogits = (softmax(logits) - one_hot(labels)) * dloss.
Tensors loss_grad_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<> op("softmax_cross_entropy_grad");
  static const OpRef<SoftmaxAttrs> softmax_grad("softmax_grad");
  const Tensor logits = widened(saved.in(0)), dloss = widened(saved.in(2)), g = widened(dout[0]);
  const Tensor& labels = saved.in(1);
  const int axis = logits.ndim() - 1;
  Tensors result(3);
  if (saved.needs(0)) {
    const Tensor head = g * expand_dims(dloss, axis);
    result[0] =
        detail::as(invoke(softmax_grad, {softmax(logits), head}, {axis, 1}), saved.in_dtype(0));
  }
  if (saved.needs(2)) {
    const Tensor slope = invoke(op, {logits, labels, ones_like(dloss)});
    result[2] = detail::as(sum(g * slope, {.axis = axis}), saved.in_dtype(2));
  }
  return result;
}

// Samples

Samples samples(Context c, DType d) {
  return {
      Sample({sample_values(c, d, {7})}, SoftmaxAttrs{0, 1}),
      Sample({sample_values(c, d, {3, 5})}, SoftmaxAttrs{1, 1}),
      Sample({sample_values(c, d, {3, 5})}, SoftmaxAttrs{0, 2}),
      Sample({sample_values(c, d, {2, 37})}, SoftmaxAttrs{1, 0.7}),
      Sample({sample_values(c, d, {2, 3, 4})}, SoftmaxAttrs{1, 1}),
  };
}

Samples grad_samples(Context c, DType d) {
  Samples all = samples(c, d);
  for (Sample& s : all) s.inputs.push_back(sample_values(c, d, s.inputs[0].shape(), -2, 2, 1));
  return all;
}

Samples loss_samples(Context c, DType d) {
  Samples all;
  for (DType labels : {i64, i32, u8}) {
    const Tensor ids = array(std::vector<int64_t>{2, 0, 4}, {c, i64}).astype(labels);
    all.push_back(Sample({sample_values(c, d, {3, 5}), ids}));
  }
  const Tensor ids = array(std::vector<int64_t>{36, 1}, {c, i64});
  all.push_back(Sample({sample_values(c, d, {2, 37}), ids}));
  return all;
}

Samples loss_grad_samples(Context c, DType d) {
  Samples all = loss_samples(c, d);
  for (Sample& s : all) s.inputs.push_back(sample_values(c, d, s.inputs[1].shape(), -2, 2, 1));
  return all;
}

Tensor run(const Op& op, const Tensor& data, const SoftmaxOptions& o) {
  detail::expect_tensor(op.name, data);
  const Tensor x = amp::widen(data);
  const SoftmaxAttrs attrs{detail::axis_of(data, o.axis, op.name), o.temperature};
  return is_floating(x.dtype()) ? invoke(op, {x}, attrs) : invoke(op, {x.astype(f64)}, attrs);
}

}  // namespace

Tensor softmax(const Tensor& x, const SoftmaxOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<SoftmaxAttrs> op("softmax");
  return run(op, x, o);
} catch (const Error&) {
  rethrow_at(from);
}
Tensor log_softmax(const Tensor& x, const SoftmaxOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<SoftmaxAttrs> op("log_softmax");
  return run(op, x, o);
} catch (const Error&) {
  rethrow_at(from);
}
Tensor softmax_cross_entropy(const Tensor& data, const Tensor& labels, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<> op("softmax_cross_entropy");
  detail::expect_tensor("softmax_cross_entropy", data);
  detail::expect_tensor("softmax_cross_entropy", labels, "labels");
  const Tensor logits = amp::widen(data);
  if (is_floating(logits.dtype()) && is_id_dtype(labels.dtype())) [[likely]] {
    // One kernel for the loss and, if it is a head, its gradient. If it is none, large logits would
    // pay more for the memory than for another launch.
    static const OpRef<> with_grad("softmax_cross_entropy_with_grad");
    constexpr int64_t kSmall = int64_t{1} << 20;
    const Ref in[] = {logits, labels};
    if (autograd::is_recording() && logits.size() <= kSmall) return invoke_all(with_grad, in)[0];
    return invoke(op, {logits, labels});
  }
  return invoke(op, {is_floating(logits.dtype()) ? logits : logits.astype(f64),
                     is_id_dtype(labels.dtype()) ? labels : labels.astype(f32)});
} catch (const Error&) {
  rethrow_at(from);
}

void register_softmax() {
  OpDef<SoftmaxAttrs>("softmax", {"data"})
      .infer<&infer_softmax>()
      .gradient<&gradient_by<"softmax_grad">>(Keep::outputs)
      .samples<&samples>();
  OpDef<SoftmaxAttrs>("log_softmax", {"data"})
      .infer<&infer_softmax>()
      .gradient<&gradient_by<"log_softmax_grad">>(Keep::outputs)
      .samples<&samples>();
  OpDef<SoftmaxAttrs>("softmax_grad", {"out", "dout"})
      .infer<&infer_softmax_grad>()
      .gradient<&softmax_grad_gradient>(Keep::inputs)
      .samples<&grad_samples>();
  OpDef<SoftmaxAttrs>("log_softmax_grad", {"out", "dout"})
      .infer<&infer_softmax_grad>()
      .gradient<&log_softmax_grad_gradient>(Keep::inputs)
      .samples<&grad_samples>();
  OpDef<>("softmax_cross_entropy", {"logits", "labels"})
      .infer<&infer_loss>()
      .gradient<&loss_gradient>(Keep::inputs)
      .samples<&loss_samples>();
  OpDef<>("softmax_cross_entropy_with_grad", {"logits", "labels"})
      .outputs(2)
      .infer<&infer_loss_with_grad>()
      .gradient<&loss_with_grad_gradient>(Keep::inputs)
      .head_gradient<&loss_with_grad_at_head>(keep_output(1))
      .samples<&loss_samples>();
  OpDef<>("softmax_cross_entropy_grad", {"logits", "labels", "dloss"})
      .infer<&infer_loss_grad>()
      .gradient<&loss_grad_gradient>(Keep::inputs)
      .samples<&loss_grad_samples>();
}

}  // namespace locus
