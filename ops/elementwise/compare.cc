#include <locus/ops/elementwise/call.h>

#define LOCUS_FUNCTIONS
#include <locus/ops/elementwise/compare_kernel.h>

namespace locus {

namespace detail {
namespace {

DType number_dtype(const Scalar& a, const Scalar& b) {
  const auto kind = std::max(a.kind(), b.kind());
  return kind == Scalar::Kind::floating ? f32 : kind == Scalar::Kind::integer ? i64 : bool_;
}
TernaryAttrs numbers(const Operand& x, const Operand& y) {
  return {x.scalar(), y.scalar(), x.is_scalar(), y.is_scalar()};
}
Tensor mask(Context c, const Shape& shape) { return sample_values(c, f32, shape, -2, 2, 3) > 0; }
}  // namespace

Tensor run_where(const Op& op, const Tensor& condition, const Operand& x, const Operand& y) {
  expect_tensor(op.name, condition, "condition");
  if (!x.is_scalar()) expect_tensor(op.name, x.tensor(), "x");
  if (!y.is_scalar()) expect_tensor(op.name, y.tensor(), "y");
  const Tensor mask = condition.dtype() == bool_ ? condition : condition != 0;
  TernaryAttrs a = numbers(x, y);
  if (a.x_scalar && a.y_scalar) {
    a.dtype = number_dtype(a.x, a.y);
    check_fits("where", a.dtype, a.x);
    check_fits("where", a.dtype, a.y);
    return invoke(op, {mask}, a);
  }
  if (a.x_scalar || a.y_scalar) {
    const Tensor& t = (a.x_scalar ? y : x).tensor();
    a.dtype = operand_dtype(op, Promotion::promoted, t.dtype(), a.x_scalar ? a.x : a.y);
    return invoke(op, {mask, as(t, a.dtype)}, a);
  }
  a.dtype = promote(x.tensor().dtype(), y.tensor().dtype());
  return invoke(op, {mask, as(x.tensor(), a.dtype), as(y.tensor(), a.dtype)}, a);
}

Tensor run_ternary(const Op& op, const Tensor& t, const Operand& x, const Operand& y) {
  TernaryAttrs a = numbers(x, y);
  a.dtype = t.dtype();
  if (a.x_scalar && a.y_scalar) return invoke(op, {t}, a);
  if (a.x_scalar || a.y_scalar) return invoke(op, {t, (a.x_scalar ? y : x).tensor()}, a);
  return invoke(op, {t, x.tensor(), y.tensor()}, a);
}

DType infer_ternary(std::span<const Meta> in, bool masked, const TernaryAttrs& a,
                    std::span<Meta> out) {
  if (masked && in[0].dtype != bool_)
    throw DTypeError("expected a bool condition, got ", name(in[0].dtype),
                     "; compare it: condition != 0");
  const size_t wanted = 1u + !a.x_scalar + !a.y_scalar;
  if (in.size() != wanted)
    throw ValueError("expected ", wanted, " inputs beside ", 3 - wanted, " numbers");
  Shape shape(in[0]);
  for (const Meta& m : in.subspan(masked ? 1 : 0)) {
    if (m.dtype != a.dtype)
      throw DTypeError("expected operands of dtype ", name(a.dtype), ", got ", name(m.dtype),
                       "; convert it first: x.astype(", name(a.dtype), ")");
    shape = broadcast_shapes(shape, Shape(m));
  }
  out[0] = make_meta(a.dtype, shape);
  return a.dtype;
}

Samples samples_where(Context c, DType d) {
  Samples s;
  const auto x = [&](const Shape& shape) { return sample_values(c, d, shape, -2, 2); };
  TernaryAttrs a;
  a.dtype = d;
  s.emplace_back(Tensors{mask(c, {2, 3}), x({2, 3}), sample_values(c, d, {2, 3}, -2, 2, 1)}, a);
  s.emplace_back(Tensors{mask(c, {3, 1}), x({4}), sample_values(c, d, {2, 1, 4}, -2, 2, 1)}, a);
  a.y = 1;
  a.y_scalar = true;
  s.emplace_back(Tensors{mask(c, {37}), x({37})}, a);
  a.x = 2;
  a.x_scalar = true;
  a.y_scalar = false;
  s.emplace_back(Tensors{mask(c, {2, 5}), x({5})}, a);
  a.y_scalar = true;
  s.emplace_back(Tensors{mask(c, {3, 5})}, a);
  s.back().differentiable = false;
  return s;
}

}  // namespace detail

void register_compare() { define_with_text(formula::CompareOps()); }

}  // namespace locus
