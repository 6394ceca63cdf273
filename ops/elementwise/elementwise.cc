// Shared by the elementwise families, and the ops of two operands.
#include <cmath>
#include <limits>

#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/activation.h>
#include <locus/ops/bitwise.h>
#include <locus/ops/call_check.h>
#include <locus/ops/elementwise/call.h>
#include <locus/ops/unary.h>

#define LOCUS_FUNCTIONS
#include <locus/ops/elementwise/bitwise_kernel.h>
#include <locus/ops/elementwise/elementwise_kernel.h>

namespace locus {

namespace detail {

Tensor as(const Tensor& x, DType d) { return x.dtype() == d ? x : x.astype(d); }

DType operand_dtype(Promotion rule, DType a) {
  if (rule == Promotion::counted && a == bool_) return i8;
  return rule == Promotion::inexact ? inexact(a) : a;
}
DType operand_dtype(Promotion rule, DType a, DType b) {
  return operand_dtype(rule, a == b ? a : promote(a, b));
}
DType operand_dtype(const Op& op, Promotion rule, DType a, Scalar& s) {
  const DType d = operand_dtype(rule, promote(a, s));
  if (holds(d, s)) [[likely]]
    return d;
  if (rule != Promotion::compared) check_fits(op.name.c_str(), d, s);
  if (!s.beyond_i64()) return i64;
  s = std::numeric_limits<double>::infinity();  // above every integer
  return f64;
}

void two_numbers(const Op& op) {
  throw Error(op.name + ": both operands are numbers; expected a tensor: full({}, number)");
}

bool Expect::holds(double v) const {
  return dispatch(dtype, [v](auto type) {
    const double held = convert<double>(convert<typename decltype(type)::type>(v));
    return std::isfinite(held) && (held == 0) == (v == 0);
  });
}
void Expect::bad(const char* name, double value, const char* expected) {
  throw ValueError("expected ", expected, " for ", name, ", got ", value);
}

namespace {

// bool < unsigned < signed < floating, NumPy's "same kind" order.
int kind(DType d) { return d == bool_ ? 0 : d == u8 ? 1 : is_integer(d) ? 2 : 3; }

// x = op(x, y) in x's memory.
void run_in_place(const Op& op, Promotion rule, const Tensor& x, const Operand& y) {
  const DType to = x.dtype();
  BinaryAttrs attrs;
  if (y.is_scalar()) attrs.scalar = y.scalar();
  const DType d = y.is_scalar() ? operand_dtype(op, rule, to, attrs.scalar)
                                : operand_dtype(rule, to, y.tensor().dtype());
  if (kind(d) > kind(to))
    throw DTypeError(op.name, " in place: the result is ", name(d), " and cannot be cast to ",
                     name(to), ", the dtype of ", describe(x),
                     "; expected a dtype of the same kind; write x = x op y, or convert x first: ",
                     "x.astype(", name(d), ")");
  if (d != to) {
    static const OpRef<CopyAttrs> copy("copy");
    return invoke_into(copy, {run(op, rule, false, x, y, BinaryAttrs())}, {x}, CopyAttrs{to});
  }
  if (y.is_scalar()) return invoke_into(op, {x}, {x}, attrs);
  const Tensor& t = y.tensor();
  const bool cast = t.dtype() != d && mix(t.context(), x.context());
  invoke_into(op, {x, cast ? t.astype(d) : t}, {x}, attrs);
}

template <class F>
Tensor& in_place(Tensor& x, const Operand& y) try {
  const UserLine user_line(y.from());
  run_in_place(op_of<F>(), kPromotion<F>, x, y);
  return x;
} catch (const Error&) {
  rethrow_at(y.from());
}

}  // namespace

DType infer_operands(std::span<const Meta> in, bool predicate, std::span<Meta> out) {
  const Meta& a = in[0];
  out[0] = a;
  if (in.size() == 2) {
    const Meta& b = in[1];
    if (a.dtype != b.dtype)
      throw DTypeError(std::string("expected operands of one dtype, got ") + name(a.dtype) +
                       " and " + name(b.dtype) + "; convert one first: x.astype(" +
                       name(promote(a.dtype, b.dtype)) + ")");
    bool same = a.rank == b.rank;
    for (int i = 0; same && i < a.rank; ++i) same = a.shape[i] == b.shape[i];
    if (!same) out[0] = make_meta(a.dtype, broadcast_shapes(Shape(a), Shape(b)));
  }
  if (predicate) out[0].dtype = bool_;
  return a.dtype;
}

}  // namespace detail

Tensor& operator+=(Tensor& x, const Operand& y) { return detail::in_place<formula::Add>(x, y); }
Tensor& operator-=(Tensor& x, const Operand& y) {
  return detail::in_place<formula::Subtract>(x, y);
}
Tensor& operator*=(Tensor& x, const Operand& y) {
  return detail::in_place<formula::Multiply>(x, y);
}
Tensor& operator/=(Tensor& x, const Operand& y) { return detail::in_place<formula::Divide>(x, y); }
Tensor& operator%=(Tensor& x, const Operand& y) { return detail::in_place<formula::Mod>(x, y); }
Tensor& operator&=(Tensor& x, const Operand& y) {
  return detail::in_place<formula::BitwiseAnd>(x, y);
}
Tensor& operator|=(Tensor& x, const Operand& y) {
  return detail::in_place<formula::BitwiseOr>(x, y);
}
Tensor& operator^=(Tensor& x, const Operand& y) {
  return detail::in_place<formula::BitwiseXor>(x, y);
}

std::pair<Tensor, Tensor> divmod(const Operand& a, const Operand& b) try {
  const UserLine user_line(a.from());
  return {floor_divide(a, b), mod(a, b)};
} catch (const Error&) {
  detail::rethrow_as("divmod", a.from());
}

void register_elementwise() {
  define_with_text(formula::BinaryOps());
  define_with_text(formula::BitwiseOps());
}

}  // namespace locus
