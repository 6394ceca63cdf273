#include <locus/ops/elementwise.h>

#include <cmath>
#include <limits>

#include <locus/core/storage.h>
#include <locus/devices/cpu.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/unary.h>

namespace locus {

namespace detail {
namespace {

bool fits(DType d, const Scalar& s) {
  const auto within = [&](int64_t low, int64_t high) {
    return s.integer() >= low && s.integer() <= high;
  };
  switch (d) {
    case i32:
      return within(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
    case u8:
      return within(0, 255);
    case i8:
      return within(-128, 127);
    default:
      return true;
  }
}

DType meet(const Op& op, Meet rule, DType a, const Scalar& s) {
  const DType d = promote(a, s);
  if (rule == Meet::inexact) return inexact(d);
  if (is_integer(d) && !fits(d, s)) {
    if (rule == Meet::compared) return i64;
    throw DTypeError(op.name + ": the number " + std::to_string(s.integer()) +
                     " does not fit the tensor's dtype " + name(d) +
                     "; convert the tensor first: x.astype(i64)");
  }
  return d;
}

DType meet(Meet rule, DType a, DType b) {
  const DType d = a == b ? a : promote(a, b);
  return rule == Meet::inexact ? inexact(d) : d;
}

// bool < unsigned < signed < floating, NumPy's "same kind" order.
int kind(DType d) { return d == bool_ ? 0 : d == u8 ? 1 : is_integer(d) ? 2 : 3; }

bool same_view(const Tensor& a, const Tensor& b) {
  const View &x = a.impl().view, &y = b.impl().view;
  if (x.data != y.data || x.meta.rank != y.meta.rank) return false;
  for (int i = 0; i < x.meta.rank; ++i)
    if (x.meta.shape[i] != y.meta.shape[i] || x.stride[i] != y.stride[i]) return false;
  return true;
}

Tensor run_scalar(const Op& op, Meet rule, const Tensor& x, const Scalar& s, bool scalar_first) {
  BinaryAttrs attrs;
  attrs.scalar = s;
  attrs.scalar_first = scalar_first;
  const DType d = meet(op, rule, x.dtype(), s);
  return d == x.dtype() ? invoke(op, {x}, attrs) : invoke(op, {x.astype(d)}, attrs);
}

}  // namespace

Tensor run(const Op& op, Meet rule, const Operand& x) {
  const Tensor& t = x.tensor();
  const DType d = rule == Meet::inexact ? inexact(t.dtype()) : t.dtype();
  return d == t.dtype() ? invoke(op, {t}) : invoke(op, {t.astype(d)});
}

Tensor run(const Op& op, Meet rule, const Operand& x, const Operand& y) {
  if (y.is_scalar()) return run_scalar(op, rule, x.tensor(), y.scalar(), false);
  if (x.is_scalar()) return run_scalar(op, rule, y.tensor(), x.scalar(), true);
  const Tensor &a = x.tensor(), &b = y.tensor();
  const DType from_a = a.dtype(), from_b = b.dtype(), d = meet(rule, from_a, from_b);
  if (from_a == d && from_b == d) return invoke(op, {a, b}, BinaryAttrs());
  // Nothing is cast, and so allocated, for operands that cannot meet.
  if (a.context() != b.context()) return invoke(op, {a, b}, BinaryAttrs());
  const Tensor left = from_a == d ? a : a.astype(d), right = from_b == d ? b : b.astype(d);
  return invoke(op, {left, right}, BinaryAttrs());
}

void run_in_place(const Op& op, Meet rule, const Tensor& x, const Operand& y) {
  const DType to = x.dtype();
  const DType d =
      y.is_scalar() ? meet(op, rule, to, y.scalar()) : meet(rule, to, y.tensor().dtype());
  if (kind(d) > kind(to))
    throw DTypeError(op.name + " in place: the result is " + name(d) + " and cannot be cast to " +
                     name(to) + ", the dtype of " + describe(x) +
                     "; expected a dtype of the same kind; write x = x op y, or convert x first: "
                     "x.astype(" +
                     name(d) + ")");
  if (d != to) {
    const Tensor result =
        y.is_scalar() ? run_scalar(op, rule, x, y.scalar(), false) : run(op, rule, x, y.tensor());
    CopyAttrs attrs;
    attrs.dtype = to;
    static const Op& copy_op = get_op("copy");
    invoke_into(copy_op, {result}, {x}, attrs);
    return;
  }
  BinaryAttrs attrs;
  if (y.is_scalar()) {
    attrs.scalar = y.scalar();
    invoke_into(op, {x}, {x}, attrs);
    return;
  }
  const Tensor& t = y.tensor();
  if (t.dtype() != d && t.context() == x.context()) {
    invoke_into(op, {x, t.astype(d)}, {x}, attrs);
  } else if (t.shares_memory_with(x) && !same_view(t, x)) {
    // An element of y may be written before it is read.
    invoke_into(op, {x, t.copyto(t.context())}, {x}, attrs);
  } else {
    invoke_into(op, {x, t}, {x}, attrs);
  }
}

DType infer_unary(std::span<const Meta> in, bool predicate, std::span<Meta> out) {
  out[0] = in[0];
  if (predicate) out[0].dtype = bool_;
  return in[0].dtype;
}

DType infer_binary(std::span<const Meta> in, bool predicate, std::span<Meta> out) {
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

Samples samples_unary(Context c, DType d, double low, double high) {
  Samples s;
  s.emplace_back(Tensors{sample_values(c, d, {2, 3}, low, high)});
  s.emplace_back(Tensors{sample_values(c, d, {37}, low, high, 1)});
  s.emplace_back(Tensors{sample_values(c, d, {3, 1, 5}, low, high, 2).T()});
  return s;
}

Samples samples_binary(Context c, DType d, double low, double high, double low2, double high2) {
  Samples s;
  const auto pair = [&](const Shape& a, const Shape& b) {
    s.emplace_back(
        Tensors{sample_values(c, d, a, low, high), sample_values(c, d, b, low2, high2, 1)},
        BinaryAttrs());
  };
  pair({2, 3}, {2, 3});
  pair({37}, {37});
  pair({2, 3}, {3});
  pair({3, 1}, {2, 1, 5});
  pair({}, {4});
  BinaryAttrs attrs;
  // 2 and, for floating dtypes, another number inside both ranges.
  attrs.scalar = is_floating(d) ? Scalar(low2 + 0.7 * (high2 - low2)) : Scalar(d == bool_ ? 1 : 2);
  s.emplace_back(Tensors{sample_values(c, d, {3, 5}, low, high)}, attrs);
  attrs.scalar = is_floating(d) ? Scalar(low + 0.6 * (high - low)) : Scalar(d == bool_ ? 1 : 2);
  attrs.scalar_first = true;
  s.emplace_back(Tensors{sample_values(c, d, {3, 5}, low2, high2)}, attrs);
  return s;
}

}  // namespace detail

Tensor& operator+=(Tensor& x, const Operand& y) {
  detail::run_in_place(op_of<formula::Add>(), Meet::promoted, x, y);
  return x;
}
Tensor& operator-=(Tensor& x, const Operand& y) {
  detail::run_in_place(op_of<formula::Subtract>(), Meet::promoted, x, y);
  return x;
}
Tensor& operator*=(Tensor& x, const Operand& y) {
  detail::run_in_place(op_of<formula::Multiply>(), Meet::promoted, x, y);
  return x;
}
Tensor& operator/=(Tensor& x, const Operand& y) {
  detail::run_in_place(op_of<formula::Divide>(), Meet::inexact, x, y);
  return x;
}
Tensor& operator%=(Tensor& x, const Operand& y) {
  detail::run_in_place(op_of<formula::Mod>(), Meet::promoted, x, y);
  return x;
}

namespace {

using formula::List;

// What a gradient below is told: the operands (numbers where they were numbers), the result, and
// the gradient that came in. dx() and dy() are called only where they are needed.
struct Pass {
  const Saved& s;
  const Tensor& d;
  const BinaryAttrs& attrs = s.attrs<BinaryAttrs>();
  bool two = s.n_in() == 2;
  int x_at = two || !attrs.scalar_first ? 0 : -1;
  int y_at = two ? 1 : attrs.scalar_first ? 0 : -1;

  bool has(int at) const { return at >= 0 && s.needs(at); }
  // f(x, y) with x and y tensors or numbers.
  template <class F>
  Tensor with(F&& f) const {
    if (two) return f(s.in(0), s.in(1));
    const double number = attrs.scalar.floating();
    return attrs.scalar_first ? f(number, s.in(0)) : f(s.in(0), number);
  }
  template <class X, class Y>
  Tensors results(X&& dx, Y&& dy) const {
    Tensors g(static_cast<size_t>(s.n_in()));
    if (has(x_at)) g[static_cast<size_t>(x_at)] = dx();
    if (has(y_at)) g[static_cast<size_t>(y_at)] = dy();
    return g;
  }
};

Tensors grad_add(const Saved& s, std::span<const Tensor> dout) {
  return Pass{s, dout[0]}.results([&] { return dout[0]; }, [&] { return dout[0]; });
}
Tensors grad_subtract(const Saved& s, std::span<const Tensor> dout) {
  return Pass{s, dout[0]}.results([&] { return dout[0]; }, [&] { return -dout[0]; });
}
Tensors grad_multiply(const Saved& s, std::span<const Tensor> dout) {
  const Pass p{s, dout[0]};
  return p.results([&] { return p.with([&](auto&, auto& y) { return dout[0] * y; }); },
                   [&] { return p.with([&](auto& x, auto&) { return dout[0] * x; }); });
}
Tensors grad_divide(const Saved& s, std::span<const Tensor> dout) {
  const Pass p{s, dout[0]};
  return p.results(
      [&] { return p.with([&](auto&, auto& y) { return dout[0] / y; }); },
      [&] { return p.with([&](auto&, auto& y) { return -(dout[0] * s.out() / y); }); });
}
Tensors grad_mod(const Saved& s, std::span<const Tensor> dout) {
  const Pass p{s, dout[0]};
  return p.results([&] { return dout[0]; },
                   [&] {
                     return p.with([&](auto& x, auto& y) -> Tensor {
                       return -(dout[0] * floor(Tensor(x / y)));
                     });
                   });
}

Tensor power_dx(const Tensor& d, const Tensor& x, double y) {
  if (y == 0) return zeros_like(d);
  return y == 1 ? d : y == 2 ? d * x * 2 : d * (power(x, y - 1) * y);
}
// x^0 has slope 0 everywhere, where y x^(y-1) would say 0 * inf at x = 0.
template <class X>
Tensor power_dx(const Tensor& d, const X& x, const Tensor& y) {
  return d * where(y == 0, 0, y * power(x, y - 1));
}
// x^y log x is 0 at x = 0, where the formula would say 0 * -inf.
Tensor power_dy(const Tensor& d, const Tensor& out, const Tensor& x) {
  return d * out * log(where(x == 0, 1, x));
}
Tensor power_dy(const Tensor& d, const Tensor& out, double x) {
  return x == 0 ? zeros_like(d) : d * out * std::log(x);
}
Tensors grad_power(const Saved& s, std::span<const Tensor> dout) {
  const Pass p{s, dout[0]};
  return p.results(
      [&] { return p.with([&](auto& x, auto& y) { return power_dx(dout[0], x, y); }); },
      [&] { return p.with([&](auto& x, auto&) { return power_dy(dout[0], s.out(), x); }); });
}
Tensors grad_maximum(const Saved& s, std::span<const Tensor> dout) {
  const Pass p{s, dout[0]};
  return p.results(
      [&] { return p.with([&](auto& x, auto& y) { return where(x >= y, dout[0], 0); }); },
      [&] { return p.with([&](auto& x, auto& y) { return where(x >= y, 0, dout[0]); }); });
}
Tensors grad_minimum(const Saved& s, std::span<const Tensor> dout) {
  const Pass p{s, dout[0]};
  return p.results(
      [&] { return p.with([&](auto& x, auto& y) { return where(x <= y, dout[0], 0); }); },
      [&] { return p.with([&](auto& x, auto& y) { return where(x <= y, 0, dout[0]); }); });
}

DType infer(std::span<const Meta> in, const BinaryAttrs&, std::span<Meta> out) {
  return detail::infer_binary(in, false, out);
}
Samples samples(Context c, DType d) { return detail::samples_binary(c, d, -2, 2, -2, 2); }
Samples samples_divisor(Context c, DType d) { return detail::samples_binary(c, d, -2, 2, 0.5, 3); }
Samples samples_power(Context c, DType d) { return detail::samples_binary(c, d, 0.3, 3, 0.4, 3); }

template <class F>
OpDef<BinaryAttrs> define() {
  OpDef<BinaryAttrs> op(F::name, {"lhs", "rhs"});
  op.inputs(1, 2).infer<&infer>().broadcasts().layout(Layout::strided);
  return op;
}

}  // namespace

void register_elementwise() {
  define<formula::Add>().gradient<&grad_add>(Keep::none).samples<&samples>();
  define<formula::Subtract>().gradient<&grad_subtract>(Keep::none).samples<&samples>();
  define<formula::Multiply>().gradient<&grad_multiply>(Keep::inputs).samples<&samples>();
  define<formula::Divide>().gradient<&grad_divide>(Keep::both).samples<&samples_divisor>();
  define<formula::Mod>().gradient<&grad_mod>(Keep::inputs).samples<&samples_divisor>();
  define<formula::Power>().gradient<&grad_power>(Keep::both).samples<&samples_power>();
  define<formula::Maximum>().gradient<&grad_maximum>(Keep::inputs).samples<&samples>();
  define<formula::Minimum>().gradient<&grad_minimum>(Keep::inputs).samples<&samples>();
}

}  // namespace locus
