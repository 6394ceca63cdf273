#include <locus/ops/copy.h>

#include <algorithm>

#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/devices/cpu.h>
#include <locus/ops/call_check.h>
#include <locus/ops/create.h>

namespace locus {

namespace {

DType copy_infer(std::span<const Meta> in, const CopyAttrs& a, std::span<Meta> out) {
  expect_dtype(a.dtype);
  out[0] = in[0];
  out[0].dtype = a.dtype;
  return in[0].dtype;
}

DType copy_several_infer(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  if (in.size() != out.size() || in.empty())
    throw ShapeError(in.size(), " inputs, ", out.size(), " targets; expected equal numbers");
  std::copy(in.begin(), in.end(), out.begin());
  return in[0].dtype;
}

Tensors copy_gradient(const Saved& saved, std::span<const Tensor> dout) {
  if (!is_floating(saved.in_dtype(0)) || !is_floating(saved.attrs<CopyAttrs>().dtype)) return {{}};
  if (saved.in_dtype(0) == dout[0].dtype()) return {dout[0]};
  return {cast(dout[0], saved.in_dtype(0))};
}

Samples copy_samples(Context c, DType d) {
  Samples s;
  s.push_back({{sample_values(c, d, {3, 5})}, CopyAttrs{d}});
  s.push_back({{sample_values(c, d, {2, 3, 7}).T()}, CopyAttrs{d}});
  s.push_back({{sample_values(c, d, {19, 33}).T()}, CopyAttrs{is_floating(d) ? d : f32}});
  s.back().differentiable = is_floating(d);
  s.push_back({{sample_values(c, d, {})}, CopyAttrs{d}});
  s.push_back({{sample_values(c, d, {2, 5})}, CopyAttrs{d == f64 ? f32 : f64}});
  s.back().differentiable = is_floating(d) && d != f64;  // a step function, by rounding
  return s;
}

Samples contiguous_samples(Context c, DType d) {
  Samples s;
  s.push_back({{sample_values(c, d, {4, 3}).T()}, CopyAttrs{d}});
  s.push_back({{sample_values(c, d, {2, 35, 17}).T()}, CopyAttrs{d}});
  return s;
}

}  // namespace

Tensor cast(const Tensor& x, DType dtype, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<CopyAttrs> op("copy");
  detail::expect_tensor("cast", x);
  return invoke(op, {x}, CopyAttrs{dtype});
} catch (const Error&) {
  rethrow_at(from);
}

Tensor copy(const Tensor& x, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("copy", x);
  return cast(x, x.dtype());
} catch (const Error&) {
  rethrow_at(from);
}

Tensor contiguous(const Tensor& x, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<CopyAttrs> op("contiguous");
  detail::expect_tensor("contiguous", x);
  return x.contiguous() ? x : invoke(op, {x}, CopyAttrs{x.dtype()});
} catch (const Error&) {
  rethrow_at(from);
}

Tensor Tensor::astype(DType dtype, Caller from) const { return cast(*this, dtype, from); }
Tensor Tensor::clone(Caller from) const { return copy(*this, from); }

void register_copy() {
  OpDef<CopyAttrs>("copy", {"data"})
      .infer<&copy_infer>()
      .layout(Layout::strided)
      .gradient<&copy_gradient>(Keep::none)
      .samples<&copy_samples>();
  // Copies row-major inputs to the outputs, in one launch.
  OpDef("copy_several")
      .infer<&copy_several_infer>()
      .outputs(Op::kAny)
      .in_place()
      .no_gradient("it writes what exists")
      .no_samples("it has as many targets as inputs; compile_test covers it");
  OpDef<CopyAttrs>("contiguous", {"data"})
      .infer<&copy_infer>()
      .layout(Layout::rows)
      .gradient<&copy_gradient>(Keep::none)
      .samples<&contiguous_samples>();
}

}  // namespace locus
